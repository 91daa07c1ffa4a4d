"""A figure as lines of text: a letter per series, a capital where no other point beats it."""

from __future__ import annotations

from string import ascii_lowercase
from typing import Final

from sureenough.bench.report.cells import one_line
from sureenough.bench.report.scale import PlotScale
from sureenough.bench.result import Figure

COLUMNS: Final = 64
ROWS: Final = 16


def text_plot(figure: Figure) -> list[str]:
    """For a terminal or a pipe."""
    x = PlotScale.over(figure.x, [v for s in figure.series for v in s.x if not isinstance(v, str)], 0, COLUMNS - 1)
    y = PlotScale.over(figure.y, [v for s in figure.series for v in s.y], ROWS - 1, 0)
    grid = [[" "] * COLUMNS for _ in range(ROWS)]
    for letter, series in zip(ascii_lowercase, figure.series, strict=False):
        for k, (a, b) in enumerate(zip(series.x, series.y, strict=True)):
            column, row = x.at(a), y.at(b)
            if column is None or row is None:
                continue
            best = bool(series.marked) and series.marked[k]
            place = grid[round(row)]
            if best or not place[round(column)].isupper():
                place[round(column)] = letter.upper() if best else letter
    labels = {round(y.at(value) or 0.0): text for value, text in y.ticks()}
    width = max(map(len, labels.values()), default=0)
    lines = [f"{labels.get(i, ''):>{width}} │{''.join(row).rstrip()}" for i, row in enumerate(grid)]
    ruler = [" "] * (COLUMNS + 8)
    for value, text in x.ticks():
        start = round(x.at(value) or 0.0)
        if all(cell == " " for cell in ruler[max(0, start - 1) : start + len(text) + 1]):
            ruler[start : start + len(text)] = text
    names = ", ".join(f"{letter} {s.name}" for letter, s in zip(ascii_lowercase, figure.series, strict=False))
    return [
        one_line(figure.title),
        *lines,
        f"{'':>{width}} └{'─' * COLUMNS}",
        f"{'':>{width}}  {''.join(ruler).rstrip()}",
        f"{one_line(figure.y.title)} against {one_line(figure.x.title)}: {one_line(names)}; capitals: not beaten",
    ]
