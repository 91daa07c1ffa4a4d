"""The worker: started late, killed safely, shared by threads, gone at the end."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from sureenough import answers
from sureenough.answers import symbolic
from sureenough.answers.symbolic import SymbolicWorker
from tests.in_thread import until

ONE, TWO = r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}"
WAIT = 2.0
SLACK = 3.0
"""Seconds that a busy machine may take longer; a wait that is not kept takes minutes."""
SLOW = "100000000!"  # our bounds never let it through; here it stands for anything that takes too long
SOURCE = str(Path(symbolic.__file__).parents[2])
posix = pytest.mark.skipif(os.name != "posix", reason="signals and /proc")


START = 180.0
"""Seconds for a worker to start on a busy machine; two or three are usual."""


@pytest.fixture
def worker(monkeypatch: pytest.MonkeyPatch) -> Iterator[SymbolicWorker]:
    """A worker that a test may harm, without a spare."""
    monkeypatch.setattr(symbolic, "CHILDREN", 1)
    own = SymbolicWorker()
    assert own.warm_up(START)
    yield own
    own.stop()


@pytest.fixture(scope="module")
def shared_worker() -> Iterator[SymbolicWorker]:
    """A worker for tests that leave it as it was, or lend it with its spare."""
    own = SymbolicWorker()
    assert own.warm_up(START)
    yield own
    own.stop()


def python(code: str, cwd: Path, *options: str) -> subprocess.CompletedProcess[str]:
    script = cwd / "script.py"
    script.write_text(textwrap.dedent(code))
    return subprocess.run(
        [sys.executable, "-W", "error", *options, str(script)],
        cwd=cwd, capture_output=True, text=True, timeout=240, check=False,
        env={**os.environ, "PYTHONPATH": SOURCE},
    )  # fmt: skip


def gone(pid: int, within: float = 40.0) -> bool:
    deadline = time.monotonic() + within
    while time.monotonic() < deadline:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        stat = Path(f"/proc/{pid}/stat")
        if stat.exists() and stat.read_text().rpartition(")")[2].split()[0] == "Z":
            return True  # dead, and waiting for whoever adopted it
        time.sleep(0.02)
    return False


def test_importing_starts_nothing_and_loads_nothing(tmp_path: Path) -> None:
    done = python(
        """
        import sys
        from sureenough import answers
        answers.classes(["1/2", "0.5", "x+1", "(x+1)^2", None])
        answers.extract("\\\\boxed{5}")
        loaded = {"sympy", "math_verify", "latex2sympy2_extended", "multiprocessing"} & set(sys.modules)
        assert not loaded, loaded
        from sureenough.answers.symbolic import WORKER
        assert WORKER.pids == []
        """,
        tmp_path,
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_a_script_without_a_main_guard_runs_once(tmp_path: Path) -> None:
    done = python(
        f"""
        print("started")
        from sureenough import answers
        assert answers.warm_up(180)
        print(answers.same({ONE!r}, {TWO!r}))
        from sureenough.answers.symbolic import WORKER
        print(WORKER.pids[0])
        """,
        tmp_path,
    )
    assert done.stderr == ""
    started, same, pid = done.stdout.split()
    assert (started, same) == ("started", "True")
    assert gone(int(pid))


def test_a_module_of_the_same_name_nearby_is_not_loaded(tmp_path: Path) -> None:
    (tmp_path / "math_verify.py").write_text("raise SystemExit('the wrong one')")
    done = python(
        f"""
        import sys; sys.path.remove({str(tmp_path)!r})
        from sureenough import answers
        assert answers.warm_up(180)
        print(answers.same({ONE!r}, {TWO!r}))
        """,
        tmp_path,
    )
    assert (done.stdout.strip(), done.stderr) == ("True", "")


@posix
def test_a_killed_parent_leaves_no_worker_behind(tmp_path: Path) -> None:
    script = tmp_path / "parent.py"
    script.write_text(
        "import time\nfrom sureenough import answers\nfrom sureenough.answers.symbolic import WORKER\n"
        "assert answers.warm_up(180)\nprint(WORKER.pids[0], flush=True)\n"
        f"WORKER.ask({SLOW!r}, '5')\ntime.sleep(60)\n"
    )
    with subprocess.Popen(
        [sys.executable, str(script)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": SOURCE},
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.2)
        parent.kill()
    assert gone(pid)


def test_a_first_question_starts_the_worker() -> None:
    own = SymbolicWorker()
    try:
        assert own.pids == []
        began = time.monotonic()
        reply = own.ask("x+x", "2x", patience=WAIT)
        assert time.monotonic() - began < WAIT + SLACK
        assert reply.same is True or reply.why == "timeout"
        assert own.ask("x+x", "2x").same is True
    finally:
        own.stop()


def test_a_caller_stops_waiting_and_the_spare_serves_the_next(shared_worker: SymbolicWorker) -> None:
    began = time.monotonic()
    reply = shared_worker.ask(SLOW, "5", patience=0.5)
    assert (reply.same, reply.why, reply.settled) == (None, "timeout", False)
    assert time.monotonic() - began < 0.5 + SLACK
    assert shared_worker.ask("x+x", "2x").same is True


def test_a_verdict_is_kept_for_whoever_asks_later(worker: SymbolicWorker) -> None:
    assert worker.ask(r"\sin(2x)", r"2\sin(x)\cos(x)", patience=0.0).why == "timeout"
    deadline = time.monotonic() + 30
    while worker.ask(r"\sin(2x)", r"2\sin(x)\cos(x)", patience=0.0).same is None:
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_steps_are_bounded_and_the_same_for_every_child(
    worker: SymbolicWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = worker.ask(r"\sin(2x)", r"2\sin(x)\cos(x)")
    worker.stop()
    worker._known.clear()
    worker.ask(r"\cos(2x)", r"1-2\sin(x)^{2}")
    again = worker.ask(r"\sin(2x)", r"2\sin(x)\cos(x)")
    assert first.same is again.same is True
    assert again.steps == first.steps
    monkeypatch.setattr(symbolic, "PAIR_STEPS", first.steps // 2)
    worker._known.clear()
    limited = worker.ask(r"\sin(2x)", r"2\sin(x)\cos(x)")
    assert (limited.same, limited.why, limited.settled) == (None, "too many steps", True)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="a worker that cannot fork learns from pair to pair")
def test_a_pair_takes_the_same_steps_whatever_the_worker_compared_before(shared_worker: SymbolicWorker) -> None:
    """Its LaTeX parser learns and its modules are loaded on first use, which once made later pairs cheaper."""
    pairs = [("y^{2}", "(|y|)^{2}"), (r"\frac{a}{b}+\frac{b}{a}", r"\frac{a^{2}+b^{2}}{a\cdot b}"), (r"x!+1", r"1+x!")]
    first = [shared_worker.ask(*pair) for pair in pairs]
    shared_worker._known.clear()
    again = [shared_worker.ask(*pair) for pair in reversed(pairs)]
    assert [(reply.same, reply.steps) for reply in first] == [(reply.same, reply.steps) for reply in reversed(again)]
    assert [reply.same for reply in first] == [True] * 3


@posix
def test_the_copy_that_compares_ends_with_its_worker(worker: SymbolicWorker) -> None:
    pid = worker.pids[0]
    children = Path(f"/proc/{pid}/task/{pid}/children")
    if not children.exists():
        pytest.skip("needs Linux's list of children")
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(worker.ask, SLOW, "5")
        until(children.read_text)
        copy = int(children.read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        until(lambda: not Path(f"/proc/{copy}").exists() or "Z (zombie)" in Path(f"/proc/{copy}/status").read_text())
        assert asked.result().same is None


@posix
def test_code_that_makes_no_calls_is_ended_by_its_cpu_time(shared_worker: SymbolicWorker) -> None:
    reply = shared_worker.ask(SLOW, "5")
    assert (reply.same, reply.settled) == (None, True)
    assert reply.why in ("too much CPU time", "MemoryError")
    assert shared_worker.ask("x+x", "2x").same is True


@posix
def test_killed_from_outside_between_questions(worker: SymbolicWorker) -> None:
    os.kill(worker.pids[0], signal.SIGKILL)
    time.sleep(0.1)
    assert worker.ask("x+x", "2x").same is True


def test_a_killed_child_that_is_not_gone_yet_is_replaced(
    worker: SymbolicWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A busy machine can take longer to end a process than anything here waits for it."""

    def not_gone(timeout: float) -> None:
        raise subprocess.TimeoutExpired("child", timeout)

    child = worker._servers[0].child
    assert child is not None
    process = child.process
    with monkeypatch.context() as patch:
        patch.setattr(process, "poll", lambda: None)
        patch.setattr(process, "wait", not_gone)
        child.kill()
        assert not child.alive
        assert worker.ask("x+x", "2x").same is True
    process.wait()


@posix
def test_killed_from_outside_mid_comparison(worker: SymbolicWorker) -> None:
    killer = threading.Timer(0.3, os.kill, (worker.pids[0], signal.SIGKILL))
    killer.start()
    assert worker.ask(SLOW, "5").same is None
    assert worker.ask("x+x", "2x").same is True


@posix
def test_a_stopped_child_is_a_timeout_and_the_spare_serves(
    worker: SymbolicWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(symbolic, "CHILDREN", 2)
    os.kill(worker.pids[0], signal.SIGSTOP)
    assert worker.ask("x+x", "2x", patience=0.1).why == "timeout"
    assert worker.ask("x+y+x", "2x+y").same is True


def test_threads_share_one_worker(shared_worker: SymbolicWorker) -> None:
    pid = shared_worker.pids[0]
    with ThreadPoolExecutor(8) as pool:
        replies = list(pool.map(lambda n: shared_worker.ask(f"{n}x+x", f"{n + 1}x").same, range(16)))
    assert replies == [True] * 16
    assert shared_worker.pids[0] == pid
    assert len(shared_worker.pids) <= symbolic.CHILDREN


def test_in_a_thread() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(answers.warm_up, START).result()
        assert pool.submit(answers.same, ONE, TWO).result() is True


def test_in_a_running_event_loop() -> None:
    async def main() -> tuple[bool, bool]:
        here = answers.same(ONE, TWO)
        return here, await asyncio.to_thread(answers.same, r"\cos 2x", r"2\cos^2 x - 1")

    assert answers.warm_up(180)
    assert asyncio.run(main()) == (True, True)


@posix
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_a_worker_of_its_own() -> None:
    own = symbolic.WORKER
    assert own.warm_up(START)
    before = own.pids
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # pragma: no cover
        fine = own.pids == [] and own.warm_up(START) and own.pids != before and own.ask("x+x", "2x").same is True
        own.stop()
        os.write(writing, b"1" if fine else b"0")
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reading, 1) == b"1"
    os.close(reading)
    os.close(writing)
    assert own.pids[:1] == before[:1]
    assert own.ask("x+x", "2x").same is True


def test_a_worker_that_cannot_start_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    own = SymbolicWorker()
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    began = time.monotonic()
    for _ in range(symbolic.MAX_FAILED_STARTS + 2):
        reply = own.ask("x+x", "2x")
    assert (reply.same, reply.why) == (None, "no worker")
    assert time.monotonic() - began < SLACK
    judge = answers.MathJudge(worker=own)
    assert str(judge.explain(r"\sqrt{7+2\sqrt{6}}", r"1+\sqrt{6}")) == "different, no verdict in time"
    assert judge.unsettled == 1


def test_a_worker_that_dies_at_once_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    own = SymbolicWorker()
    monkeypatch.setattr("sureenough.answers.child.environment", lambda: {**os.environ, "PYTHONHOME": "/nowhere"})
    for _ in range(symbolic.MAX_FAILED_STARTS + 2):
        reply = own.ask("x+x", "2x")
    assert (reply.same, reply.why) == (None, "no worker")
    own.stop()


def test_a_message_too_long_for_a_pipe_is_not_sent(shared_worker: SymbolicWorker) -> None:
    assert shared_worker.ask("x" * 20_000, "x").why == "too long"
    assert shared_worker.ask("x+x", "2x").same is True


def test_replies_survive_a_library_that_prints(shared_worker: SymbolicWorker) -> None:
    assert shared_worker.ask(r"\frac{x}{0}", r"\frac{x}{0}").why != "timeout"
    assert shared_worker.ask("x+x", "2x").same is True
