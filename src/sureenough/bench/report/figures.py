"""Figures by matplotlib, as SVG, in colours that colour-blind readers can distinguish."""

from __future__ import annotations

import io
import xml.etree.ElementTree as ET
from importlib.util import find_spec
from math import log2
from typing import Any, Final

from sureenough.bench.result import Axis, Figure, Series
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
    if figure.kind == "intervals":
        _intervals(axes, figure)
        _axis(axes, axes.xaxis, figure.y, "x", [])
    else:
        {"line": _lines, "points": _points, "bar": _bars, "steps": _steps}[figure.kind](axes, figure)
        _axis(axes, axes.xaxis, figure.x, "x", [x for series in figure.series for x in series.x])
        _axis(axes, axes.yaxis, figure.y, "y", [])
    if len(figure.series) > 1 or figure.series[0].paper:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))


def _look(i: int, series: Series) -> dict[str, Any]:
    label = one_line(series.name) + (f" (paper, {series.paper})" if series.paper else "")
    return {"color": "#000000" if series.paper else COLOURS[i % len(COLOURS)], "label": label}


def _lines(axes: Any, figure: Figure) -> None:
    for i, series in enumerate(figure.series):
        style = "--" if series.paper or i >= len(COLOURS) else "-"
        x, y = _numbers(series.x), _numbers(series.y)
        axes.plot(x, y, marker=MARKERS[i % len(MARKERS)], linestyle=style, **_look(i, series))
        if series.low and len(figure.series) <= 5:
            band = _numbers(series.low), _numbers(series.high)
            axes.fill_between(x, *band, color=COLOURS[i % len(COLOURS)], alpha=0.12, linewidth=0)


def _points(axes: Any, figure: Figure) -> None:
    for i, series in enumerate(figure.series):
        x, y = _numbers(series.x), _numbers(series.y)
        if series.low:
            axes.vlines(x, _numbers(series.low), _numbers(series.high), color=COLOURS[i % len(COLOURS)], alpha=0.35,
                        linewidth=1)  # fmt: skip
        hollow = {"markerfacecolor": "white"} if i >= len(COLOURS) else {}
        look = hollow | _look(i, series)
        axes.plot(x, y, linestyle="none", marker=MARKERS[i % len(MARKERS)], markersize=6, **look)


def _bars(axes: Any, figure: Figure) -> None:
    places = list(dict.fromkeys(str(x) for series in figure.series for x in series.x))
    width = 0.8 / max(1, len(figure.series))
    for i, series in enumerate(figure.series):
        at = [places.index(str(x)) - 0.4 + width * (i + 0.5) for x in series.x]
        heights = _numbers(series.y)
        axes.bar(at, heights, width * 0.92, **_look(i, series))
        if series.low:
            axes.vlines(at, _numbers(series.low), _numbers(series.high), color="#000000", linewidth=0.8)


def _steps(axes: Any, figure: Figure) -> None:
    for i, series in enumerate(figure.series):
        x, y = _numbers(series.x), _numbers(series.y)
        axes.step(x, y, where="mid", **_look(i, series))
        axes.fill_between(x, y, step="mid", color=COLOURS[i % len(COLOURS)], alpha=0.12, linewidth=0)


def _intervals(axes: Any, figure: Figure) -> None:
    """One line per category, its value along the horizontal axis."""
    series = figure.series[0]
    places = list(range(len(series.x)))
    marked = series.marked or [True] * len(places)
    colours = [COLOURS[0] if one else OUTSIDE for one in marked]
    axes.hlines(places, _numbers(series.low), _numbers(series.high), color=colours, linewidth=1.5)
    for place, value, colour in zip(places, _numbers(series.y), colours, strict=True):
        axes.plot(value, place, "o", color=colour)
    axes.set_yticks(places, [one_line(str(name))[:40] for name in series.x])
    for limit in figure.limits:
        axes.axvline(limit, color="#000000", linestyle="--" if limit else "-", linewidth=0.8)
    axes.invert_yaxis()


def _numbers(values: Any) -> list[float]:
    """NaN for what cannot be drawn; of a logarithmic axis matplotlib takes no power of ten beyond 300."""
    drawable = [value is not None and (value == 0 or 1e-99 < abs(value) < 1e99) for value in values]
    return [float(value) if one else float("nan") for value, one in zip(values, drawable, strict=True)]


def _axis(axes: Any, axis: Any, spec: Axis, which: str, places: list[Any]) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axis.set_label_text(one_line(spec.title))
    if spec.scale == "category":
        names = list(dict.fromkeys(str(place) for place in places))
        long = max((len(name) for name in names), default=0) * len(names) > 60
        axes.set_xticks(range(len(names)), [one_line(name)[:40] for name in names], rotation=25 if long else 0,
                        ha="right" if long else "center")  # fmt: skip
        axes.grid(visible=False, axis="x")
        return
    if spec.scale == "log" and any(value > 0 for value in _drawn_values(axes, which)):
        (axes.set_xscale if which == "x" else axes.set_yscale)("log")
        exact = sorted({float(place) for place in places if isinstance(place, int | float)})
        if 0 < len(exact) <= 10 and all(value > 0 and _round(value) for value in exact):
            axes.set_xticks(exact)  # a sweep's own values
        else:
            axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_minor_formatter(NullFormatter())
        axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))
    elif spec.percent:
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:g}"))
    else:
        axis.set_major_formatter(FuncFormatter(lambda value, _: short_number(value)))


def _drawn_values(axes: Any, which: str) -> list[float]:
    lines = [line.get_xdata() if which == "x" else line.get_ydata() for line in axes.lines]
    return [float(value) for values in lines for value in values]


def _round(value: float) -> bool:
    return float(f"{value:.2g}") == value or log2(value).is_integer()


def short_number(value: float) -> str:
    if value == int(value) and abs(value) < 1e4 and value % 100:
        return f"{value:.0f}"
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
