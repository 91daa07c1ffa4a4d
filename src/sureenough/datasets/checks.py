"""What no dataset may have: control characters in a question, an answer that cannot be read, the wrong size."""

from __future__ import annotations

from typing import Final
from unicodedata import category

from sureenough.answers import canonical_key, extract
from sureenough.datasets.dataset import Dataset
from sureenough.datasets.files import DatasetProblem
from sureenough.errors import UsageError

ALLOWED: Final = "\n\t"
"""MATH-500 itself has tabs."""


def refuse_bad_problem(problem: DatasetProblem, dataset: Dataset, where: str) -> None:
    """Raise a UsageError that names the row and what is wrong with it; never with the question's text."""
    if any(category(c) == "Cc" for c in problem.id):
        raise UsageError(f"{where}: the id {problem.id!r} holds a control character")
    found = control_character(problem.question)
    if found is not None:
        raise UsageError(
            f"{where}: the question holds the control character {found!r}; a copy whose backslashes were lost has such "
            "(\\frac becomes a form feed): take another copy"
        )
    if problem.gold is None:
        if not dataset.graded:
            return
        raise UsageError(f"{where} has no answer; it is looked for in gold or answer")
    wrong = _unreadable(problem.gold, problem.kind or dataset.kind, dataset)
    if wrong is not None:
        raise UsageError(f"{where}: the answer {problem.gold[:60]!r} {wrong}")


def refuse_wrong_count(found: int, dataset: Dataset, where: str) -> None:
    """A whole dataset has all its questions."""
    if dataset.count is not None and found != dataset.count:
        raise UsageError(
            f"{where} holds {found} questions, {dataset.name} has {dataset.count}; take a whole copy, "
            f"or ask for a part of it with --limit {min(found, dataset.count)}"
        )


def control_character(text: str) -> str | None:
    """The first one that no question has; a carriage return is fine before a line feed."""
    plain = text.replace("\r\n", "\n")
    return next((c for c in plain if category(c) in ("Cc", "Cs") and c not in ALLOWED), None)


def _unreadable(gold: str, kind: str, dataset: Dataset) -> str | None:
    if kind == "choice":
        letter = len(gold) == 1 and gold in dataset.choices
        return None if letter else f"is no choice; it must be one of {', '.join(dataset.choices)}"
    if extract(f"\\boxed{{{gold}}}") is None or canonical_key(gold).kind == "empty":
        return "cannot be read: are its braces balanced?"
    if dataset.numeric and canonical_key(gold).kind != "number":
        return f"is no number, and all answers of {dataset.name} are"
    return None
