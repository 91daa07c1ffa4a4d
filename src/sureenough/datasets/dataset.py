"""A dataset: where its rows come from, how a row is read, how its questions are asked and what its answers are.

To add one, make a `Dataset` in builtin.py and name it in the dict at the end of that file.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sureenough.answers import Judge, resolve_kind
from sureenough.answers.boxed_kinds import LetterChoice
from sureenough.datasets.files import DatasetProblem

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
