"""The columns that experiments share: each says how it prints and how its value is computed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench import paper
from sureenough.bench.cells import CellResult
from sureenough.bench.experiments.replayed import Results, TableOf
from sureenough.bench.experiments.table_settings import settings_of
from sureenough.bench.result import Cell, Kind, Measure, ResultColumn, Table, number
from sureenough.bench.score import Interval, StrategyRuns


class Column(NamedTuple):
    """A column and its cell of a line."""

    column: ResultColumn
    value: Callable[[CellResult], Cell]


def measure(value: float, interval: Interval) -> Measure:
    return Measure(number(value), number(interval.low), number(interval.high))


def changed(runs: StrategyRuns, first: StrategyRuns) -> tuple[int, int]:
    """Questions won and lost: right in most repeats here and wrong in most with the first strategy, and the reverse.

    A question that is right in exactly half of an even number of repeats is on neither side.
    """
    pairs = list(zip(runs.right, first.right, strict=True))  # NaN, for questions without a gold answer, is on no side
    return sum(a > 0.5 > b for a, b in pairs), sum(b > 0.5 > a for a, b in pairs)


def difference(line: CellResult) -> Measure:
    """To the first strategy; that strategy itself has no interval."""
    if line.runs is line.first:
        return Measure(number(line.row.difference), None, None)
    return measure(line.row.difference, line.row.difference_interval)


def strategy_name(line: CellResult) -> str:
    return str(line.cell.strategy)


DATASET: Final = Column(ResultColumn("dataset"), lambda line: line.source.dataset)
MODEL: Final = Column(ResultColumn("model"), lambda line: line.source.model)
STRATEGY: Final = Column(ResultColumn("strategy"), strategy_name)
QUESTIONS: Final = Column(ResultColumn("questions", "count"), lambda line: line.row.questions)
ACCURACY: Final = Column(
    ResultColumn("accuracy", "percent", "%"), lambda line: measure(line.row.accuracy, line.row.interval)
)
DIFFERENCE: Final = Column(
    ResultColumn("vs first", "points", "points"),
    difference,
)
WON: Final = Column(ResultColumn("won", "count", "questions"), lambda line: changed(line.runs, line.first)[0])
LOST: Final = Column(ResultColumn("lost", "count", "questions"), lambda line: changed(line.runs, line.first)[1])
TOKENS: Final = Column(ResultColumn("tokens", "tokens", "per question"), lambda line: line.row.tokens)
TOTAL: Final = Column(
    ResultColumn("tokens, all questions", "tokens7", "10^7"), lambda line: line.row.tokens * line.row.questions
)
INIT: Final = Column(ResultColumn("init tokens", "tokens", "per question"), lambda line: line.row.buckets["init"])
FINAL: Final = Column(
    ResultColumn("final tokens", "tokens", "per question"), lambda line: line.row.tokens - line.row.buckets["init"]
)
SAVING: Final = Column(ResultColumn("saving", "ratio"), lambda line: number(line.row.saving))
STEPS: Final = Column(ResultColumn("steps", "count", "per question"), lambda line: line.row.steps)
WIDTH: Final = Column(ResultColumn("width", "number", "paths", 1), lambda line: line.row.width)
DROPPED: Final = Column(ResultColumn("pruned: drop", "number", "paths", 1), lambda line: line.row.tiers["drop"])
RISKY: Final = Column(ResultColumn("pruned: risk", "number", "paths", 1), lambda line: line.row.tiers["risk"])
SETTLED: Final = Column(
    ResultColumn("settled", "percent", "% of runs"), lambda line: line.row.reasons.get("settled", 0.0)
)

NAMES: Final = (DATASET, MODEL, STRATEGY)
PAIRED: Final = (DIFFERENCE, WON, LOST)


def from_paper(
    table: int, title: str, kind: Kind, name: str, scale: float,
    setting: Callable[[CellResult], str] = strategy_name,
) -> Column:  # fmt: skip
    """The paper's printed number for a line's model, dataset and setting, in our units."""

    def value(line: CellResult) -> Cell:
        printed = paper.value(table, line.source.model, line.source.dataset, setting(line), name)
        return None if printed is None else printed * scale

    unit = {"percent": "%", "tokens7": "10^7", "number": "paths"}.get(kind, "")
    return Column(ResultColumn(title, kind, unit, paper=f"table {table}"), value)


def paper_pair(table: int, setting: Callable[[CellResult], str] = strategy_name) -> tuple[Column, Column]:
    """Accuracy and tokens as printed in a table of the paper."""
    return (
        from_paper(table, "accuracy in the paper", "percent", "accuracy", 0.01, setting),
        from_paper(table, "tokens in the paper", "tokens7", "tokens", 1e7, setting),
    )


def all_columns(table: int) -> list[Column]:
    """Everything about a strategy, with the paper's numbers of this table."""
    return [*NAMES, QUESTIONS, ACCURACY, DIFFERENCE, TOKENS, SAVING, WON, LOST, TOTAL, *paper_pair(table), STEPS, WIDTH,
            DROPPED, RISKY, SETTLED]  # fmt: skip


def _average(columns: Sequence[Column], lines: Sequence[CellResult]) -> list[Cell]:
    """The plain mean over datasets of the same cell, as in the paper; it has no questions of its own to count."""
    row: list[Cell] = []
    for one in columns:
        cells = [one.value(line) for line in lines]
        values = [cell.value if isinstance(cell, Measure) else cell for cell in cells]
        numbers = [value for value in values if isinstance(value, int | float)]
        if one in (WON, LOST) or one.column.paper or len(numbers) not in (0, len(values)):
            row.append(None)
        else:
            row.append(fmean(numbers) if numbers else paper.AVERAGE if one is DATASET else values[0])
    return row


def table(
    name: str, title: str, columns: Sequence[Column], notes: Sequence[str] = (), *, averaged: bool = False
) -> TableOf:
    """One line per cell and source; columns of the paper only if it has a number for one of them.

    `averaged` adds a line per cell with the mean over datasets.
    """

    def build(results: Results) -> Table:
        lines = [line for source in results for line in source]
        shown = [c for c in columns if not c.column.paper or any(c.value(line) is not None for line in lines)]
        marked = any(c.column.paper for c in shown)
        explained = ["columns marked with a table of the paper are its own printed numbers, not ours"] if marked else []
        rows = [[c.value(line) for c in shown] for line in lines]
        if averaged and len(results) > 1 and len({tuple(line.cell.label for line in one) for one in results}) == 1:
            rows += [_average(shown, same) for same in zip(*results, strict=True)]
        return Table(name, title, [c.column for c in shown], rows, [*notes, *explained, settings_of(lines)])

    return build
