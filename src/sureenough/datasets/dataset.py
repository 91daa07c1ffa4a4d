"""A dataset: where its rows come from, how one is read, how its questions are put and what its answers are.

To add one: a file in this folder that makes a `Dataset`, and a line in the dict of `__init__`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sureenough.api import TEMPLATE
from sureenough.datasets.files import DatasetProblem

Row = Mapping[str, Any]
"""A row as its file has it."""


@dataclass(frozen=True, slots=True)
class Hub:
    """A file of a dataset on the Hugging Face hub."""

    id: str
    file: str
    split: str
    config: str = "default"

    @property
    def converted(self) -> str:
        """The same rows in the hub's own conversion, should the authors move their file."""
        return f"{self.config}/{self.split}/0000.parquet"


def as_it_is(row: Row, seed: int) -> Row:
    """A row that needs no change: id, question or problem, gold or answer, level."""
    return row


@dataclass(frozen=True, slots=True)
class Dataset:
    """Questions with known answers."""

    name: str
    about: str  # a line: what it is, and its licence
    count: int | None = None  # how many questions the whole of it has
    hub: Hub | None = None
    read: Callable[[Row, int], Row] = as_it_is  # from the file's columns to ours; the seed shuffles choices
    make: Callable[[int], list[DatasetProblem]] | None = None  # questions that are made, not loaded, from the seed
    template: str = TEMPLATE
    kind: str = "math"  # of answer, unless a row says its own
    numeric: bool = False  # every answer is a number
    choices: str = "ABCD"
    graded: bool = True  # every question has an answer
    hidden: bool = False  # its authors ask that questions are not published: they are never printed or kept


def renamed(**columns: str) -> Callable[[Row, int], Row]:
    """A reader that takes a column from where this dataset has it: `renamed(id="unique_id")`."""

    def read(row: Row, seed: int) -> Row:
        return {**row, **{ours: row[theirs] for ours, theirs in columns.items() if theirs in row}}

    return read
