"""Checks on loaded questions: no control characters, readable answers, the right number of them."""

from __future__ import annotations

from typing import Final
from unicodedata import category

from sureenough.answers import canonical_key, extract
from sureenough.answers.boxed_kinds import ALL_LETTERS, LetterChoice, Math, offered_letters
from sureenough.datasets.dataset import Dataset
from sureenough.datasets.files import DatasetProblem
from sureenough.errors import UsageError

ALLOWED: Final = "\n\t"  # control characters that questions may have; MATH-500 has tabs


def refuse_bad_problem(problem: DatasetProblem, dataset: Dataset, where: str) -> None:
    """Raise a UsageError that names the row and the problem, without the question's text."""
    if any(category(c) == "Cc" for c in problem.id):
        raise UsageError(f"{where}: the id {problem.id!r} holds a control character")
    character = control_character(problem.question)
    if character is not None:
        raise UsageError(
            f"{where}: the question holds the control character {character!r}; a copy that lost its backslashes has it "
            "(\\frac becomes a form feed): use another copy"
        )
    if problem.gold is None:
        if not dataset.graded:
            return
        raise UsageError(f"{where} has no answer in the columns gold or answer")
    reason = _unreadable(problem, problem.gold, dataset)
    if reason is not None:
        raise UsageError(f"{where}: the answer {problem.gold[:60]!r} {reason}")


def refuse_wrong_count(count: int, dataset: Dataset, where: str) -> None:
    """Refuse an incomplete copy of a dataset."""
    if dataset.count is not None and count != dataset.count:
        raise UsageError(
            f"{where} holds {count} questions, {dataset.name} has {dataset.count}; use a complete copy, "
            f"or ask for a part of it with --limit {min(count, dataset.count)}"
        )


def control_character(text: str) -> str | None:
    """The first one that questions may not have; a carriage return is fine before a line feed."""
    normalised = text.replace("\r\n", "\n")
    return next((c for c in normalised if category(c) in ("Cc", "Cs") and c not in ALLOWED), None)


def _unreadable(problem: DatasetProblem, gold: str, dataset: Dataset) -> str | None:
    judge = dataset.judge(problem)
    if isinstance(judge, LetterChoice):
        letters = judge.letters or offered_letters(problem.question) or ALL_LETTERS
        one_of_them = len(gold) == 1 and gold in letters
        return None if one_of_them else f"is not a choice; it must be one of {', '.join(letters)}"
    if not isinstance(judge, Math):
        key = getattr(judge, "key", lambda gold: gold)
        return f"is not of the kind {problem.kind or dataset.kind}" if key(gold) is None else None
    if extract(f"\\boxed{{{gold}}}") is None or canonical_key(gold).kind == "empty":
        return "cannot be read: are its braces balanced?"
    if dataset.numeric and canonical_key(gold).kind != "number":
        return f"is not a number, and all answers of {dataset.name} are numbers"
    return None
