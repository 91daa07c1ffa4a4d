"""The result of an experiment as data: tables, figures, notes and provenance.

Reports are made from this alone. It is written as strict JSON (NaN as null) and read with unknown fields refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any, Literal, TypeVar

import msgspec

from sureenough.bench.tables import Measure, Table, one_line
from sureenough.errors import UsageError
from sureenough.pools.durable import write_file

T = TypeVar("T")
K = TypeVar("K", bound=Hashable)


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Refuses unknown fields."""


class Series(_Strict, frozen=True):
    """One line, set of bars or cloud of points."""

    name: str
    x: list[float | str | None]
    y: list[float | None]
    low: list[float | None] = []  # 95% intervals, if there are any
    high: list[float | None] = []
    marked: list[bool] = []  # of intervals: those that exclude the limit
    paper: str = ""  # likewise: which figure or table


class Axis(_Strict, frozen=True):
    """What an axis measures."""

    title: str
    scale: Literal["linear", "log", "category"] = "linear"
    percent: bool = False  # values are shares, printed times 100


class Figure(_Strict, frozen=True):
    """One set of axes. A line joins its points, bars stand on categories, steps draw a histogram.

    Intervals lie side by side, one per category of x, with their values (y) along the horizontal axis.
    """

    name: str
    title: str
    kind: Literal["line", "bar", "points", "steps", "intervals"]
    x: Axis
    y: Axis
    series: list[Series]
    notes: list[str] = []
    live: bool = False
    limits: list[float] = []  # of intervals: values that are drawn as lines across the figure


class PoolUsed(_Strict, frozen=True):
    """A pool that numbers were made from."""

    dataset: str
    model: str
    file: str  # its name without its folder
    sha256: str
    questions: int | None = None
    paths: int | None = None


class Provenance(_Strict, frozen=True):
    """Everything needed to make the numbers again."""

    command: str
    versions: dict[str, str]  # sureenough, python, numpy, scipy
    pools: list[PoolUsed]
    settings: dict[str, Any]
    seconds: float
    date: str  # ISO 8601, UTC

    @property
    def made_with(self) -> str:
        """The versions, in one line."""
        return ", ".join(f"{name} {version}" for name, version in self.versions.items())

    @property
    def origin(self) -> str:
        """The command and the versions, in one line."""
        return one_line(f"{self.command} ({self.made_with})")


class ComparedStrategy(_Strict, frozen=True):
    """A strategy in comparison with the reference, on the same questions."""

    strategy: str
    tokens: float  # per question
    difference: Measure  # of accuracy; without gold answers, of agreement with the reference
    error: float  # standard error of the difference
    agreement: float  # share of answers that are those of the reference
    agreement_low: float  # its lower limit


class Recommendation(_Strict, frozen=True):
    """Which strategy to use for one model and dataset; `bench.recommendation` makes it and puts it into words."""

    dataset: str
    model: str
    basis: Literal["accuracy", "agreement"]
    questions: int  # that the differences rest on
    reference: str
    tokens: float  # of the reference, per question
    candidates: list[ComparedStrategy]  # the cheapest first


class ExperimentResult(_Strict, frozen=True):
    """One experiment's outcome."""

    name: str
    title: str
    tables: list[Table]
    figures: list[Figure]
    notes: list[str]
    provenance: Provenance
    recommendations: list[Recommendation] = []  # one per pool, if strategies were compared

    def to_json(self) -> bytes:
        """As JSON; numbers that are not finite become null."""
        plain = finite(msgspec.to_builtins(self))
        return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"

    def save(self, file: Path) -> None:
        """Write it durably; a reader never sees half of it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, [self.to_json()])


def read(file: Path) -> ExperimentResult:
    """A saved result."""
    try:
        data = msgspec.json.decode(file.read_bytes())
        if not _fits(data):
            raise msgspec.ValidationError("a whole number out of range")
        result = msgspec.convert(data, ExperimentResult)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not a result of this version ({error}); run the experiment again") from None
    for table in result.tables:
        if any(len(row) != len(table.columns) for row in table.rows):
            raise UsageError(f"{file}: a row of table {table.name!r} does not fit its columns; run it again")
    return result


def _fits(value: Any) -> bool:
    """Whether all whole numbers in JSON are of a size that a table can print."""
    if isinstance(value, dict):
        return all(map(_fits, value.values()))
    return all(map(_fits, value)) if isinstance(value, list) else not isinstance(value, int) or abs(value) < 2**63


def grouped(items: Iterable[T], key: Callable[[T], K]) -> dict[K, list[T]]:
    """The items by key, in the order in which the keys appear."""
    groups: dict[K, list[T]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups


def finite(value: Any) -> Any:
    """JSON values with null instead of NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
