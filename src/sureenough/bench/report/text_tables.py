"""How a cell is printed; a table as Markdown, LaTeX and CSV. Text from models and datasets stays text everywhere."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from sureenough.bench.result import ALL_ALIKE, NOTHING_CHANGED, Cell, Measure, Provenance, ResultColumn, Table


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """For a pipe: columns two spaces apart, without lines."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return ["  ".join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]


def markdown(table: Table, provenance: Provenance) -> str:
    """For a README: a pipe table, its notes and its origin."""
    head = [_md(heading(column)) for column in table.columns]
    rule = ["---" if column.kind == "text" else "---:" for column in table.columns]
    body = [[_md(printed(c, k)) for c, k in zip(row, table.columns, strict=True)] for row in table.rows]
    lines = [f"| {' | '.join(cells)} |" for cells in (head, rule, *body)]
    notes = [f"- {_md(note)}" for note in table.notes]
    origin_line = f"Made by `{origin(provenance).replace('`', chr(39))}`."
    live = ["", "Measured live."] if table.live else []
    return "\n".join([f"**{_md(table.title)}**", "", *lines, *live, "", *notes, "", origin_line, ""])


def _md(text: str) -> str:
    """Text without anything that Markdown, or HTML in it, would act on."""
    safe = one_line(text).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return re.sub(r"([\\`*_\[\]|~#!$])", r"\\\1", safe)


_TEX: Final = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "[": "{[}", "]": "{]}", "*": "{*}",
    "–": "--", "−": "$-$", "×": r"$\times$", "µ": r"\textmu{}",
}  # fmt: skip


def latex(table: Table, provenance: Provenance) -> str:
    """For a paper: booktabs, escaped, its notes in small print below the table, its origin as a comment."""
    sides = "".join("l" if column.kind == "text" else "r" for column in table.columns)
    head = " & ".join(_tex(heading(column)) for column in table.columns)
    body = [" & ".join(_tex(printed(c, k)) for c, k in zip(row, table.columns, strict=True)) for row in table.rows]
    lines = [
        f"% {origin(provenance)}",
        r"\begin{table}",
        r"  \centering",
        f"  \\caption{{{_tex(table.title)}{' (measured live)' if table.live else ''}}}",
        f"  \\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
        r"    \toprule",
        f"    {head} \\\\",
        r"    \midrule",
        *(f"    {line} \\\\" for line in body),
        r"    \bottomrule",
        r"  \end{tabular}",
        *(f"  \\par\\smallskip{{\\footnotesize {_tex(note)}}}" for note in table.notes),
        r"\end{table}",
    ]
    return "\n".join(lines) + "\n"


def _tex(text: str) -> str:
    return "".join(_TEX.get(character, character) for character in one_line(text))


def comma_separated(table: Table, provenance: Provenance) -> str:
    """For a spreadsheet: plain numbers, intervals in columns of their own, the origin in the last one."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    has_interval = [any(isinstance(row[i], Measure) for row in table.rows) for i in range(len(table.columns))]
    head: list[str] = []
    for column, wide in zip(table.columns, has_interval, strict=True):
        name = _cell(_raw_heading(column))
        head += [name, f"{name} low", f"{name} high"] if wide else [name]
    writer.writerow([*head, "made by"])
    made = _cell(origin(provenance))
    for row in table.rows:
        cells: list[str | int | float | None] = []
        for cell, wide in zip(row, has_interval, strict=True):
            cells += _raw(cell, wide)
        writer.writerow([*cells, made])
    return out.getvalue()


def _raw_heading(column: ResultColumn) -> str:
    """Shares are written as shares and tokens as tokens, so the unit of the printed form would mislead."""
    unit = {"percent": "share", "points": "share", "tokens7": "tokens"}.get(column.kind, column.unit)
    head = f"{column.title}, {unit}" if unit else column.title
    return f"{head} (paper, {column.paper})" if column.paper else head


def _raw(cell: Cell, wide: bool) -> list[str | int | float | None]:
    value = value_of(cell)
    first = _cell(value) if isinstance(value, str) else value
    if not wide:
        return [first]
    return [first, cell.low, cell.high] if isinstance(cell, Measure) else [first, None, None]


def _cell(text: str) -> str:
    """A spreadsheet would run a cell that starts like a formula."""
    clean = one_line(text)
    return "'" + clean if clean[:1] in ("=", "+", "-", "@", "\t", "|", "%") and clean else clean


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
