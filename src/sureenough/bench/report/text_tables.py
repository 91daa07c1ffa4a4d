"""A table as Markdown, LaTeX and CSV. Text from models and datasets stays text in all of them."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from typing import Final

from sureenough.bench.report.cells import heading, one_line, origin, printed, value_of
from sureenough.bench.result import Cell, Measure, Provenance, ResultColumn, Table


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
