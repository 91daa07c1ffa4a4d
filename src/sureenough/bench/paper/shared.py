"""What experiments share: fields of replayed cells, their tables and figures, and the note of settings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from math import isfinite, nan
from statistics import fmean
from typing import Final, Literal, TypeVar

import msgspec
import numpy as np

from sureenough.bench.experiment import Found, Part, Results
from sureenough.bench.paper import published
from sureenough.bench.pipeline import OpenPool, Source
from sureenough.bench.recommendation import DETECT, paired
from sureenough.bench.replay import CellResult, Line
from sureenough.bench.result import Axis, Figure, Series, grouped
from sureenough.bench.score import StrategyRuns, intervals
from sureenough.bench.tables import Cell, Field, Kind, Measure, Table, columns, field, heading, measure, table
from sureenough.core.confidence import Floats
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByLowest, BySignals, BySoftmax
from sureenough.spec import render, resolve

T = TypeVar("T")

# -- fields


def of_line(
    title: str, value: Callable[[Line], Cell], kind: Kind = "text", unit: str | None = None, digits: int | None = None
) -> Field[Line]:
    """A field of a line."""
    return field(title, value, kind, unit, digits)


def changed(runs: StrategyRuns, first: StrategyRuns) -> tuple[int, int]:
    """Questions won and lost: right in most repeats here and wrong in most with the first strategy, and the reverse.

    A question that is right in exactly half of an even number of repeats is on neither side.
    """
    pairs = list(zip(runs.right, first.right, strict=True))  # NaN, for questions without a gold answer, is on no side
    return sum(a > 0.5 > b for a, b in pairs), sum(b > 0.5 > a for a, b in pairs)


def _difference(line: Line) -> Measure:
    """To the first strategy; that strategy itself has no interval."""
    row = line.row
    return measure(row.difference, (nan, nan) if line.runs is line.first else row.difference_interval)


def strategy_name(line: Line) -> str:
    return str(line.cell.strategy)


DATASET: Final = of_line("dataset", lambda line: line.source.dataset)
MODEL: Final = of_line("model", lambda line: line.source.model)
STRATEGY: Final = of_line("strategy", strategy_name)
QUESTIONS: Final = of_line("questions", lambda line: line.row.questions, "count")
ACCURACY: Final = of_line("accuracy", lambda line: measure(line.row.accuracy, line.row.interval), "percent")
DIFFERENCE: Final = of_line("vs first", _difference, "points")
WON: Final = of_line("won", lambda line: changed(line.runs, line.first)[0], "count", "questions")
LOST: Final = of_line("lost", lambda line: changed(line.runs, line.first)[1], "count", "questions")
TOKENS: Final = of_line("tokens", lambda line: line.row.tokens, "tokens")
TOTAL: Final = of_line("tokens, all questions", lambda line: line.row.tokens * line.row.questions, "tokens7")
INIT: Final = of_line("init tokens", lambda line: line.row.buckets["init"], "tokens")
FINAL: Final = of_line("final tokens", lambda line: line.row.tokens - line.row.buckets["init"], "tokens")
SAVING: Final = of_line("saving", lambda line: line.row.saving, "ratio")
STEPS: Final = of_line("steps", lambda line: line.row.steps, "count", "per question")
WIDTH: Final = of_line("width", lambda line: line.row.width, "number", "paths", 1)
DROPPED: Final = of_line("pruned: drop", lambda line: line.row.tiers["drop"], "number", "paths", 1)
RISKY: Final = of_line("pruned: risk", lambda line: line.row.tiers["risk"], "number", "paths", 1)
SETTLED: Final = of_line("settled", lambda line: line.row.reasons.get("settled", 0.0), "percent", "% of runs")

NAMES: Final = (DATASET, MODEL, STRATEGY)
PAIRED: Final = (DIFFERENCE, WON, LOST)


def in_paper(
    number: int,
    name: str,
    kind: Kind = "tokens7",
    unit: str | None = None,
    *,
    title: str = "",
    setting: Callable[[Line], str] = strategy_name,
) -> Field[Line]:
    """What a table of the paper prints for a cell's model, dataset and setting, in our units."""
    scale = {"percent": 0.01, "tokens7": 1e7}.get(kind, 1.0)

    def value(line: Line) -> Cell:
        printed = published.value(number, line.source.model, line.source.dataset, setting(line), name)
        return None if printed is None else printed * scale

    (shown,) = columns(kind, title or f"{name} in the paper", unit=unit)
    return Field(msgspec.structs.replace(shown, paper=f"table {number}"), value)


def everything(number: int) -> list[Field[Line]]:
    """Everything about a strategy, with the numbers of this table of the paper."""
    return [*NAMES, QUESTIONS, ACCURACY, DIFFERENCE, TOKENS, SAVING, WON, LOST, TOTAL,
            in_paper(number, "accuracy", "percent"), in_paper(number, "tokens"), STEPS, WIDTH, DROPPED, RISKY,
            SETTLED]  # fmt: skip


# -- tables


def cell_table(
    name: str, title: str, fields: Sequence[Field[Line]], notes: Sequence[str] = (), *, averaged: bool = False
) -> Part:
    """One row per cell and source; columns of the paper only if it has a number for one of them.

    `averaged` adds a row per cell with the mean over the datasets of a model.
    """

    def build(results: Results) -> Iterator[Table]:
        lines = [line for source in results for line in source]
        shown, explained = with_printed(fields, lines)
        made = table(name, title, shown, lines, [*notes, *explained, settings_of(lines)])
        for group in by_model(results) if averaged else ():
            made.rows.extend(_average(shown, same) for same in zip(*group, strict=True) if len(same) > 1)
        yield made

    return build


def with_printed(fields: Sequence[Field[T]], lines: Sequence[T]) -> tuple[list[Field[T]], list[str]]:
    """The fields less those of the paper that have no number for these lines, and a note if some are left."""
    shown = [one for one in fields if not one.column.paper or any(one.value(line) is not None for line in lines)]
    note = "columns marked with a table of the paper are its own printed numbers, not ours"
    return shown, [note] if any(one.column.paper for one in shown) else []


def same_cells(results: Results) -> bool:
    return len({tuple(line.cell.label for line in lines) for lines in results}) == 1


def mean(values: Iterable[float | None]) -> float | None:
    """None if a value is missing, or if there are none."""
    every = list(values)
    numbers = [value for value in every if value is not None]
    return fmean(numbers) if numbers and len(numbers) == len(every) else None


def _average(fields: Sequence[Field[CellResult]], lines: Sequence[CellResult]) -> list[Cell]:
    """The plain mean over datasets of the same cell, as in the paper; it has no questions of its own to count."""

    def cell(one: Field[CellResult]) -> Cell:
        if one in (WON, LOST) or one.column.paper:
            return None
        text = one.value(lines[0])
        if isinstance(text, str):
            return published.AVERAGE if one is DATASET else text
        return mean(map(one.number, lines))

    return list(map(cell, fields))


COLUMNS: Final = [
    *columns("text", "model", "dataset", "strategy", "compared with"),
    *columns("count", "questions"),
    *columns("points", "difference"),
    *columns("count", "gained", "lost", unit="questions"),
    *columns("number", "could detect", unit="points", digits=1),
]
READING: Final = (
    "difference of accuracy on the same questions, with a 95% interval that resamples questions; gained and lost: "
    "questions that are right in more, and in fewer, repeats",
    "could detect: the true difference that a sample of these questions would show at the 5% level in 80% of cases, "
    f"{DETECT:g} (1.96 + 0.84) standard errors of the paired difference; interval and standard error include one "
    "imagined question gained and one lost, since a sample in which none changed has no spread of its own",
    "a question that occurs in several pools counts once, where it occurs first",
)


def compared_table(title: str) -> Part:
    """Every method against the first of its model, dataset by dataset and over all of them."""

    def build(results: Results) -> Iterator[Table]:
        rows: list[list[Cell]] = []
        for group in by_model(results):
            for same in list(zip(*group, strict=True))[1:]:
                samples = [(line.source.dataset, [line]) for line in same]
                if len(same) > 1:
                    samples.append(("all together", list(same)))
                for dataset, lines in samples:
                    names = [same[0].source.model, dataset, same[0].cell.label, group[0][0].cell.label]
                    rows.append([*names, *_compared(_gains(lines), same[0].cell.options.seed)])
        settings = settings_of([line for lines in results for line in lines])
        yield Table("pooled", title, COLUMNS, rows, [*READING, settings])

    return build


def by_model(results: Results) -> list[list[list[CellResult]]]:
    """The sources of each model together, if their methods are the same."""
    models = grouped(results, lambda lines: (lines[0].source.model, *(line.cell.label for line in lines)))
    return list(models.values())


def _gains(lines: Sequence[CellResult]) -> Floats:
    """By graded question, known by id and gold answer: files of different questions may use the same ids."""
    gains: dict[tuple[str, str | None], float] = {}
    for line in lines:
        for question, gain in zip(line.opened.questions, np.subtract(line.runs.right, line.first.right), strict=True):
            if isfinite(gain):
                gains.setdefault(question, gain)
    return np.array(list(gains.values()))


def _compared(gains: Floats, seed: int) -> list[Cell]:
    if not gains.size:
        return [0, None, None, None, None]
    difference, error = paired(gains, seed)
    gained, lost = int((gains > 0).sum()), int((gains < 0).sum())
    return [len(gains), difference, gained, lost, 100 * DETECT * error]


def resampled(values: Floats, seed: int) -> Measure:
    """The mean, with its 95% interval by resampling."""
    return measure(float(values.mean()) if values.size else nan, intervals(values.reshape(-1, 1), seed)[0])


# -- the settings that every table ends with

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
    return settings_note(
        window=by_dataset((line.source.dataset, line.cell.options.window) for line in lines),
        budget=by_dataset((line.source.dataset, _budget(line)) for line in lines),
        repeats=f"{lines[0].row.repeats} (orders of the recorded paths, seed {lines[0].cell.options.seed})",
        weights=weight_scales(line.cell.strategy for line in lines),
    )


def pool_windows(pools: Iterable[OpenPool]) -> str:
    """The windows of pools that were read path by path."""
    return by_dataset((pool.source.dataset, pool.window) for pool in pools)


def _budget(line: CellResult) -> str:
    options, recorded = line.cell.options, max(line.opened.paths, default=0)
    paths = f"{options.paths or recorded} paths"
    if options.paths is not None and options.paths > recorded:
        paths += f" ({recorded} recorded, all used)"
    return paths if options.max_tokens is None else f"{paths}, {options.max_tokens:,} tokens"


def by_dataset(values: Iterable[tuple[str, object]]) -> str:
    """One value for all datasets, or one for each; values that differ within a dataset are told apart by the table."""
    pairs = dict.fromkeys(values)
    if len(pairs) > len({dataset for dataset, _ in pairs}):
        return VARIED
    texts = grouped(pairs, lambda pair: pair[1])
    if len(texts) == 1:
        return str(next(iter(texts)))
    return ", ".join(f"{text} on {' and '.join(dataset for dataset, _ in same)}" for text, same in texts.items())


def weight_scales(strategies: Iterable[str | Strategy]) -> str:
    """The scale that all strategies have in common, or each with the strategies that have it."""
    named = {render(one): one for one in map(resolve, strategies)}
    scales = grouped(named, lambda name: weight_scale(named[name]))
    if len(scales) == 1:
        return next(iter(scales))
    return ", ".join(f"{scale} ({', '.join(same)})" for scale, same in scales.items())


def weight_scale(strategy: Strategy) -> str:
    """The scale of a strategy's weights, on which its stop test depends."""
    weigh = strategy.weigh
    if not weigh.reads:
        return "1 per path"
    if isinstance(weigh, BySignals | BySoftmax):
        return "effective votes"
    scale = "raw" if isinstance(weigh, ByLowest) else getattr(weigh, "weight", None)
    return f"C_path {scale}" if scale else "its own"


# -- figures

CATEGORIES: Final = Axis("", "category")


def axis(of: Field[Line], scale: Literal["linear", "log"] = "linear") -> Axis:
    shown = of.column
    title = f"{shown.title} {shown.unit}" if shown.unit.startswith("per ") else heading(shown)
    return Axis(title, scale, shown.kind == "percent")


def series(name: str, lines: Sequence[Line], x: Sequence[str | float | None], y: Field[Line]) -> Series:
    """One series over lines of a table, with intervals if the field has them."""
    measures = [cell for cell in map(y.value, lines) if isinstance(cell, Measure)]
    lows, highs = [one.low for one in measures], [one.high for one in measures]
    return Series(name, list(x), [y.number(line) for line in lines], lows, highs)


def cell_figure(name: str, title: str, y: Field[Line], sweep: Axis | None = None) -> Part:
    """Bars by label, one per source; or a line per source along the sweep's values, which are the cells' labels.

    And the plain mean over several sources that have the same cells.
    """

    def build(results: Results) -> Iterator[Figure]:
        places = [[line.cell.label if sweep is None else float(line.cell.label) for line in lines] for lines in results]
        names = source_names([lines[0].source for lines in results])
        every = [series(*one, y) for one in zip(names, results, places, strict=True)]
        if len(results) > 1 and same_cells(results):
            means = [mean(map(y.number, same)) for same in zip(*results, strict=True)]
            every.append(Series("mean", [*places[0]], means))
        yield Figure(name, title, "line" if sweep else "bar", sweep or CATEGORIES, axis(y), every)

    return build


def accuracy_and_tokens(by: str, sweep: Axis | None = None) -> Part:
    """The two figures that most sweeps have."""

    def build(results: Results) -> Iterator[Found]:
        yield from cell_figure("accuracy", f"Accuracy {by}", ACCURACY, sweep)(results)
        yield from cell_figure("tokens", f"Tokens {by}", TOKENS, sweep)(results)

    return build


def source_names(sources: Sequence[Source]) -> list[str]:
    """The datasets, with their models if there are several."""
    several = len({source.model for source in sources}) > 1
    return [source.label if several else source.dataset for source in sources]
