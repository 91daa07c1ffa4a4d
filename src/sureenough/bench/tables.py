"""A comparison as a table: for people on a terminal, for pipes, for spreadsheets and for programs."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Sequence
from math import isnan
from typing import Final, Literal, NamedTuple

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from sureenough.bench.comparison import Comparison
from sureenough.bench.pipeline import ReplaySettings
from sureenough.bench.recommendation import sentences, to_json
from sureenough.bench.report.text_tables import aligned
from sureenough.bench.result import ALL_ALIKE, NOTHING_CHANGED
from sureenough.bench.score import Interval, Row
from sureenough.core.events import Json
from sureenough.core.options import RunOptions
from sureenough.data import BUILTIN_POOL


class TableColumn(NamedTuple):
    """A column of the printed table."""

    head: str
    cell: Callable[[Row], str]


def _percent(value: float) -> str:
    return "-" if isnan(value) else f"{100 * value:.1f}"


def _bounds(interval: Interval, sign: str = "") -> str:
    return "" if isnan(interval.low) else f" [{100 * interval.low:{sign}.1f}, {100 * interval.high:{sign}.1f}]"


def _accuracy(row: Row) -> str:
    alike = row.interval.low == row.interval.high
    return f"{_percent(row.accuracy)} {ALL_ALIKE}" if alike else _percent(row.accuracy) + _bounds(row.interval)


def _difference(row: Row) -> str:
    if isnan(row.difference):
        return "-"
    difference = round(100 * row.difference, 1) + 0.0  # never -0.0
    if row.difference_interval == (0.0, 0.0):
        return f"{difference:+.1f} {NOTHING_CHANGED}"
    return f"{difference:+.1f}{_bounds(row.difference_interval, '+')}"


def _cells(columns: Sequence[TableColumn], rows: Sequence[Row]) -> list[list[str]]:
    """The table's text; the first strategy has no difference to itself."""
    return [["-" if c.cell is _difference and row is rows[0] else c.cell(row) for c in columns] for row in rows]


def _stopped(row: Row) -> str:
    return ", ".join(f"{reason} {share:.0%}" for reason, share in row.reasons.items())


def _pruned(row: Row) -> str:
    return f"{row.tiers['drop']:.1f} + {row.tiers['risk']:.1f}" if row.pruned else "-"


COLUMNS: Final = (
    TableColumn("strategy", lambda row: row.strategy),
    TableColumn("accuracy %", _accuracy),
    TableColumn("vs first", _difference),
    TableColumn("tokens", lambda row: f"{row.tokens:,.0f}"),
    TableColumn("saving", lambda row: "-" if isnan(row.saving) else f"{row.saving:.1f}x"),
    TableColumn("steps", lambda row: f"{row.steps:,.0f}"),
    TableColumn("width", lambda row: f"{row.width:.1f}"),
    TableColumn("pruned drop + risk", _pruned),
    TableColumn("stopped", _stopped),
)


def headline(result: Comparison) -> str:
    """What was compared, in one line."""
    first, options = result.rows[0], result.options
    width = "one path at a time" if options.parallel == 1 else f"{options.parallel} paths at once"
    if options.hurry is not None:
        width += f" at most, planned with hurry {options.hurry:g}"
    pool = "built-in pool" if result.pool == str(BUILTIN_POOL) else result.pool
    if options.max_tokens is not None:
        width += f", at most {options.max_tokens:,} tokens per question"
    short = f" ({result.recorded} recorded)" if result.recorded < (options.paths or 0) else ""
    return (
        f"{pool}: {first.questions} questions, budget {options.paths} paths{short}, window {options.window}, "
        f"{width}, {first.repeats} {'order' if first.repeats == 1 else 'orders'}, seed {options.seed}"
    )


def footnotes(result: Comparison) -> list[str]:
    """What a reader of the table should know."""
    lines = [
        "tokens, steps, width and pruned are means per question; saving is relative to plain voting on the same paths"
    ]
    if result.recommendation is not None and len(result.rows) > 1:
        lines.append(
            "intervals resample questions: too narrow if few changed; the recommendation has a more cautious one"
        )
    for weight in ("raw", "mean", "unit"):
        names = [row.strategy for row in result.rows if row.weight == weight]
        if names:
            lines.append(f"votes weigh C_path ({weight}): {', '.join(names)}")
    cut = [row.strategy for row in result.rows if row.reasons.get("max_tokens")]
    if cut and result.options.parallel > 1:
        lines.append(
            f"the cap on tokens cut runs of {', '.join(cut)}; with many paths at once, few may have ended by then"
        )
    lines += result.notes
    lines += [f"{row.strategy}: {note}" for row in result.rows for note in row.notes]
    return lines


UNPRINTED: Final = ("jobs", "skip_damaged")

LEAST_NEEDED: Final = ("stopped", "pruned drop + risk", "steps", "width", "vs first", "saving")
"""Columns that a narrow terminal leaves out, in this order; names and numbers are never cut."""


def fitting(result: Comparison, width: int) -> list[TableColumn]:
    """The columns that fit side by side."""
    columns = list(COLUMNS)

    def total() -> int:
        texts = [[column.head for column in columns], *_cells(columns, result.rows)]
        return sum(max(map(len, column)) for column in zip(*texts, strict=True)) + 3 * len(columns) + 1

    for name in LEAST_NEEDED:
        if total() > width:
            columns = [column for column in columns if column.head != name]
    return columns


def rich_table(result: Comparison, width: int) -> RenderableType:
    """For a terminal of this width."""
    columns = fitting(result, width)
    table = Table(title=headline(result), title_justify="left", title_style="bold", header_style="bold")
    for column in columns:
        side: Literal["left", "right"] = "left" if column.head in ("strategy", "stopped") else "right"
        table.add_column(column.head, justify=side, no_wrap=True)
    for cells in _cells(columns, result.rows):
        table.add_row(*map(Text, cells))
    left_out = [column.head for column in COLUMNS if column not in columns]
    lines = footnotes(result)
    if left_out:
        lines.append(f"not shown, the terminal is too narrow: {', '.join(left_out)}; --csv or --json has them")
    return Group(table, *(Text(line, style="dim") for line in lines), *map(Text, advice(result)))


def plain_table(result: Comparison) -> str:
    """For a pipe."""
    body = aligned([[column.head for column in COLUMNS], *_cells(COLUMNS, result.rows)])
    return "\n".join([headline(result), *body, *footnotes(result), *advice(result)])


def advice(result: Comparison) -> list[str]:
    """Which strategy to use, after an empty line."""
    return ["", *sentences(result.recommendation)] if result.recommendation else []


def csv_table(results: Sequence[Comparison]) -> str:
    """One line per pool and strategy, plain numbers."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    flat = [_flat(result, row) for result in results for row in result.rows]
    writer.writerow(flat[0])
    writer.writerows(line.values() for line in flat)
    return out.getvalue().rstrip("\n")


def json_table(results: Sequence[Comparison]) -> Json:
    """Everything, for programs."""
    return {
        "pools": [
            {
                "pool": result.pool,
                "recorded": result.recorded,
                **_made_with(result),
                "damaged": result.damaged,
                "notes": list(result.notes),
                "rows": [row.to_json() for row in result.rows],
                "recommendation": to_json(result.recommendation) if result.recommendation else None,
            }
            for result in results
        ]
    }


def _flat(result: Comparison, row: Row) -> Json:
    flat: Json = {"pool": _no_formula(result.pool), **_made_with(result)}
    for name, value in row.to_json().items():
        if isinstance(value, dict):
            flat |= {f"{name}_{key}": item for key, item in value.items()} if name != "reasons" else {}
        elif name.endswith("interval"):
            flat |= {name + "_low": value[0], name + "_high": value[1]}
        elif name != "notes":
            flat[name] = value
    flat |= {f"ended_{reason}": row.reasons.get(reason, 0.0) for reason in ("settled", "budget", "max_tokens")}
    flat["notes"] = _no_formula("; ".join([*result.notes, *row.notes]))
    return flat


def _made_with(result: Comparison) -> Json:
    """Every option but those that recorded paths have no use for."""
    values = {name: getattr(result.options, name) for name in RunOptions.fields(live=False)}
    return values | {name: getattr(result.settings, name) for name in ReplaySettings.fields() if name not in UNPRINTED}


def _no_formula(text: str) -> str:
    """A spreadsheet would run a cell that starts like this."""
    return "'" + text if text.lstrip().startswith(("=", "+", "-", "@")) else text
