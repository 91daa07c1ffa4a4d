"""The result of an experiment as data: tables, figures, notes and provenance.

Reports are made from this alone. It is written as strict JSON (NaN as null) and read with unknown fields refused.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, Final, Literal

import msgspec

from sureenough.errors import UsageError
from sureenough.pools.durable import write_file
from sureenough.redact import redact

Kind = Literal["text", "count", "number", "percent", "points", "tokens", "tokens7", "ratio", "seconds", "scientific"]
"""How a column prints: `percent` and `points` hold shares, `tokens7` prints in units of 10^7."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Refuses unknown fields."""


class Measure(_Strict, frozen=True):
    """A value with its 95% interval."""

    value: float | None
    low: float | None
    high: float | None


Cell = str | int | float | Measure | None


class ResultColumn(_Strict, frozen=True):
    """One column of a table."""

    title: str
    kind: Kind = "text"
    unit: str = ""  # shown after the title, such as "per question"
    digits: int | None = None  # after the decimal point; None leaves it to the kind
    paper: str = msgspec.field(default="", name="theirs")  # if the numbers are the paper's: which table of it


class Table(_Strict, frozen=True):
    """Rows of cells, aligned with the columns."""

    name: str  # for file names: letters, digits and hyphens
    title: str
    columns: list[ResultColumn]
    rows: list[list[Cell]]
    notes: list[str] = []
    live: bool = False  # measured on a live engine; replayed and live numbers never share a table


class Series(_Strict, frozen=True):
    """One line, set of bars or cloud of points."""

    name: str
    x: list[float | str | None]
    y: list[float | None]
    low: list[float | None] = []  # 95% intervals, if there are any
    high: list[float | None] = []
    labels: list[str] = []  # one name per point
    paper: str = msgspec.field(default="", name="theirs")  # likewise: which figure or table


class Axis(_Strict, frozen=True):
    """What an axis measures."""

    title: str
    scale: Literal["linear", "log", "category"] = "linear"
    percent: bool = False  # values are shares, printed times 100


class Figure(_Strict, frozen=True):
    """One set of axes. A line joins its points, bars stand on categories, steps draw a histogram."""

    name: str
    title: str
    kind: Literal["line", "bar", "points", "steps"]
    x: Axis
    y: Axis
    series: list[Series]
    notes: list[str] = []
    live: bool = False


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


class ExperimentResult(_Strict, frozen=True):
    """One experiment's outcome."""

    name: str
    title: str
    tables: list[Table]
    figures: list[Figure]
    notes: list[str]
    provenance: Provenance
    schema: int = 1

    def to_json(self) -> bytes:
        """As JSON; numbers that are not finite become null."""
        plain = finite(msgspec.to_builtins(self))
        return msgspec.json.format(msgspec.json.encode(plain), indent=1) + b"\n"

    def save(self, file: Path) -> None:
        """Write it durably; a reader never sees half of it."""
        file.parent.mkdir(parents=True, exist_ok=True)
        write_file(file, self.to_json())


SCHEMA: Final = 1


def read(file: Path) -> ExperimentResult:
    """A saved result. Version 0.1 wrote commands with their secrets, so the command is cleaned here too."""
    try:
        result = msgspec.json.decode(file.read_bytes(), type=ExperimentResult)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} is not a result of this version ({error}); run the experiment again") from None
    if result.schema != SCHEMA:
        raise UsageError(f"{file} has schema {result.schema}, this version reads {SCHEMA}; upgrade sureenough")
    for table in result.tables:
        if any(len(row) != len(table.columns) for row in table.rows):
            raise UsageError(f"{file}: a row of table {table.name!r} does not fit its columns; run it again")
    clean = msgspec.structs.replace(result.provenance, command=redact(result.provenance.command))
    return msgspec.structs.replace(result, provenance=clean)


def finite(value: Any) -> Any:
    """JSON values with null instead of NaN and infinity."""
    if isinstance(value, dict):
        return {key: finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
