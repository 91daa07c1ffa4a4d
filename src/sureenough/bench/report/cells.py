"""How a cell is printed, the same in every form of a table; and how text is kept from acting as markup."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import msgspec

from sureenough.bench.result import ALL_ALIKE, NOTHING_CHANGED, Cell, Measure, Provenance, ResultColumn, Table

MISSING: Final = "–"


def _sevens(value: float, digits: int | None) -> str:
    """In units of 10^7; three significant digits if the paper's one decimal would show nothing."""
    sevens = value / 1e7
    if digits is not None:
        return f"{sevens:.{digits}f}"
    return f"{sevens:.1f}" if abs(sevens) >= 10 else f"{sevens:.3g}"


_FORMATS: Final[dict[str, Callable[[float, int | None], str]]] = {
    "text": lambda value, digits: f"{value:g}",
    "count": lambda value, digits: f"{value:,.{digits or 0}f}",
    "number": lambda value, digits: f"{value:,.{2 if digits is None else digits}f}",
    "percent": lambda value, digits: f"{100 * value:.{1 if digits is None else digits}f}",
    "points": lambda value, digits: f"{round(100 * value, 1) + 0.0:+.{1 if digits is None else digits}f}",
    "tokens": lambda value, digits: f"{value:,.{digits or 0}f}",
    "tokens7": _sevens,
    "ratio": lambda value, digits: f"{value:.{1 if digits is None else digits}f}x",
    "seconds": lambda value, digits: f"{value:,.{2 if digits is None else digits}f}",
    "scientific": lambda value, digits: f"{value:.{2 if digits is None else digits}e}",
}


def printed(cell: Cell, column: ResultColumn) -> str:
    """The value with its interval in brackets."""
    if isinstance(cell, Measure):
        bounds = interval(cell, column)
        return value_text(cell, column) + (f" {bounds}" if bounds else "")
    return value_text(cell, column)


def value_text(cell: Cell, column: ResultColumn) -> str:
    value = cell.value if isinstance(cell, Measure) else cell
    if value is None:
        return MISSING
    return value if isinstance(value, str) else _FORMATS[column.kind](value, column.digits)


def interval(cell: Measure, column: ResultColumn) -> str:
    """[low, high], if both are known; in words if it has no width, which says little about other questions."""
    if cell.value is None or cell.low is None or cell.high is None:
        return ""
    if cell.low == cell.high:
        return NOTHING_CHANGED if column.kind == "points" and cell.value == 0.0 else ALL_ALIKE
    return f"[{value_text(cell.low, column)}, {value_text(cell.high, column)}]"


def heading(column: ResultColumn) -> str:
    """Title, unit, and the table of the paper if the numbers are its own."""
    head = f"{column.title}, {column.unit}" if column.unit else column.title
    return f"{head} (paper, {column.paper})" if column.paper else head


def value_of(cell: Cell) -> str | int | float | None:
    """The bare value, for programs."""
    return cell.value if isinstance(cell, Measure) else cell


def without_constants(table: Table) -> tuple[Table, str]:
    """The table less the columns that are the same in every row, and their values."""
    by_column = list(enumerate(zip(*table.rows, strict=True))) if len(table.rows) > 1 else []
    constant = [i for i, cells in by_column if not isinstance(cells[0], Measure) and len(set(cells)) == 1]
    if not constant or len(constant) == len(table.columns):
        return table, ""
    shown = [i for i in range(len(table.columns)) if i not in constant]
    values = [f"{heading(table.columns[i])}: {printed(table.rows[0][i], table.columns[i])}" for i in constant]
    rows = [[row[i] for i in shown] for row in table.rows]
    columns = [table.columns[i] for i in shown]
    return msgspec.structs.replace(table, columns=columns, rows=rows), f"In all rows: {'; '.join(values)}"


def origin(provenance: Provenance) -> str:
    """The command and the versions, in one line."""
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    return one_line(f"{provenance.command} ({versions})")


def one_line(text: str) -> str:
    """Without line ends and control characters."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029\ufffe\uffff]+", " ", text).strip()


def slug(text: str) -> str:
    """For file names: letters, digits and hyphens, nothing else."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:80] or "unnamed"
