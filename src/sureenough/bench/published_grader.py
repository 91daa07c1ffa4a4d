"""Grading by math-verify, the grader of many published results, so that accuracies can be compared with theirs.

The library evaluates what it reads, needs any amount of memory, and its time-outs do not end long calls in C. So it
runs in a child process: this file as a script. A child that takes too long is killed and replaced, and the answer is
wrong. It never takes part in a vote.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import AbstractContextManager, closing, nullcontext
from importlib import metadata
from threading import Timer
from typing import Final

SECONDS: Final = 60.0
"""For one answer: twice what the library's own time-outs (5 s each) allow if all of them pass."""
START_SECONDS: Final = 200.0
MEMORY: Final = 4 * 2**30
"""Bytes that a child may map, on Linux."""


def math_verify_version() -> str | None:
    """The version that is installed, if any."""
    try:
        return metadata.version("math-verify")
    except metadata.PackageNotFoundError:
        return None


class MathVerify:
    """Grades in a child process, which starts with the first answer; one thread at a time."""

    def __init__(self) -> None:
        self.lost = 0  # answers that took too long, or ended their child
        self._child: subprocess.Popen[str] | None = None

    def __call__(self, gold: str, answer: str) -> bool:
        if self._child is None or self._child.poll() is not None:
            self._start()
        reply = self._ask(SECONDS, gold, answer)
        if not reply:
            self.lost += 1
            self.close()
        return reply == "true"

    def close(self) -> None:
        """End the child; the next answer starts another."""
        child, self._child = self._child, None
        if child is not None:
            child.kill()
            child.communicate()

    def _start(self) -> None:
        self.close()
        # -P: modules that happen to lie in the working directory are not loaded.
        self._child = subprocess.Popen(
            [sys.executable, "-P", __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            encoding="ascii",
        )  # fmt: skip
        if not self._ask(START_SECONDS, "1", "1"):
            from sureenough.errors import UsageError  # which the child does not need

            self.close()
            raise UsageError("math-verify does not work here; python -c 'import math_verify' says why")

    def _ask(self, seconds: float, gold: str, answer: str) -> str:
        """The child's reply; empty if it has died, or did not reply in time and was killed."""
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        timer = Timer(seconds, child.kill)
        timer.start()
        try:
            child.stdin.write(json.dumps([gold, answer]) + "\n")
            child.stdin.flush()
            return child.stdout.readline().strip()
        except OSError:  # it has died before
            return ""
        finally:
            timer.cancel()


def open_grader(name: str) -> AbstractContextManager[MathVerify | None]:
    """The grader of that name; None for the own grading of each kind of answer."""
    return closing(MathVerify()) if name == "math-verify" else nullcontext()


# -- in the child


def _serve() -> None:
    """Reply to each line with true or false."""
    replies = os.fdopen(os.dup(1), "w", encoding="ascii")
    os.dup2(2, 1)  # what the library prints is not a reply
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the parent
    if sys.platform == "linux":
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    from math_verify import parse, verify

    for line in sys.stdin:
        gold, answer = json.loads(line)
        _limit_cpu_time(SECONDS)
        try:
            right = bool(verify(parse(f"${gold}$"), parse(f"\\boxed{{{answer}}}")))
        except Exception:  # of any kind: it reads what a model wrote
            right = False
        _limit_cpu_time(0)
        replies.write(f"{json.dumps(right)}\n")
        replies.flush()


def _limit_cpu_time(seconds: float) -> None:
    """End this process if it is still busy then, even in C code and without a parent; 0 ends the limit."""
    if hasattr(signal, "setitimer"):
        signal.setitimer(signal.ITIMER_PROF, seconds)


if __name__ == "__main__":
    _serve()
