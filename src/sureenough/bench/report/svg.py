"""Figures of the report page, as inline SVG that needs no other package; points and bars say their values on hovering.

Text and axes take the page's colour, so the same figure is readable on a light and on a dark ground.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Sequence
from typing import Any, Final

from sureenough.bench.report.cells import one_line
from sureenough.bench.report.plots import COLOURS, categories, legend_text
from sureenough.bench.report.scale import PlotScale
from sureenough.bench.result import Axis, Figure, Series

WIDTH: Final = 480
TOP: Final = 12.0
PLOT_HEIGHT: Final = 210.0
FONT: Final = 11
CHARACTER: Final = 5.9  # mean width of a character at this size
DASHES: Final = ("", "6 3", "2 3")
SHAPES: Final = (
    "M{x} {y}m-{r} 0a{r} {r} 0 1 0 {d} 0a{r} {r} 0 1 0 -{d} 0",
    "M{x} {y}m-{r} -{r}h{d}v{d}h-{d}z",
    "M{x} {y}m0 -{d}l{r} {d}l-{r} {d}l-{r} -{d}z",
    "M{x} {y}m0 -{r}l{r} {d}h-{d}z",
)
"""Circle, square, diamond, triangle."""


def figure_svg(figure: Figure) -> str:
    return _intervals(figure) if figure.kind == "intervals" else _chart(figure)


def _chart(figure: Figure) -> str:
    names = categories(figure) if figure.x.scale == "category" or figure.kind == "bar" else []
    long = sum(len(name[:24]) for name in names) * CHARACTER > WIDTH - 90
    bottom = TOP + PLOT_HEIGHT
    values = [v for series in figure.series for v in (*series.y, *series.low, *series.high)]
    y = PlotScale.over(figure.y, values, bottom, TOP, zero=figure.kind in ("bar", "steps"))
    left = 26 + CHARACTER * max((len(text) for _, text in y.ticks()), default=0)
    xs = [v for series in figure.series for v in series.x if not isinstance(v, str)]
    x = PlotScale.over(figure.x, () if names else xs, left, WIDTH - 8)
    x.names = names
    depth = 70 if long else 18
    legend = _legend_rows(figure.series) if len(figure.series) > 1 or figure.series[0].paper else []
    svg = _canvas(figure, bottom + depth + 18 + 16 * len(legend))
    _grid(svg, x, y, bottom, left, rotate=long)
    _text(svg, (left + WIDTH) / 2, bottom + depth + 10, figure.x.title, anchor="middle")
    _text(svg, 10, TOP + PLOT_HEIGHT / 2, figure.y.title, anchor="middle", turn=-90)
    for i, series in enumerate(figure.series):
        group = _add(svg, "g", stroke=_colour(i, series), fill=_colour(i, series))
        DRAW[figure.kind](group, figure, i, x, y)
    for row, items in enumerate(legend):
        _legend_row(svg, items, bottom + depth + 26 + 16 * row)
    return ET.tostring(svg, encoding="unicode")


def _intervals(figure: Figure) -> str:
    """One line per category, its value along the horizontal axis."""
    series = figure.series[0]
    left = 10 + CHARACTER * max((min(len(str(name)), 34) for name in series.x), default=0)
    height = max(22.0, 110.0 / max(1, len(series.x)))  # of a line
    bottom = TOP + height * len(series.x)
    x = PlotScale.over(figure.y, [*series.y, *series.low, *series.high, *figure.limits], left, WIDTH - 12)
    svg = _canvas(figure, bottom + 38)
    for value, text in x.ticks():
        _add(svg, "path", d=f"M{x.at(value):.1f} {TOP}V{bottom}", stroke="currentColor", stroke_opacity="0.15")
        _text(svg, x.at(value) or 0.0, bottom + 14, text, anchor="middle")
    for limit in figure.limits:
        dash = {"stroke_dasharray": "4 3"} if limit else {}
        if (place := x.at(limit)) is not None:
            _add(svg, "path", d=f"M{place:.1f} {TOP}V{bottom}", stroke="currentColor", **dash)
    _text(svg, (left + WIDTH) / 2, bottom + 30, figure.y.title, anchor="middle")
    for k, name in enumerate(series.x):
        middle, place = TOP + height * (k + 0.5), x.at(series.y[k])
        _text(svg, left - 6, middle + 4, str(name)[:34], anchor="end")
        if place is None:
            continue
        colour = COLOURS[0] if not series.marked or series.marked[k] else COLOURS[6]
        group = _add(svg, "g", stroke=colour, fill=colour)
        ends = [x.at(bound[k]) for bound in (series.low, series.high) if bound]
        if len(ends) == 2 and None not in ends:
            _add(group, "path", d=f"M{ends[0]:.1f} {middle}H{ends[1]:.1f}", stroke_width="2")
        _mark(group, 0, place, middle, hover_text(figure, series, k))
    return ET.tostring(svg, encoding="unicode")


def _canvas(figure: Figure, height: float) -> ET.Element:
    svg = ET.Element("svg", {"viewBox": f"0 0 {WIDTH} {height:.0f}", "role": "img", "font-size": str(FONT)})
    svg.set("aria-label", one_line(figure.title))
    svg.set("fill", "none")
    return svg


def _add(parent: ET.Element, tag: str, **attributes: Any) -> ET.Element:
    return ET.SubElement(parent, tag, {name.replace("_", "-"): str(value) for name, value in attributes.items()})


def _text(parent: ET.Element, x: float, y: float, text: str, *, anchor: str = "start", turn: float = 0.0) -> None:
    turned = {"transform": f"rotate({turn:g} {x:.1f} {y:.1f})"} if turn else {}
    element = _add(parent, "text", x=f"{x:.1f}", y=f"{y:.1f}", fill="currentColor", text_anchor=anchor, **turned)
    element.text = one_line(text)


def _grid(svg: ET.Element, x: PlotScale, y: PlotScale, bottom: float, left: float, *, rotate: bool) -> None:
    for value, text in y.ticks():
        _add(svg, "path", d=f"M{left:.1f} {y.at(value):.1f}H{WIDTH - 8}", stroke="currentColor", stroke_opacity="0.15")
        _text(svg, left - 4, (y.at(value) or 0.0) + 4, text, anchor="end")
    _add(svg, "path", d=f"M{left:.1f} {TOP}V{bottom}H{WIDTH - 8}", stroke="currentColor", stroke_opacity="0.5")
    for name in x.names:
        place = x.at(name) or 0.0
        _text(svg, place, bottom + 14, name[:24], anchor="end" if rotate else "middle", turn=-30 if rotate else 0)
    for value, text in [] if x.names else x.ticks():
        _add(svg, "path", d=f"M{x.at(value):.1f} {bottom}v4", stroke="currentColor")
        _text(svg, x.at(value) or 0.0, bottom + 16, text, anchor="middle")


def _points(series: Series, x: PlotScale, y: PlotScale) -> list[tuple[int, float, float]]:
    places = [(k, x.at(a), y.at(b)) for k, (a, b) in enumerate(zip(series.x, series.y, strict=True))]
    return [(k, a, b) for k, a, b in places if a is not None and b is not None]


def _draw_line(group: ET.Element, figure: Figure, i: int, x: PlotScale, y: PlotScale) -> None:
    points = _points(figure.series[i], x, y)
    dash = DASHES[-1 if figure.series[i].paper else i // len(COLOURS) % 2]
    path = "M" + "L".join(f"{a:.1f} {b:.1f}" for _, a, b in points) if points else ""
    _add(group, "path", d=path, fill="none", stroke_width="1.6", stroke_dasharray=dash or "none")
    _draw_points(group, figure, i, x, y, bars=len(figure.series) <= 5)


def _draw_points(group: ET.Element, figure: Figure, i: int, x: PlotScale, y: PlotScale, bars: bool = True) -> None:
    series = figure.series[i]
    for k, a, b in _points(series, x, y):
        if bars and series.low:
            _error_bar(group, series, k, a, y)
        if series.marked and series.marked[k]:
            _add(group, "circle", cx=f"{a:.1f}", cy=f"{b:.1f}", r="8", fill="none", stroke="currentColor")
        _mark(group, i, a, b, hover_text(figure, series, k))


def _draw_bars(group: ET.Element, figure: Figure, i: int, x: PlotScale, y: PlotScale) -> None:
    series, number = figure.series[i], len(figure.series)
    width = 0.8 * (x.end - x.start) / max(1, len(x.names)) / number
    base = y.at(0.0) if y.axis.scale != "log" else y.start
    for k, a, b in _points(series, x, y):
        left = a + width * (i - number / 2)
        top, size = min(b, base or y.start), abs(b - (base or y.start))
        bar = _add(
            group, "rect", x=f"{left:.1f}", y=f"{top:.1f}", width=f"{width * 0.92:.1f}", height=f"{max(size, 0.5):.1f}"
        )
        _add(bar, "title").text = hover_text(figure, series, k)
        if series.low:
            _error_bar(group, series, k, left + width * 0.46, y, colour="currentColor")


def _draw_steps(group: ET.Element, figure: Figure, i: int, x: PlotScale, y: PlotScale) -> None:
    points = _points(figure.series[i], x, y)
    path, half = "", abs(points[1][1] - points[0][1]) / 2 if len(points) > 1 else 4.0
    for n, (_, a, b) in enumerate(points):
        path += f"{'L' if n else 'M'}{a - half:.1f} {b:.1f}H{a + half:.1f}"
    curve = _add(group, "path", d=path, fill="none", stroke_width="1.6")
    _add(curve, "title").text = legend_text(figure.series[i])


DRAW: Final[dict[str, Callable[..., None]]] = {
    "line": _draw_line, "points": _draw_points, "bar": _draw_bars, "steps": _draw_steps,
}  # fmt: skip


def _error_bar(group: ET.Element, series: Series, k: int, at: float, y: PlotScale, colour: str = "") -> None:
    low, high = y.at(series.low[k]), y.at(series.high[k])
    if low is not None and high is not None:
        own = {"stroke": colour} if colour else {"stroke_opacity": "0.4"}
        _add(group, "path", d=f"M{at:.1f} {low:.1f}V{high:.1f}", **own)


def _mark(group: ET.Element, i: int, x: float, y: float, hover: str) -> None:
    shape = SHAPES[(i + i // len(COLOURS)) % len(SHAPES)].format(x=f"{x:.1f}", y=f"{y:.1f}", r=4, d=8)
    mark = _add(group, "path", d=shape, stroke="none")
    _add(mark, "title").text = hover


def _colour(i: int, series: Series) -> str:
    return "currentColor" if series.paper else COLOURS[i % len(COLOURS)]


def _legend_rows(series: Sequence[Series]) -> list[list[tuple[int, Series, float]]]:
    """The names below the figure, as many per row as fit."""
    rows: list[list[tuple[int, Series, float]]] = [[]]
    x = 8.0
    for i, one in enumerate(series):
        width = 26 + CHARACTER * len(legend_text(one)[:60])
        if rows[-1] and x + width > WIDTH:
            rows.append([])
            x = 8.0
        rows[-1].append((i, one, x))
        x += width
    return rows


def _legend_row(svg: ET.Element, items: Sequence[tuple[int, Series, float]], y: float) -> None:
    for i, series, x in items:
        group = _add(svg, "g", fill=_colour(i, series))
        _mark(group, i, x + 5, y - 4, "")
        _text(svg, x + 14, y, legend_text(series)[:60])


def hover_text(figure: Figure, series: Series, k: int) -> str:
    x, name = series.x[k], series.labels[k] if series.labels else legend_text(series)
    place = x if isinstance(x, str) else _value_text(x, figure.x)
    text = (
        f"{one_line(name)}\n{figure.x.title or 'at'}: {place}\n{figure.y.title}: {_value_text(series.y[k], figure.y)}"
    )
    if series.low and series.low[k] is not None:
        text += f" [{_value_text(series.low[k], figure.y)}, {_value_text(series.high[k], figure.y)}]"
    return text


def _value_text(value: float | None, axis: Axis) -> str:
    if value is None:
        return "–"
    return f"{100 * value:.1f} %" if axis.percent else f"{value:,.4g}"
