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

from sureenough.answers.boxed_kinds import REPLAY_LIMITS, Limits
from sureenough.answers.canonical import canonical_key
from sureenough.answers.compare import Verdict
from sureenough.answers.extract import split_thinking
from sureenough.answers.judge import (
    LIVE_PATIENCE,
    REPLAY_PATIENCE,
    REPLAY_SECONDS,
    SYMBOLIC_SECONDS,
    VERSION,
    MathJudge,
)
from sureenough.answers.key_types import Key
from sureenough.answers.kinds import Judge, extract, for_question, resolve_kind
from sureenough.answers.symbolic import WORKER


def classes(answers: Iterable[str | None], *, symbolic_seconds: float = SYMBOLIC_SECONDS) -> list[int | None]:
    """The class of each answer to one question, numbered by first appearance; None for None."""
    return MathJudge(symbolic_seconds, patience=REPLAY_PATIENCE).classes(answers)


def same(a: str, b: str) -> bool:
    """Whether two answers to one question are the same answer."""
    return explain(a, b).same


def grade(
    gold: str,
    answer: str | None,
    *,
    percent: bool = False,
    rounding: bool = False,
    decimal_comma: bool = False,
) -> bool:
    """Whether an answer is the gold one; no answer never is. The options are those of `MathJudge.grade`."""
    if answer is None:
        return False
    return MathJudge(patience=REPLAY_PATIENCE).grade(
        gold, answer, percent=percent, rounding=rounding, decimal_comma=decimal_comma
    )


def explain(a: str, b: str) -> Verdict:
    """Same or different, and how that was decided: `str(explain(a, b))` is "same, by keys" and the like."""
    return MathJudge(patience=REPLAY_PATIENCE).explain(a, b)


def warm_up(timeout: float = 30.0) -> bool:
    """Start the symbolic worker and wait until it is ready, so that the first pair does not wait for it."""
    return WORKER.warm_up(timeout)


__all__ = [
    "LIVE_PATIENCE",
    "REPLAY_LIMITS",
    "REPLAY_PATIENCE",
    "REPLAY_SECONDS",
    "SYMBOLIC_SECONDS",
    "VERSION",
    "Judge",
    "Key",
    "Limits",
    "MathJudge",
    "Verdict",
    "canonical_key",
    "classes",
    "explain",
    "extract",
    "for_question",
    "grade",
    "resolve_kind",
    "same",
    "split_thinking",
    "warm_up",
]
