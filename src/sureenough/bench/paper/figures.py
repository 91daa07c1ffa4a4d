"""Figures that several experiments declare: a measure over categories, and a measure along a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench.paper.experiment import FigureOf, Results
from sureenough.bench.recommendation import MARGIN
from sureenough.bench.replay import CellResult
from sureenough.bench.result import Axis, Figure, Recommendation, Series, number

CATEGORIES: Final = Axis("", "category")


class Measured(NamedTuple):
    """What a figure shows along its y axis."""

    axis: Axis
    value: Callable[[CellResult], float]
    intervals: bool = False  # of accuracy


ACCURACY: Final = Measured(Axis("accuracy, %", percent=True), lambda line: line.row.accuracy, True)
TOKENS: Final = Measured(Axis("tokens per question"), lambda line: line.row.tokens)
STEPS: Final = Measured(Axis("steps per question"), lambda line: line.row.steps)


def series(name: str, lines: Sequence[CellResult], x: Sequence[str | float | None], y: Measured) -> Series:
    """One series over lines of a table, with the intervals of accuracy."""
    intervals = [line.row.interval for line in lines] if y.intervals else []
    return Series(
        name,
        list(x),
        [number(y.value(line)) for line in lines],
        [number(interval.low) for interval in intervals],
        [number(interval.high) for interval in intervals],
    )


def bars(name: str, title: str, y: Measured) -> FigureOf:
    """One group of bars per label, one bar per source."""

    def build(results: Results) -> Figure:
        every = [series(legend(one, results), one, [line.cell.label for line in one], y) for one in results]
        return Figure(name, title, "bar", CATEGORIES, y.axis, [*every, *_mean(results, y)])

    return build


def _mean(results: Results, y: Measured) -> list[Series]:
    """The plain mean over several sources that have the same cells."""
    labels = {tuple(line.cell.label for line in one) for one in results}
    if len(results) < 2 or len(labels) > 1:
        return []
    means = [number(fmean(y.value(line) for line in same)) for same in zip(*results, strict=True)]
    return [Series("mean", [*next(iter(labels))], means)]


def sweep(name: str, title: str, x: Axis, y: Measured) -> FigureOf:
    """One line per source along the sweep's values, which are the cells' labels; and the mean over sources."""

    def build(results: Results) -> Figure:
        every = [series(legend(one, results), one, [float(line.cell.label) for line in one], y) for one in results]
        means = [Series(mean.name, [float(str(label)) for label in mean.x], mean.y) for mean in _mean(results, y)]
        return Figure(name, title, "line", x, y.axis, [*every, *means])

    return build


def differences(name: str, recommendation: Recommendation) -> Figure:
    """How much each strategy differs from the reference on the same questions, the cheapest first."""
    every = recommendation.candidates
    saved = [recommendation.tokens / one.tokens if one.tokens else 1.0 for one in every]
    measures = [one.difference for one in every]
    noun = "accuracy" if recommendation.basis == "accuracy" else "agreement"
    return Figure(
        name,
        f"{recommendation.dataset}, {recommendation.model}: {noun} compared with {recommendation.reference}",
        "intervals",
        CATEGORIES,
        Axis(f"difference of {noun}, points", percent=True),
        [
            Series(
                "difference",
                [f"{one.strategy}, {times:.1f}x" for one, times in zip(every, saved, strict=True)],
                [one.value for one in measures],
                [one.low for one in measures],
                [one.high for one in measures],
                marked=[(one.low or 0.0) >= -MARGIN for one in measures],
            )
        ],
        ["cautious 95% intervals; behind each name how many times fewer tokens it spends; dashed: a loss of "
         f"{100 * MARGIN:g} points, which coloured intervals exclude"],
        limits=[0.0, -MARGIN],
    )  # fmt: skip


def legend(lines: Sequence[CellResult], results: Results) -> str:
    """The dataset, with its model if there are several."""
    models = {other[0].source.model for other in results}
    return lines[0].source.dataset if len(models) == 1 else lines[0].source.label
