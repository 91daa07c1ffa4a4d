"""One child process that runs `sureenough.answers.worker`, seen from its parent."""

from __future__ import annotations

import contextlib
import os
import queue
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

HARD_SECONDS = 300.0  # for one comparison: the child limits its own CPU time, which a busy machine gives out slowly
GRACE_SECONDS = 10.0  # for a killed child to be gone; a busy machine takes a while


class Child:
    """One process with its pipes and the thread that reads its replies."""

    def __init__(self) -> None:
        # Imported here: the child runs that module as its main program, and must not have it imported before.
        from sureenough.answers.worker import receive, send

        self._send, self._receive = send, receive
        self.ready = threading.Event()
        self.came_up = self.killed = False
        self.replies: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "sureenough.answers.worker"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,  # a buffer has a lock, and a fork may inherit it locked
            env=environment(),
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
        self.ready.set()  # so that no thread waits for a dead child

    @property
    def alive(self) -> bool:
        return not self.killed and self.process.poll() is None  # a killed process can take a while to be gone

    def ask(self, message: dict[str, Any]) -> dict[str, Any] | None:
        """The reply to a message; None if the child died. Raises queue.Empty on timeout."""
        assert self.process.stdin is not None
        try:
            self._send(self.process.stdin, message)
        except (OSError, ValueError):  # a broken pipe, or one that was closed because the child was killed
            return None
        return self.replies.get(timeout=HARD_SECONDS)

    def kill(self) -> None:
        self.killed = True
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(GRACE_SECONDS)
        self.reader.join(GRACE_SECONDS)
        self._close_pipes()

    def abandon(self) -> None:
        """In a forked copy of the parent: close the pipes, but leave the process to the original parent."""
        self._close_pipes()
        self.process.returncode = 0

    def _close_pipes(self) -> None:
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def environment() -> dict[str, str]:
    """The child imports this very package, counts with one thread, and orders its sets as every other child does."""
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *(path for path in sys.path if path and os.path.isdir(path))]
    single = {f"{library}_NUM_THREADS": "1" for library in ("OMP", "OPENBLAS", "MKL")}
    own = {
        "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
        "PYTHONWARNINGS": "ignore",
        "PYTHONHASHSEED": "0",
    }
    return {**os.environ, **single, **own}
