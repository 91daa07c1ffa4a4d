"""Figures by matplotlib, as SVG, in colours that colour-blind readers can distinguish."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from importlib.util import find_spec
from math import isfinite, log2
from typing import Any, Final

from sureenough.bench.result import Axis, Figure
from sureenough.bench.tables import one_line

COLOURS: Final = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#808080", "#8c510a")
OUTSIDE: Final = COLOURS[6]
"""Of intervals that do not exclude the limit."""
MARKERS: Final = "osD^vPX*"
STYLE: Final[dict[Any, Any]] = {
    "font.size": 8, "axes.labelsize": 8, "legend.fontsize": 7, "xtick.labelsize": 7, "ytick.labelsize": 7,
    "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True, "grid.color": "#000000",
    "grid.alpha": 0.1, "grid.linewidth": 0.6, "axes.axisbelow": True, "lines.linewidth": 1.3, "lines.markersize": 4,
    "legend.frameon": False, "svg.hashsalt": "sureenough", "svg.fonttype": "none", "figure.facecolor": "white",
    "text.parse_math": False,
}  # fmt: skip
MISSING: Final = "Figures need matplotlib: pip install 'sureenough[bench]', then make the report again."
INHERITED: Final = {"#000000": "currentColor", "#ffffff": "none"}
"""Colours of the page in place of black and white."""


def can_draw() -> bool:
    return find_spec("matplotlib") is not None


def draw(figure: Figure, origin: str) -> str:
    """An SVG file, the same bytes every time, with its origin."""
    import matplotlib as mpl
    from matplotlib.backends import backend_svg
    from matplotlib.figure import Figure as Canvas

    out = io.StringIO()
    metadata = {"Title": one_line(figure.title), "Description": origin, "Date": None}
    with mpl.rc_context(STYLE):
        lines = len(figure.series[0].x) if figure.kind == "intervals" else len(figure.series)
        width, height = 5.4 if len(figure.series) > 1 else 4.6, max(3.1, 0.7 + 0.17 * lines)  # the legend must fit
        canvas = Canvas(figsize=(width, height), layout="constrained")
        _draw(canvas.subplots(), figure)
        backend: Any = backend_svg.FigureCanvasSVG(canvas)
        backend.print_svg(out, metadata=metadata)
    return out.getvalue()


def embedded(svg: str, title: str) -> str:
    """The same for a page that allows no style attributes, in the page's colours: readable on light and on dark."""
    root = ET.fromstring(svg)
    for parent in list(root.iter()):
        for child in list(parent):
            if child.tag.endswith(("}metadata", "}style")):
                parent.remove(child)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
        attributes = {name.rpartition("}")[2]: value for name, value in element.attrib.items()}
        for rule in filter(None, map(str.strip, attributes.pop("style", "").split(";"))):
            name, _, value = (part.strip() for part in rule.partition(":"))
            if name == "font":
                name, value = "font-size", value.split()[0]
            attributes[name] = INHERITED.get(value, value)
        if element.tag == "g":
            attributes.pop("id", None)  # those of several figures are the same
        element.attrib.clear()
        element.attrib.update(attributes)
    view = {"viewBox": root.attrib["viewBox"], "role": "img", "aria-label": one_line(title)}
    root.attrib.clear()
    root.attrib.update(view | {"stroke-linejoin": "round", "stroke-linecap": "butt"})
    return ET.tostring(root, encoding="unicode")


def _draw(axes: Any, figure: Figure) -> None:
    every = figure.series
    if figure.kind == "intervals":
        _draw_intervals(axes, figure)
        _axis(axes.xaxis, figure.y, axes.set_xscale, every[0].y)
    else:
        for i in range(len(every)):
            _draw_series(axes, figure, i)
        places = [x for series in every for x in series.x]
        if figure.x.scale == "category":
            _categories(axes, figure.x, _names(places))
        else:
            numbers = [x for x in places if not isinstance(x, str)]
            _axis(axes.xaxis, figure.x, axes.set_xscale, numbers, own_ticks=True)
        _axis(axes.yaxis, figure.y, axes.set_yscale, [y for series in every for y in series.y])
    if len(every) > 1 or every[0].paper:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _draw_series(axes: Any, figure: Figure, i: int) -> None:
    series, kind = figure.series[i], figure.kind
    y, low, high = map(_numbers, (series.y, series.low, series.high))
    colour, marker, again = COLOURS[i % len(COLOURS)], MARKERS[i % len(MARKERS)], i >= len(COLOURS)
    label = one_line(series.name) + (f" (paper, {series.paper})" if series.paper else "")
    look = {"color": "#000000" if series.paper else colour, "label": label}
    if kind == "bar":
        names, width = _names([x for one in figure.series for x in one.x]), 0.8 / len(figure.series)
        x = [names.index(str(name)) - 0.4 + width * (i + 0.5) for name in series.x]
        axes.bar(x, y, width * 0.92, **look)
    else:
        x = _numbers(series.x)
    if kind == "line":
        axes.plot(x, y, marker=marker, linestyle="--" if series.paper or again else "-", **look)
    elif kind == "points":
        fill = {"markerfacecolor": "white"} if again else {}
        axes.plot(x, y, linestyle="none", marker=marker, markersize=6, **look, **fill)
    elif kind == "steps":
        axes.step(x, y, where="mid", **look)
        axes.fill_between(x, y, step="mid", color=colour, alpha=0.12, linewidth=0)
    if low and kind == "line" and len(figure.series) <= 5:
        axes.fill_between(x, low, high, color=colour, alpha=0.12, linewidth=0)
    elif low and kind in ("points", "bar"):
        axes.vlines(x, low, high, color=colour if kind == "points" else "#000000", alpha=0.5, linewidth=0.9)


def _draw_intervals(axes: Any, figure: Figure) -> None:
    """One line per category, its value along the horizontal axis."""
    series = figure.series[0]
    places = list(range(len(series.x)))
    colours = [COLOURS[0] if one else OUTSIDE for one in series.marked or [True] * len(places)]
    axes.hlines(places, _numbers(series.low), _numbers(series.high), color=colours, linewidth=1.5)
    axes.scatter(_numbers(series.y), places, s=16, color=colours, zorder=2)
    axes.set_yticks(places, [one_line(str(name))[:40] for name in series.x])
    for limit in figure.limits:
        axes.axvline(limit, color="#000000", linestyle="--" if limit else "-", linewidth=0.8)
    axes.invert_yaxis()


def _names(places: Sequence[object]) -> list[str]:
    return list(dict.fromkeys(map(str, places)))


def _numbers(values: Any) -> list[float]:
    """NaN for what cannot be drawn; of a logarithmic axis matplotlib takes no power of ten beyond 300."""
    drawable = [value is not None and (value == 0 or 1e-99 < abs(value) < 1e99) for value in values]
    return [float(value) if one else float("nan") for value, one in zip(values, drawable, strict=True)]


def _categories(axes: Any, spec: Axis, names: list[str]) -> None:
    long = max(map(len, names), default=0) * len(names) > 60
    turned = {"rotation": 25, "ha": "right"} if long else {}
    axes.set_xticks(range(len(names)), [one_line(name)[:40] for name in names], **turned)
    axes.grid(visible=False, axis="x")
    axes.xaxis.set_label_text(one_line(spec.title))


def _axis(axis: Any, spec: Axis, set_scale: Any, values: Sequence[Any], own_ticks: bool = False) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_label_text(one_line(spec.title))
    places = sorted({value for value in _numbers(values) if isfinite(value)})
    if spec.scale == "log" and places and places[-1] > 0:
        set_scale("log")
        if own_ticks and len(places) <= 10 and all(value > 0 and _round(value) for value in places):
            axis.set_ticks(places)  # a sweep's own values
        else:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
    shown = (lambda value: f"{100 * value:g}") if spec.percent and spec.scale != "log" else short_number
    axis.set_major_formatter(FuncFormatter(lambda value, _: shown(value)))


def _round(value: float) -> bool:
    return float(f"{value:.2g}") == value or log2(value).is_integer()


def short_number(value: float) -> str:
    if value == int(value) and abs(value) < 1e4 and value % 100:
        return f"{value:.0f}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
