"""Processes that benchmarks on a GPU start: their groups, their turns, and servers among them."""

from __future__ import annotations

import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterable
from pathlib import Path

Process = subprocess.Popen[bytes]


def responds(port: int) -> bool:
    """Whether a server says that it is ready; it may be one that an earlier run left."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=5):
            return True
    except OSError:
        return False


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
