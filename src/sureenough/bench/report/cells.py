"""How a cell reads, the same in every form of a table; and how text is kept from being more than text."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from sureenough.bench.result import Cell, Measure, Provenance, ResultColumn

NOTHING: Final = "–"


def _sevens(value: float, digits: int | None) -> str:
    """In units of 10^7; three figures where the paper's one decimal would leave nothing."""
    sevens = value / 1e7
    if digits is not None:
        return f"{sevens:.{digits}f}"
    return f"{sevens:.1f}" if abs(sevens) >= 10 else f"{sevens:.3g}"


_FORMS: Final[dict[str, Callable[[float, int | None], str]]] = {
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


def shown(cell: Cell, column: ResultColumn) -> str:
    """As people read it; the interval in brackets."""
    if isinstance(cell, Measure):
        bounds = interval(cell, column)
        return plain(cell, column) + (f" {bounds}" if bounds else "")
    return plain(cell, column)


def plain(cell: Cell, column: ResultColumn) -> str:
    """The value alone."""
    value = cell.value if isinstance(cell, Measure) else cell
    if value is None:
        return NOTHING
    return value if isinstance(value, str) else _FORMS[column.kind](value, column.digits)


def interval(cell: Measure, column: ResultColumn) -> str:
    """[low, high], where both are known."""
    if cell.value is None or cell.low is None or cell.high is None:
        return ""
    return f"[{plain(cell.low, column)}, {plain(cell.high, column)}]"


def heading(column: ResultColumn) -> str:
    """Title, unit, and whose number it is."""
    head = f"{column.title}, {column.unit}" if column.unit else column.title
    return f"{head} (paper, {column.theirs})" if column.theirs else head


def value_of(cell: Cell) -> str | int | float | None:
    """What a program would want: the number, not its form."""
    return cell.value if isinstance(cell, Measure) else cell


def origin(provenance: Provenance) -> str:
    """The command and the versions, in a line."""
    versions = ", ".join(f"{name} {version}" for name, version in provenance.versions.items())
    return one_line(f"{provenance.command} ({versions})")


def one_line(text: str) -> str:
    """Without line ends and control characters."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029]+", " ", text).strip()


def slug(text: str) -> str:
    """For file names: letters, digits and hyphens, nothing else."""
    return re.sub(r"[^A-Za-z0-9]+", "-", text).strip("-")[:80] or "unnamed"
