"""A dataset: where its rows come from, how a row is read, how its questions are asked and what its answers are.

To add one, make a `Dataset` in builtin.py and name it in the dict at the end of that file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from unicodedata import category

from sureenough.answers import Judge, canonical_key, extract, resolve_kind
from sureenough.answers.kinds import ALL_LETTERS, LetterChoice, Math, offered_letters
from sureenough.datasets.files import DatasetProblem
from sureenough.errors import UsageError

Row = Mapping[str, Any]
"""A row as its file has it."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A file of a dataset on the Hugging Face hub, at one commit."""

    id: str
    file: str
    revision: str  # the full hash: branches and tags can move


def unchanged(row: Row, seed: int) -> Row:
    """The reader of files that have our columns: id, question or problem, gold or answer, level."""
    return row


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions with known answers."""

    name: str
    about: str  # one line: what it is, and its licence
    count: int | None = None  # questions in a complete copy
    hub: Hub | None = None
    read: Callable[[Row, int], Row] = unchanged  # from the file's columns to ours; the seed shuffles choices
    make: Callable[[int], list[DatasetProblem]] | None = None  # generates the questions from the seed
    template: str | None = None  # by default what the kind of answer asks for
    kind: str = "math"  # of answer, unless a row has its own
    numeric: bool = False  # every answer is a number
    choices: str = ""  # letters of kind "choice"; by default those in a question, or A to J
    graded: bool = True  # every question has an answer
    hidden: bool = False  # its authors ask not to publish the questions: they are never printed or stored

    def judge(self, problem: DatasetProblem) -> Judge:
        judge = resolve_kind(problem.kind or self.kind)
        unset = isinstance(judge, LetterChoice) and not judge.letters
        return LetterChoice(self.choices) if unset and self.choices else judge


def renamed(**columns: str) -> Callable[[Row, int], Row]:
    """A reader for files that name a column differently: `renamed(id="unique_id")`."""

    def read(row: Row, seed: int) -> Row:
        return {**row, **{ours: row[column] for ours, column in columns.items() if column in row}}

    return read


# Checks on loaded questions: no control characters, readable answers, the right number of them.

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
