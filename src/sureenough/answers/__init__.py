"""When are two answers the same? The one place that decides it.

For now: when their stripped strings are equal, and an empty answer equals nothing.
"""

from __future__ import annotations

from collections.abc import Iterable


def same(a: str, b: str) -> bool:
    """Whether two answers are one candidate."""
    return a.strip() == b.strip() != ""


def grouped(answers: Iterable[str | None]) -> dict[str, str]:
    """The class of each answer, as the session is told of it."""
    return {answer: answer.strip() for answer in answers if answer is not None}


def grade(gold: str, answer: str | None) -> bool:
    """Whether an answer is right."""
    return answer is not None and same(gold, answer)
