"""What a problem is: a question in plain words, its one right answer, and the task it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """A problem as its family makes it; `core` is what a worked solution starts from."""

    family: str
    question: str
    gold: str
    core: Any


@dataclass(frozen=True, slots=True)
class GeneratedProblem:
    """A generated question; the same level, seed and number give the same one for ever."""

    id: str
    level: int
    family: str
    question: str
    gold: str
