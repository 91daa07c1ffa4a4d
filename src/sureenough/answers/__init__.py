"""Answers: read from a model's text, and grouped by meaning.

>>> from sureenough import answers
>>> answers.extract(r"... so the total is \\boxed{\\frac12}.")
'\\\\frac12'
>>> answers.same("1/2", r"\\frac12"), answers.same("5", "500")
(True, False)
>>> answers.classes(["0.5", None, "1/2", "7"])
[0, None, 0, 1]
"""

from __future__ import annotations

from sureenough.answers.compare import Verdict, classes, explain, same
from sureenough.answers.grading import grade
from sureenough.answers.kinds import Judge, extract, for_question, resolve_kind
from sureenough.answers.math.key import canonical_key
from sureenough.answers.math.structures import Key
from sureenough.answers.reading import split_thinking

__all__ = [
    "Judge",
    "Key",
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
]
