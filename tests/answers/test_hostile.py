"""No answer holds the caller, fills the memory or is executed, and the next answer works as before."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
import time
from pathlib import Path

import pytest

from sureenough import answers
from sureenough.answers import bounds
from sureenough.answers.symbolic import WORKER

from .hostile import HOSTILE, PAYLOADS

keys_module = importlib.import_module("sureenough.answers.canonical")
resource = pytest.importorskip("resource", reason="memory is measured where the system can")
LONGEST = 5.0  # seconds: the longest wait for the worker, and a busy machine
MEMORY = 2**30  # bytes
OTHERS = ["5", "x+1", r"\sqrt{3+2\sqrt{2}}"]


@pytest.fixture(scope="module", autouse=True)
def ready() -> None:
    assert answers.warm_up(180)


def resident(pid: int) -> int:
    status = Path(f"/proc/{pid}/status")
    if not status.exists():
        return 0
    found = re.search(r"VmHWM:\s+(\d+) kB", status.read_text())
    return int(found[1]) * 1024 if found else 0


def test_there_are_enough_of_them() -> None:
    assert len(HOSTILE) + len(PAYLOADS) >= 60


@pytest.mark.parametrize("answer", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_answer(answer: str) -> None:
    for other in (*OTHERS, answer + " ", f"{answer}+0", f"({answer})"):
        began = time.perf_counter()
        verdict = answers.explain(answer, other)
        answers.classes([answer, other, None])
        assert time.perf_counter() - began < LONGEST, (answer[:60], other[:60], str(verdict))
    began = time.perf_counter()
    answers.extract(answer)
    answers.extract(f"\\boxed{{{answer}}}", "choice")
    assert time.perf_counter() - began < LONGEST
    assert answers.same("1/2", "0.5")


@pytest.mark.parametrize("payload", PAYLOADS)
def test_nothing_is_executed(payload: str, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    text = payload.replace("{}", str(mark)).replace("{{", "{").replace("}}", "}")
    for other in (*OTHERS, text, f"{text}+0"):
        answers.explain(text, other)
    WORKER.ask(text, "5")  # past every bound, straight to the worker
    WORKER.ask(text, text)
    assert not mark.exists()
    assert not list(tmp_path.iterdir())


def test_memory_stays_small() -> None:
    """Runs last in this file: the most that this process and its worker ever held."""
    for answer in HOSTILE:
        answers.explain(answer, "x+1")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 < MEMORY
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024 < MEMORY
    assert all(resident(pid) < MEMORY for pid in WORKER.pids)


@pytest.mark.parametrize("text", ["(x+1)^{5000}", "9^{9^{9^{9}}}", r"\binom{10^{9}}{5\cdot10^{8}}", "100000000!"])
def test_the_worker_itself_is_bounded(text: str) -> None:
    """What the bounds would never let through ends by steps, memory or CPU time, and another child takes over."""
    began = time.perf_counter()
    reply = WORKER.ask(text, f"{text}-1", patience=LONGEST)
    assert time.perf_counter() - began < LONGEST + 1
    assert reply.same is not True
    assert answers.warm_up(180)
    assert WORKER.ask("x+x", "2x").same is True


def test_nothing_large_is_handed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    handed: list[str] = []
    ask = WORKER.ask

    def spy(gold: str, answer: str, **options: object) -> object:
        handed.extend((gold, answer))
        return ask(gold, answer, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(WORKER, "ask", spy)
    for answer in HOSTILE:
        for other in ("x+1", f"{answer}+0", f"\\sqrt{{({answer})^2}}"):
            answers.MathJudge(symbolic_seconds=0.5).explain(answer, other)
    assert all(len(text) <= bounds.MAX_TEXT for text in handed)
    assert not any(re.search(r"\d{70}", text) for text in handed)
    assert not any("_import_" in text for text in handed)


def test_a_caller_deep_in_its_own_stack_gets_a_key_too() -> None:
    """Our depth is bounded, the caller's is not: what cannot be read there is compared by its text."""
    answer = "x^{" * 12 + "y" + "}" * 12

    def deep(left: int) -> str:
        return deep(left - 1) if left else answers.canonical_key(answer).kind

    kinds = set()
    for room in range(40, 260, 10):
        keys_module._cached_key.cache_clear()
        frames = len(inspect.stack(0))
        kinds.add(deep(sys.getrecursionlimit() - frames - room))
    assert kinds == {"text", "expression"}
    keys_module._cached_key.cache_clear()
    assert answers.canonical_key(answer).kind == "expression"
