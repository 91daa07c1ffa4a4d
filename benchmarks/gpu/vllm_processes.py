"""Processes that benchmarks on a GPU start: their groups, their turns, and servers among them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

Process = subprocess.Popen[bytes]


def responds(port: int) -> bool:
    """Whether a server says that it is ready; it may be one that an earlier run left."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError:
        return False


def as_word(value: Any) -> str:
    """A value as a word of a command line."""
    return value if isinstance(value, str) else json.dumps(value)


def spawn(command: list[str], output: Path, log: Path) -> Process:
    """Start a command in a process group of its own; it appends to its files, on a new line."""
    with output.open("ab") as lines, log.open("ab") as errors:
        lines.write(b"\n")
        return subprocess.Popen(command, stdout=lines, stderr=errors, stdin=subprocess.DEVNULL, start_new_session=True)


def stop(processes: Iterable[Process], seconds: float = 15) -> None:
    """End processes with all that they started."""
    running = list(processes)
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        for process in running:
            try:
                os.killpg(process.pid, wanted)
            except ProcessLookupError:
                continue
        end = time.monotonic() + seconds
        while time.monotonic() < end and any(process.poll() is None for process in running):
            time.sleep(0.1)


@contextmanager
def own_turn(turn: Path | None) -> Iterator[None]:
    """Wait until it may be measured; the file that allows it is removed afterwards."""
    if turn is None:
        yield
        return
    go = Path(f"{turn}.go")
    Path(f"{turn}.loaded").touch()
    while not go.exists():
        time.sleep(0.02)
    try:
        yield
    finally:
        go.unlink(missing_ok=True)
