"""Ctrl-C while `ask` waits inside a running loop, as in a notebook: real signals to real processes."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading

import pytest

import sureenough as se
from sureenough.core.events import Token
from sureenough.drivers import blocking
from sureenough.engines import Fake

NOTEBOOK = """
import asyncio, sys
import sureenough as se
from sureenough.core.events import Ended, Regrouped, Token
from sureenough.engines import Fake

class Slow(Fake):
    # The first path votes once another one runs; every other path waits in its middle until it is cancelled.

    first, another_runs = True, asyncio.Event()

    async def stream(self, prompt, *, seed):
        first, self.first = self.first, False
        async for tokens in super().stream(prompt, seed=seed):
            yield tokens
            await (self.another_runs.wait() if first else self.wait_for_cancel())

    async def wait_for_cancel(self):
        self.another_runs.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            print("closing", flush=True)
            await asyncio.sleep({closing})
            raise

def watch(event, actions, snapshot):
    if isinstance(event, Ended | Regrouped) and snapshot.votes.counted:
        print("counted", flush=True)

async def cell():
    engine = Slow(lambda seed: [[Token("so ", 0.5, 9.0)], [Token(r"\\boxed{{7}}", 0.5, 9.0)]])
    out = se.ask("?", engine, "sc", paths=1_000_000, parallel=2, observers=[watch])
    print(out.reason, out.answer, out.started < 1_000_000, engine.running)
    return out

{run}
print("the loop goes on", flush=True)
"""
LOOPS = {
    "a loop as a notebook runs it": "loop = asyncio.new_event_loop(); loop.run_until_complete(cell()); loop.close()",
    "asyncio.run": "asyncio.run(cell())",
}


def interrupted(run: str, closing: float, times: int) -> tuple[int, list[str], str]:
    """Exit code and lines of a child that gets Ctrl-C after its first vote, and again when it closes its paths."""
    command = [sys.executable, "-c", NOTEBOOK.format(run=run, closing=closing)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        for line in ["counted\n", "closing\n"][:times]:
            while (printed := child.stdout.readline()) != line:
                assert printed, "the child ended early"
            child.send_signal(signal.SIGINT)
        out, err = child.communicate(timeout=30)
    return child.returncode, [line for line in out.splitlines() if line not in ("counted", "closing")], err


@pytest.mark.parametrize("run", LOOPS.values(), ids=LOOPS)
def test_14_20_the_first_interrupt_takes_the_vote_so_far(run: str) -> None:
    code, output, err = interrupted(run, closing=0, times=1)
    assert (code, output, err) == (0, ["interrupted 7 True 0", "the loop goes on"], "")


@pytest.mark.parametrize("run", LOOPS.values(), ids=LOOPS)
def test_14_20_after_a_second_interrupt_nothing_is_waited_for(run: str) -> None:
    code, output, err = interrupted(run, closing=60, times=2)
    assert code != 0
    assert "the loop goes on" not in output
    assert "KeyboardInterrupt" in err


def test_14_20_an_interrupt_right_after_the_start_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    class Interrupted(threading.Thread):
        def start(self) -> None:
            super().start()
            if self.name == blocking.THREAD:
                signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(threading, "Thread", Interrupted)

    async def cell() -> se.Outcome:
        engine = Fake(lambda seed: [[Token(r"\boxed{7}", 0.5, 9.0)]])
        return se.ask("?", engine, "sc", paths=1_000_000, deadline=20)

    out = asyncio.run(cell())
    assert out.reason == "interrupted"
