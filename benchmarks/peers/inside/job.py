"""What every program in this folder shares: it runs in a peer's environment, where sureenough is not installed.

A job is one JSON object on standard input; each answer is one JSON line on standard output.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

BOXED = r"\\boxed\{([^}]*)\}"
OUT: TextIO = sys.stdout
"""Where answers go. What a peer prints goes to standard error."""
sys.stdout = sys.stderr


@dataclass
class Job:
    """Questions with their recorded paths, and the server that sends them."""

    system: str
    url: str
    model: str
    paths: int
    window: int
    warmup: int
    questions: list[dict[str, Any]]

    @classmethod
    def read(cls) -> Job:
        """The job of this process."""
        return cls(**json.load(sys.stdin))


def boxed(text: str | None) -> str | None:
    """The last boxed answer."""
    answers = re.findall(BOXED, text or "")
    return answers[-1].strip() if answers else None


def emit(**line: Any) -> None:
    """Hand a line to the benchmark: an answer, or anything else that it knows."""
    print(json.dumps(line), file=OUT, flush=True)


@contextmanager
def timed() -> Iterator[None]:
    """Report the time that all questions took together, without imports and start-up."""
    start = time.perf_counter()
    yield
    emit(seconds=time.perf_counter() - start)
