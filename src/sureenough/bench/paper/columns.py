"""The columns and tables that experiments share, and the note of settings that every table ends with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.paper import published
from sureenough.bench.paper.experiment import Results, TableOf
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.recommendation import DETECT, IMAGINED, paired
from sureenough.bench.replay import CellResult
from sureenough.bench.result import Cell, Kind, Measure, ResultColumn, Table, grouped, number
from sureenough.bench.score import Interval, StrategyRuns, intervals
from sureenough.core.confidence import Floats
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByCount, ByLowest, BySignals, BySoftmax
from sureenough.spec import resolve


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
        printed = published.value(table, line.source.model, line.source.dataset, setting(line), name)
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
            row.append(fmean(numbers) if numbers else published.AVERAGE if one is DATASET else values[0])
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


PREFIX: Final = "Settings: "
VARIED: Final = "as in the table"
NONE: Final = "none"


def settings_note(
    *, window: object = NONE, budget: object = NONE, repeats: object = NONE, weights: str = NONE, more: str = ""
) -> str:
    """The settings in one line; what plays no part is `none`."""
    return f"{PREFIX}window {window}; budget {budget}; repeats {repeats}; weights {weights}{more}"


def settings_of(lines: Sequence[CellResult]) -> str:
    """The settings of replayed cells."""
    options = lines[0].cell.options
    return settings_note(
        window=_by_dataset(lines, lambda line: line.cell.options.window),
        budget=_by_dataset(lines, _budget),
        repeats=f"{lines[0].row.repeats} (orders of the recorded paths, seed {options.seed})",
        weights=weight_scales(dict.fromkeys(line.cell.strategy for line in lines)),
    )


def pool_windows(pools: Iterable[OpenPool]) -> str:
    """The windows of pools that were read path by path."""
    windows = {pool.source.dataset: pool.window for pool in pools}
    same = len(set(windows.values())) == 1
    return str(next(iter(windows.values()))) if same else ", ".join(f"{name} {n}" for name, n in windows.items())


def _budget(line: CellResult) -> str:
    options, recorded = line.cell.options, max(line.paths, default=0)
    paths = f"{options.paths or recorded} paths"
    if options.paths is not None and options.paths > recorded:
        paths += f" ({recorded} recorded, all used)"
    return paths if options.max_tokens is None else f"{paths}, {options.max_tokens:,} tokens"


def _by_dataset(lines: Sequence[CellResult], value: Callable[[CellResult], object]) -> str:
    """One value for all lines, or one per dataset; cells of a dataset that differ are told apart by the table."""
    values = dict.fromkeys((line.source.dataset, str(value(line))) for line in lines)
    if len(values) > len({dataset for dataset, _ in values}):
        return VARIED
    texts = grouped(values, lambda pair: pair[1])
    if len(texts) == 1:
        return next(iter(texts))
    return ", ".join(f"{text} on {' and '.join(dataset for dataset, _ in pairs)}" for text, pairs in texts.items())


def weight_scales(strategies: Iterable[str | Strategy]) -> str:
    """The scale that all strategies have in common, or each with the strategies that have it."""
    scales = grouped(strategies, lambda strategy: weight_scale(resolve(strategy)))
    if len(scales) == 1:
        return next(iter(scales))
    names = {scale: [getattr(one, "name", one) for one in same] for scale, same in scales.items()}
    return ", ".join(f"{scale} ({', '.join(map(str, same))})" for scale, same in names.items())


def weight_scale(strategy: Strategy) -> str:
    """The scale of a strategy's weights, on which its stop test depends."""
    weigh = strategy.weigh
    if isinstance(weigh, ByCount) or (isinstance(weigh, BySignals) and weigh.weigh == "count"):
        return "1 per path"
    if isinstance(weigh, BySignals | BySoftmax):
        return "effective votes"
    scale = "raw" if isinstance(weigh, ByLowest) else getattr(weigh, "weight", None)
    return f"C_path {scale}" if scale else "its own"


ALL: Final = "all together"
COLUMNS: Final = [
    *map(ResultColumn, ("model", "dataset", "strategy", "compared with")),
    ResultColumn("questions", "count"),
    ResultColumn("difference", "points", "points"),
    ResultColumn("gained", "count", "questions"),
    ResultColumn("lost", "count", "questions"),
    ResultColumn("could detect", "number", "points", 1),
]
READING: Final = (
    "difference of accuracy on the same questions, with a 95% interval that resamples questions; gained and lost: "
    "questions that are right in more, and in fewer, repeats",
    "could detect: the true difference that a sample of these questions would show at the 5% level in 80% of cases, "
    f"{DETECT:g} (1.96 + 0.84) standard errors of the paired difference; the standard error includes one imagined "
    "question gained and one lost, since a sample in which none changed has none of its own",
    "a question that occurs in several pools counts once, where it occurs first",
)


class Gains(NamedTuple):
    """Differences by question."""

    keys: list[tuple[str, str | None]]  # id and gold answer: files of different questions may use the same ids
    values: Floats  # NaN without a gold answer


def compared_table(title: str) -> Callable[[Results], Table]:
    """Every method against the first of its model, dataset by dataset and over all of them."""

    def build(results: Results) -> Table:
        rows: list[list[Cell]] = []
        for group in by_model(results):
            for same in list(zip(*group, strict=True))[1:]:
                every = [_gains(line) for line in same]
                samples = [(line.source.dataset, gains.values) for line, gains in zip(same, every, strict=True)]
                if len(same) > 1:
                    samples.append((ALL, _joined(every)))
                rows += [_row(name, same[0], group[0][0], values) for name, values in samples]
        lines = [line for one in results for line in one]
        return Table("pooled", title, COLUMNS, rows, [*READING, settings_of(lines)])

    return build


def by_model(results: Results) -> list[list[list[CellResult]]]:
    """The sources of each model together, if their methods are the same."""
    models = grouped(results, lambda lines: (lines[0].source.model, *(line.cell.label for line in lines)))
    return list(models.values())


def _gains(line: CellResult) -> Gains:
    return Gains([(one.id, one.gold) for one in line.questions], np.array(line.runs.right) - np.array(line.first.right))


def _joined(every: Sequence[Gains]) -> Floats:
    by_question: dict[tuple[str, str | None], float] = {}
    for gains in every:
        for key, value in zip(gains.keys, gains.values.tolist(), strict=True):
            by_question.setdefault(key, value)
    return np.array(list(by_question.values()))


def _row(dataset: str, line: CellResult, first: CellResult, values: Floats) -> list[Cell]:
    known = values[np.isfinite(values)]
    names: list[Cell] = [line.source.model, dataset, line.cell.label, first.cell.label, len(known)]
    if not known.size:
        return [*names, None, None, None, None]
    bounds = intervals(known.reshape(-1, 1), line.cell.options.seed)[0]
    error = paired(known, IMAGINED["accuracy"])[1]
    gained, lost = int((known > 0).sum()), int((known < 0).sum())
    return [*names, measure(float(known.mean()), bounds), gained, lost, 100 * DETECT * error]
