"""A problem: a question, its answer, and the expression it was made from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Task:
    """A problem as its family makes it; `core` is the expression that a worked solution starts from."""

    family: str
    question: str
    gold: str
    core: Any


@dataclass(frozen=True, slots=True)
class GeneratedProblem:
    """A generated question; the same level, seed and number always give the same one."""

    id: str
    level: int
    family: str
    question: str
    gold: str
