"""The caller's side of the worker: one killable child process, shared by all threads of this process.

No call waits longer than it was told to, whatever the child does. A child that was killed is replaced in
the background at once, and so is one that died by itself.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

WAIT = 2.0  # seconds: a caller's whole wait for one comparison
MAX_FAILED_STARTS = 3
MAX_MESSAGE = 10_000  # characters: well below what a pipe holds, so that writing never blocks
_GRACE = 1.0  # seconds given to a killed child to be gone


@dataclass(frozen=True, slots=True)
class WorkerReply:
    """What came back: `same` is None where no verdict did, and `why` says the reason."""

    same: bool | None
    why: str
    seconds: float  # from the moment the request was sent
    waited: float = 0.0  # before that: for another thread, or for the worker to start


class _Child:
    """One process with its pipes and the thread that reads its replies."""

    def __init__(self) -> None:
        from sureenough.answers.worker import receive, send

        self._send, self._receive = send, receive
        self.ready = threading.Event()
        self.came_up = False
        self.replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sureenough.answers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a buffer has a lock, and a fork may inherit it locked
            env=_environment(),
        )
        self.reader = threading.Thread(target=self._read, name="sureenough-answers", daemon=True)
        self.reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        with contextlib.suppress(OSError, ValueError):  # the pipe breaks when the child is killed
            while (message := self._receive(self.process.stdout)) is not None:
                if "ready" in message:
                    self.came_up = True
                    self.ready.set()
                else:
                    self.replies.put(message)
        self.replies.put(None)
        self.ready.set()  # nobody shall wait for a dead child

    @property
    def alive(self) -> bool:
        return self.process.poll() is None

    def ask(self, message: dict[str, Any], timeout: float) -> dict[str, Any] | None:
        """The reply to a message; None where the child died. Raises queue.Empty on timeout."""
        assert self.process.stdin is not None
        try:
            self._send(self.process.stdin, message)
        except OSError:
            return None
        return self.replies.get(timeout=max(0.0, timeout))

    def end(self) -> None:
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_GRACE)
        self.reader.join(_GRACE)
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def abandon(self) -> None:
        """In a forked copy of the parent: let go of the pipes; the process is not ours to kill."""
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()
        self.process.returncode = 0


def _environment() -> dict[str, str]:
    """The child finds this very package first, wherever the parent found it, and counts with one thread."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in sys.path if path and os.path.isdir(path))]
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    own = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONWARNINGS": "ignore"}
    return {**os.environ, **single, **own}


class Worker:
    """Starts the child when it is first needed, and asks it one comparison at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._child: _Child | None = None
        self._failed = 0
        self._numbers = itertools.count(1)

    @property
    def pid(self) -> int | None:
        child = self._child
        return child.process.pid if child is not None and child.alive else None

    def warm_up(self, timeout: float = 30.0) -> bool:
        """Start the child and wait until it is ready; False where it is not by then. 0: do not wait."""
        with self._lock:
            child = self._ensure()
        return child is not None and child.ready.wait(timeout) and child.alive

    def ask(
        self, gold: str, answer: str, *, both: bool = True, limit: float = WAIT, patience: float = WAIT
    ) -> WorkerReply:
        """Whether two LaTeX texts are the same, within WAIT seconds in all.

        `limit` bounds the comparison itself, `patience` the wait before it: for other threads, for a start.
        """
        began = time.monotonic()
        if len(gold) + len(answer) > MAX_MESSAGE:
            return WorkerReply(None, "too long", 0.0)
        if not self._lock.acquire(timeout=min(WAIT, patience)):
            return WorkerReply(None, "timeout", 0.0, time.monotonic() - began)
        try:
            reply = self._attempt(gold, answer, both, began, limit, min(WAIT, patience))
            if reply.why == "worker died":  # killed from outside, perhaps: its successor may still make it
                again = self._attempt(gold, answer, both, began, limit - reply.seconds, WAIT)
                reply = replace(again, seconds=again.seconds + reply.seconds)
            return reply
        finally:
            self._lock.release()

    def _attempt(self, gold: str, answer: str, both: bool, began: float, limit: float, patience: float) -> WorkerReply:
        """One request to the child, once it is ready; every wait counts from `began`."""
        child = self._ensure()
        if child is None:
            return WorkerReply(None, "no worker", 0.0, time.monotonic() - began)
        if not child.ready.wait(max(0.0, began + patience - time.monotonic())):
            return WorkerReply(None, "timeout", 0.0, time.monotonic() - began)
        sent, number = time.monotonic(), next(self._numbers)
        deadline = min(began + WAIT, sent + limit)
        why, reply = "timeout", None
        with contextlib.suppress(queue.Empty):
            reply = child.ask({"id": number, "gold": gold, "answer": answer, "both": both}, deadline - sent)
            why = "worker died" if reply is None else str(reply.get("error", ""))
        seconds = time.monotonic() - sent
        if reply is None:
            self._replace(child)
            return WorkerReply(None, why, seconds, sent - began)
        return WorkerReply(reply.get("same") if reply["id"] == number else None, why, seconds, sent - began)

    def _ensure(self) -> _Child | None:
        """The child, started if need be; None where starting has failed too often."""
        child = self._child
        if child is not None and not child.alive:
            self._replace(child)
        elif child is None:
            self._start()
        return self._child

    def _start(self) -> None:
        if self._failed < MAX_FAILED_STARTS and sys.executable:
            try:
                self._child = _Child()
            except OSError:
                self._failed += 1

    def _replace(self, child: _Child) -> None:
        """Kill a child and start the next one, both without making the caller wait."""
        self._failed = 0 if child.came_up else self._failed + 1
        child.process.kill()
        threading.Thread(target=child.end, name="sureenough-answers-end", daemon=True).start()
        self._child = None
        self._start()

    def stop(self) -> None:
        """Kill the child, if there is one; the next question starts another."""
        with self._lock:
            child, self._child = self._child, None
            self._failed = 0
        if child is not None:
            child.end()

    def forget(self) -> None:
        """After a fork: the child belongs to the other process, and so does whoever held the lock."""
        child, self._child = self._child, None
        self._lock = threading.Lock()
        if child is not None:
            child.abandon()


WORKER = Worker()
atexit.register(WORKER.stop)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=WORKER.forget)
