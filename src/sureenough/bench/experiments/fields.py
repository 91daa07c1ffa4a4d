"""The columns that experiments share: each says how it prints and where its number comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import isnan
from typing import Final, NamedTuple

from sureenough.bench import paper
from sureenough.bench.experiments.replays import CellResult
from sureenough.bench.result import Cell, Kind, Measure, ResultColumn, Table
from sureenough.bench.score import Interval, StrategyRuns


class Field(NamedTuple):
    """A column and its cell of a line."""

    column: ResultColumn
    of: Callable[[CellResult], Cell]


def measure(value: float, interval: Interval) -> Measure:
    """A value with its interval."""
    return Measure(number(value), number(interval.low), number(interval.high))


def number(value: float) -> float | None:
    """None for what is no number."""
    return None if isnan(value) else value


def changed(sheet: StrategyRuns, first: StrategyRuns) -> tuple[int, int]:
    """Questions that changed sides: right in most repeats now and not before, and the other way round."""
    pairs = [(a, b) for a, b in zip(sheet.right, first.right, strict=True) if not isnan(a) and not isnan(b)]
    return sum(a > 0.5 >= b for a, b in pairs), sum(b > 0.5 >= a for a, b in pairs)


DATASET: Final = Field(ResultColumn("dataset"), lambda line: line.source.dataset)
MODEL: Final = Field(ResultColumn("model"), lambda line: line.source.model)
STRATEGY: Final = Field(ResultColumn("strategy"), lambda line: line.cell.strategy)
QUESTIONS: Final = Field(ResultColumn("questions", "count"), lambda line: line.row.questions)
ACCURACY: Final = Field(
    ResultColumn("accuracy", "percent", "%"), lambda line: measure(line.row.accuracy, line.row.interval)
)
DIFFERENCE: Final = Field(
    ResultColumn("vs first", "points", "points"),
    lambda line: measure(line.row.difference, line.row.difference_interval),
)
WON: Final = Field(ResultColumn("won", "count", "questions"), lambda line: changed(line.sheet, line.first)[0])
LOST: Final = Field(ResultColumn("lost", "count", "questions"), lambda line: changed(line.sheet, line.first)[1])
TOKENS: Final = Field(ResultColumn("tokens", "tokens", "a question"), lambda line: line.row.tokens)
TOTAL: Final = Field(
    ResultColumn("tokens, all questions", "tokens7", "10^7"), lambda line: line.row.tokens * line.row.questions
)
INIT: Final = Field(ResultColumn("init tokens", "tokens", "a question"), lambda line: line.row.buckets["init"])
FINAL: Final = Field(
    ResultColumn("final tokens", "tokens", "a question"), lambda line: line.row.tokens - line.row.buckets["init"]
)
SAVING: Final = Field(ResultColumn("saving", "ratio"), lambda line: number(line.row.saving))
STEPS: Final = Field(ResultColumn("steps", "count", "a question"), lambda line: line.row.steps)
WIDTH: Final = Field(ResultColumn("width", "number", "paths", 1), lambda line: line.row.width)
DROPPED: Final = Field(ResultColumn("pruned: drop", "number", "paths", 1), lambda line: line.row.tiers["drop"])
RISKY: Final = Field(ResultColumn("pruned: risk", "number", "paths", 1), lambda line: line.row.tiers["risk"])
SETTLED: Final = Field(
    ResultColumn("settled", "percent", "% of runs"), lambda line: line.row.reasons.get("settled", 0.0)
)

ALL: Final = (DATASET, MODEL, STRATEGY, QUESTIONS, ACCURACY, DIFFERENCE, WON, LOST, TOKENS, TOTAL, SAVING, STEPS, WIDTH,
              DROPPED, RISKY, SETTLED)  # fmt: skip


def theirs(table: int, title: str, kind: Kind, name: str, setting: Callable[[CellResult], str], scale: float) -> Field:
    """The paper's own number for a line's model and dataset, in our units."""

    def of(line: CellResult) -> Cell:
        found = paper.value(table, line.source.model, line.source.dataset, setting(line), name)
        return None if found is None else found * scale

    unit = {"percent": "%", "tokens7": "10^7", "number": "paths"}.get(kind, "")
    return Field(ResultColumn(title, kind, unit, theirs=f"table {table}"), of)


def paper_pair(
    table: int, setting: Callable[[CellResult], str] = lambda line: line.cell.strategy
) -> tuple[Field, Field]:
    """Accuracy and tokens as the paper's table has them."""
    return (
        theirs(table, "accuracy in the paper", "percent", "accuracy", setting, 0.01),
        theirs(table, "tokens in the paper", "tokens7", "tokens", setting, 1e7),
    )


def table(
    name: str, title: str, lines: Sequence[CellResult], fields: Sequence[Field], notes: Sequence[str] = ()
) -> Table:
    """Lines as a table; the paper's columns only where it has a number."""
    shown = [f for f in fields if not f.column.theirs or any(f.of(line) is not None for line in lines)]
    rows = [[f.of(line) for f in shown] for line in lines]
    if any(f.column.theirs for f in shown):
        notes = [*notes, "columns marked with a table of the paper are its own printed numbers, not ours"]
    return Table(name, title, [f.column for f in shown], rows, list(notes))
