"""The one kind of table: columns with a unit and a format, rows of cells, and a form for every reader.

As text, for LaTeX, spreadsheets, terminals and web pages. Each form has one escape: text from models and
datasets stays text. As JSON a table is part of a result.
"""

from __future__ import annotations

import csv
import io
import math
import re
from collections.abc import Callable, Iterable, Sequence
from html import escape
from itertools import compress
from typing import Final, Generic, Literal, NamedTuple, TypeVar

import msgspec
from rich.table import Table as RichTable
from rich.text import Text

T = TypeVar("T")
R_contra = TypeVar("R_contra", contravariant=True)
Kind = Literal["text", "count", "number", "percent", "points", "tokens", "tokens7", "ratio", "seconds", "scientific"]
"""How a column prints: `percent` and `points` hold shares, `tokens7` prints in units of 10^7."""


class Measure(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A value with its 95% interval."""

    value: float | None
    low: float | None
    high: float | None


Cell = str | int | float | Measure | None


class Column(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One column of a table."""

    title: str
    kind: Kind = "text"
    unit: str = ""  # shown after the title, such as "per question"
    digits: int | None = None  # after the decimal point; None leaves it to the kind
    paper: str = ""  # if the numbers are the paper's: which table of it


class Table(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Rows of cells, aligned with the columns."""

    name: str  # for file names: letters, digits and hyphens
    title: str
    columns: list[Column]
    rows: list[list[Cell]]
    notes: list[str] = []
    live: bool = False  # measured on a live engine; replayed and live numbers never share a table


class Field(NamedTuple, Generic[R_contra]):
    """What a record has that a column shows, and that a figure draws."""

    column: Column
    value: Callable[[R_contra], Cell]

    def number(self, record: R_contra) -> float | None:
        """The bare value, for arithmetic and axes."""
        value = value_of(self.value(record))
        return None if isinstance(value, str) else known(value)


UNITS: Final = {"percent": "%", "points": "points", "tokens": "per question", "tokens7": "10^7", "seconds": "s"}


def columns(kind: Kind, *titles: str, unit: str | None = None, digits: int | None = None) -> list[Column]:
    """Columns of one kind, in its usual unit."""
    return [Column(title, kind, UNITS.get(kind, "") if unit is None else unit, digits) for title in titles]


def field(
    title: str, value: Callable[[T], Cell], kind: Kind = "text", unit: str | None = None, digits: int | None = None
) -> Field[T]:
    """A column in the usual unit of its kind, with its cell of a record."""
    return Field(columns(kind, title, unit=unit, digits=digits)[0], value)


def table(
    name: str, title: str, fields: Sequence[Field[T]], records: Iterable[T], notes: Iterable[str] = (), **more: bool
) -> Table:
    """One row per record; what is not a number is missing."""
    rows = [[known(one.value(record)) for one in fields] for record in records]
    return Table(name, title, [one.column for one in fields], rows, [*notes], **more)


def known(cell: T) -> T | None:
    """None for NaN."""
    return None if isinstance(cell, float) and math.isnan(cell) else cell


def measure(value: float, interval: tuple[float, float]) -> Measure:
    low, high = interval
    return Measure(known(value), known(low), known(high))


def value_of(cell: Cell) -> str | int | float | None:
    """The bare value, for programs."""
    return cell.value if isinstance(cell, Measure) else cell


# -- how cells and headings read

MISSING: Final = "–"
NOTHING_CHANGED: Final = "(no question changed)"
ALL_ALIKE: Final = "(all alike)"
"""Printed instead of an interval without width, which would look like certainty."""

_FORMATS: Final[dict[str, tuple[str, int, int]]] = {
    "text": ("{:.{}g}", 6, 1), "count": ("{:,.{}f}", 0, 1), "number": ("{:,.{}f}", 2, 1),
    "percent": ("{:.{}f}", 1, 100), "points": ("{:+.{}f}", 1, 100), "tokens": ("{:,.{}f}", 0, 1),
    "ratio": ("{:.{}f}x", 1, 1), "seconds": ("{:,.{}f}", 2, 1), "scientific": ("{:.{}e}", 2, 1),
}  # fmt: skip
"""A pattern, the digits after the decimal point, and what the value is multiplied by."""


def printed(cell: Cell, column: Column) -> str:
    """The value with its interval in brackets."""
    return f"{value_text(cell, column)} {interval(cell, column)}".rstrip()


def value_text(cell: Cell, column: Column) -> str:
    value = value_of(cell)
    if value is None or isinstance(value, str):
        return MISSING if value is None else value
    if column.kind == "tokens7":
        sevens = value / 1e7
        return f"{sevens:.1f}" if abs(sevens) >= 10 else f"{sevens:.3g}"  # the paper's one decimal could show nothing
    pattern, digits, scale = _FORMATS[column.kind]
    text = pattern.format(scale * value, digits if column.digits is None else column.digits)
    return text.replace("-", "+") if column.kind == "points" and float(text) == 0 else text


def interval(cell: Cell, column: Column) -> str:
    """[low, high], if both are known; in words if it has no width, which says little about other questions."""
    if not isinstance(cell, Measure) or cell.low is None:
        return ""
    if cell.high is None:
        return f"[≥ {value_text(cell.low, column)}]"
    if cell.low == cell.high:
        return NOTHING_CHANGED if column.kind == "points" and cell.value == 0.0 else ALL_ALIKE
    return f"[{value_text(cell.low, column)}, {value_text(cell.high, column)}]"


def heading(column: Column) -> str:
    """Title, unit, and the table of the paper if the numbers are its own."""
    head = f"{column.title}, {column.unit}" if column.unit else column.title
    return f"{head} (paper, {column.paper})" if column.paper else head


def without_constants(table: Table) -> tuple[Table, str]:
    """The table less the columns that are the same in every row, and their values."""
    cells = list(zip(*table.rows, strict=True)) if len(table.rows) > 1 else []
    constant = [not isinstance(one[0], Measure) and len(set(one)) == 1 for one in cells]
    if not any(constant) or all(constant):
        return table, ""
    pairs = zip(table.columns, cells, constant, strict=True)
    same = [f"{heading(column)}: {printed(of_one[0], column)}" for column, of_one, is_same in pairs if is_same]
    varying = [not is_same for is_same in constant]
    rows = [list(compress(row, varying)) for row in table.rows]
    shown = msgspec.structs.replace(table, columns=list(compress(table.columns, varying)), rows=rows)
    return shown, f"In all rows: {'; '.join(same)}"


# -- the forms


def one_line(text: str) -> str:
    """Without line ends and control characters."""
    return re.sub(r"[\x00-\x1f\x7f\u0085\u2028\u2029\ufffe\uffff]+", " ", text).strip()


def _texts(table: Table, escaped: Callable[[str], str] = str) -> list[list[str]]:
    """The headings, then the cells of every row."""
    body = [[printed(*cell) for cell in zip(row, table.columns, strict=True)] for row in table.rows]
    return [[escaped(text) for text in row] for row in ([heading(one) for one in table.columns], *body)]


def aligned(table: Table) -> list[str]:
    """For a pipe: columns two spaces apart, without lines."""
    rows = _texts(table)
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def for_terminal(table: Table, width: int, least_needed: Sequence[str]) -> tuple[RichTable, list[str]]:
    """A table that fits, and the titles of the columns that had to go, the least needed first; no text is cut."""
    columns = {one.title: (one, texts) for one, *texts in zip(table.columns, *_texts(table), strict=True)}
    left_out = []
    for title in least_needed:
        if sum(max(map(len, texts)) for _, texts in columns.values()) + 3 * len(columns) + 1 > width:
            left_out.append(columns.pop(title)[0].title)
    rich = RichTable(title=Text(table.title, "bold"), title_justify="left", title_style="", header_style="bold")
    for column, texts in columns.values():
        rich.add_column(Text(texts[0]), justify="left" if column.kind == "text" else "right", no_wrap=True)
    for cells in list(zip(*(texts for _, texts in columns.values()), strict=True))[1:]:
        rich.add_row(*map(Text, cells))
    return rich, left_out


_TEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "*": "{*}",
    "–": "--", "−": "$-$", "×": r"$\times$", "µ": r"\textmu{}",
}  # fmt: skip


def _escape_latex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in one_line(text))


def latex(table: Table, origin: str) -> str:
    """For a paper: booktabs, its notes in small print below the table, its origin as a comment."""
    sides = "".join("l" if one.kind == "text" else "r" for one in table.columns)
    head, *body = (f"    {' & '.join(cells)} \\\\" for cells in _texts(table, _escape_latex))
    lines = [
        f"% {origin}",
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_escape_latex(table.title)}{' (measured live)' if table.live else ''}}}",
        f"  \\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
        r"    \toprule",
        head,
        r"    \midrule",
        *body,
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  \\par\\smallskip{{\\footnotesize {_escape_latex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _escape_csv(text: str) -> str:
    """A spreadsheet would run a cell that starts like a formula."""
    clean = one_line(text)
    return "'" + clean if clean.startswith(("=", "+", "-", "@", "|", "%")) else clean


def comma_separated(table: Table, origin: str | None = None) -> str:
    """For a spreadsheet: plain numbers, intervals in columns of their own, the origin in the last one."""
    lines: list[list[Cell]] = []
    for one, *cells in zip(table.columns, *table.rows, strict=True):
        name = heading(msgspec.structs.replace(one, unit=_RAW_UNITS.get(one.kind, one.unit)))
        lines.append([name, *map(value_of, cells)])
        if any(isinstance(cell, Measure) for cell in cells):
            for bound in ("low", "high"):
                lines.append([f"{name} {bound}", *(getattr(cell, bound, None) for cell in cells)])
    if origin is not None:
        lines.append(["made by", *[origin] * len(table.rows)])
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    guarded = ([_escape_csv(cell) if isinstance(cell, str) else cell for cell in line] for line in lines)
    writer.writerows(zip(*guarded, strict=True))
    return out.getvalue()


_RAW_UNITS: Final = {"percent": "share", "points": "share", "tokens7": "tokens"}
"""Shares are written as shares and tokens as tokens, so the unit of the printed form would mislead."""


def html(table: Table, name: str = "") -> str:
    """For a page: values for sorting in an attribute, units and intervals in smaller type."""
    attribute = f' id="{escape(name)}"' if name else ""
    head = "".join(map(_html_heading, table.columns))
    rows = "".join(f"<tr>{''.join(map(_html_cell, row, table.columns))}</tr>" for row in table.rows)
    return f"<table{attribute}><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"


def _html_heading(column: Column) -> str:
    under = " · ".join(filter(None, (column.unit, column.paper and f"paper, {column.paper}")))
    return f'<th scope="col" class="{_html_class(column)}">{escape(column.title)}{_html_small(under)}</th>'


def _html_cell(cell: Cell, column: Column) -> str:
    value = value_of(cell)
    if isinstance(value, str):
        return f'<td class="text" title="{escape(value)}">{escape(value)}</td>'
    bounds = _html_small(interval(cell, column), " ")
    sort_value = "" if value is None else repr(value)
    return f'<td class="{_html_class(column)}" data-v="{sort_value}">{escape(value_text(cell, column))}{bounds}</td>'


def _html_small(text: str, before: str = "") -> str:
    return f"{before}<small>{escape(text)}</small>" if text else ""


def _html_class(column: Column) -> str:
    return ("text" if column.kind == "text" else "number") + (" paper" if column.paper else "")
