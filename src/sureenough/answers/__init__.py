"""Answers: read from a model's text, and grouped by meaning.

>>> from sureenough import answers
>>> answers.extract(r"... so the total is \\boxed{\\frac12}.")
'\\\\frac12'
>>> answers.same("1/2", r"\\frac12"), answers.same("5", "500")
(True, False)
>>> answers.classes(["0.5", None, "1/2", "7"])
[0, None, 0, 1]

Importing this starts no process and loads no symbolic library; the worker starts when a pair first needs it.
"""

from __future__ import annotations

from collections.abc import Iterable

from sureenough.answers.canonical import canonical_key
from sureenough.answers.classes import REPLAY_SECONDS, SYMBOLIC_SECONDS, VERSION, Grouped, Judge, group
from sureenough.answers.compare import Verdict
from sureenough.answers.extract import extract
from sureenough.answers.key_types import Key
from sureenough.answers.symbolic import WORKER


def classes(answers: Iterable[str | None], *, symbolic_seconds: float = SYMBOLIC_SECONDS) -> list[int | None]:
    """The class of each answer to one question, numbered by first appearance; None for None."""
    return Judge(symbolic_seconds).classes(answers)


def same(a: str, b: str) -> bool:
    """Whether two answers to one question are the same answer."""
    return Judge().same(a, b)


def grade(gold: str, answer: str | None) -> bool:
    """Whether an answer is the gold one; no answer never is."""
    return answer is not None and Judge().grade(gold, answer)


def explain(a: str, b: str) -> Verdict:
    """Same or different, and how that was decided: `str(explain(a, b))` is "same, by keys" and the like."""
    return Judge().explain(a, b)


def warm_up(timeout: float = 30.0) -> bool:
    """Start the symbolic worker and wait until it is ready, so that no first pair pays for its start."""
    return WORKER.warm_up(timeout)


__all__ = [
    "REPLAY_SECONDS",
    "SYMBOLIC_SECONDS",
    "VERSION",
    "Grouped",
    "Judge",
    "Key",
    "Verdict",
    "canonical_key",
    "classes",
    "explain",
    "extract",
    "grade",
    "group",
    "same",
    "warm_up",
]
