"""Figures that several experiments draw: a measure over categories, and a measure along a sweep."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean

from sureenough.bench.experiments.fields import number
from sureenough.bench.experiments.replays import CellResult
from sureenough.bench.result import Axis, Figure, Series

Value = Callable[[CellResult], float]


def accuracy(line: CellResult) -> float:
    """Of a line."""
    return line.row.accuracy


def tokens(line: CellResult) -> float:
    """Of a line, a question."""
    return line.row.tokens


ACCURACY = Axis("accuracy, %", percent=True)
TOKENS = Axis("tokens a question")


def _series(
    one: list[CellResult], lines: Sequence[list[CellResult]], places: Sequence[str | float], value: Value
) -> Series:
    """One source's values, with intervals on accuracy."""
    intervals = [line.row.interval for line in one] if value is accuracy else []
    return Series(
        legend(one, lines),
        list(places),
        [number(value(line)) for line in one],
        [number(interval.low) for interval in intervals],
        [number(interval.high) for interval in intervals],
    )


def bars(name: str, title: str, lines: Sequence[list[CellResult]], y: Axis, value: Value) -> Figure:
    """A group of bars a label, a bar a source; intervals on accuracy."""
    series = [_series(one, lines, [line.cell.label for line in one], value) for one in lines]
    return Figure(name, title, "bar", Axis("", "category"), y, series)


def sweep(name: str, title: str, lines: Sequence[list[CellResult]], x: Axis, y: Axis, value: Value) -> Figure:
    """A line a source along the sweep's values, which the cells' labels are; and the mean over sources."""
    series = [_series(one, lines, [float(line.cell.label) for line in one], value) for one in lines]
    places = {tuple(line.cell.label for line in one) for one in lines}
    if len(lines) > 1 and len(places) == 1:
        series.append(
            Series("mean", [float(place) for place in next(iter(places))],
                   [number(fmean(value(line) for line in same)) for same in zip(*lines, strict=True)])
        )  # fmt: skip
    return Figure(name, title, "line", x, y, series)


def legend(one: Sequence[CellResult], lines: Sequence[Sequence[CellResult]]) -> str:
    """The dataset, with its model where there are several."""
    models = {other[0].source.model for other in lines}
    return one[0].source.dataset if len(models) == 1 else one[0].source.label
