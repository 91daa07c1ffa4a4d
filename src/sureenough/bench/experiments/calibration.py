"""The paper's figure 6: how confident right and wrong paths are, by difficulty."""

from __future__ import annotations

from typing import Final

import numpy as np

from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.figures import CATEGORIES
from sureenough.bench.experiments.paths import SIGNAL_NAMES, PathSignals, ReadSignals, area, by_difficulty
from sureenough.bench.experiments.table_settings import pool_windows, settings_note
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table, number
from sureenough.bench.score import intervals
from sureenough.bench.source import Source
from sureenough.core.confidence.instability import Floats

BINS: Final = 30


def _measure(inputs: Inputs) -> Findings:
    """Confidence of right and wrong paths, measured in three ways, by difficulty."""
    pools = over_pools(inputs, lambda pool: ReadSignals(pool.window))
    rows: list[list[Cell]] = []
    figures: list[Figure] = []
    notes: list[str] = []
    for place, one in enumerate(pools, 1):
        source = one.opened.source
        graded = [question for question in one.values if question.graded and question.right.size]
        how, groups = by_difficulty(graded)
        groups = {"all": graded, **groups}
        notes.append(f"{source.dataset}: difficulty is {how}; window {one.opened.window}")
        for name, questions in groups.items():
            rows += [_row(source, name, questions, signal, inputs.options.seed) for signal in SIGNAL_NAMES if questions]
        figures += _figures(place, source, groups)
    settings = settings_note(window=pool_windows(one.opened for one in pools), budget="all recorded paths")
    table = Table("calibration", "Confidence of right and wrong paths", COLUMNS, rows, [*READING, settings])
    return Findings([table], figures, notes, [one.opened for one in pools])


COLUMNS: Final = [
    *map(ResultColumn, ("dataset", "model", "difficulty", "signal")),
    *(ResultColumn(title, "count") for title in ("questions", "right paths", "wrong paths")),
    *(ResultColumn(title, "number", digits=3) for title in ("mean, right", "mean, wrong")),
    *(ResultColumn(title, "number", digits=3) for title in ("area under ROC", "area within questions")),
]
READING: Final = [
    "area: the chance that a right path is more confident than a wrong one, 0.5 if confidence says nothing",
    "within questions: the same inside each question that has both, mean with a 95% interval over questions; "
    "this is what a vote can use",
]


def _row(source: Source, name: str, questions: list[PathSignals], signal: str, seed: int) -> list[Cell]:
    right, wrong = _split(questions, signal)
    inside = [area(getattr(q, signal)[q.right], getattr(q, signal)[~q.right]) for q in questions]
    known = np.array([value for value in inside if np.isfinite(value)])
    interval = intervals(known.reshape(-1, 1), seed)[0]
    return [
        source.dataset, source.model, name, SIGNAL_NAMES[signal], len(questions), right.size, wrong.size,
        float(right.mean()) if right.size else None, float(wrong.mean()) if wrong.size else None,
        number(area(right, wrong)), measure(float(known.mean()) if known.size else float("nan"), interval),
    ]  # fmt: skip


def _split(questions: list[PathSignals], signal: str) -> tuple[Floats, Floats]:
    if not questions:
        return np.empty(0), np.empty(0)
    values = np.concatenate([getattr(one, signal) for one in questions])
    right = np.concatenate([one.right for one in questions])
    return values[right], values[~right]


def _figures(place: int, source: Source, groups: dict[str, list[PathSignals]]) -> list[Figure]:
    title = f"{source.label}: C_path"
    figures = [_histogram(f"all-{place}", f"{title} of right and wrong paths", groups["all"])]
    names = [name for name in groups if name != "all"]
    for name in dict.fromkeys((names[:1] + names[-1:]) if len(names) > 1 else names):
        slug = name.replace(" ", "-")
        figures.append(_histogram(f"{slug}-{place}", f"{title}, {name}", groups[name]))
    means = [
        Series(kind, list(names), [_mean(groups[name], right) for name in names])
        for kind, right in (("right", True), ("wrong", False))
    ]
    figures.append(Figure(f"levels-{place}", f"{title} by difficulty", "bar", CATEGORIES, Axis("mean C_path"), means))
    return figures


def _mean(questions: list[PathSignals], right: bool) -> float | None:
    values = _split(questions, "lowest")[0 if right else 1]
    return float(values.mean()) if values.size else None


def _histogram(name: str, title: str, questions: list[PathSignals]) -> Figure:
    right, wrong = _split(questions, "lowest")
    both = np.concatenate([right, wrong])
    low, high = (float(both.min()), float(both.max())) if both.size else (0.0, 1.0)
    edges = np.linspace(low, high if high > low else low + 1.0, BINS + 1)
    middles = ((edges[:-1] + edges[1:]) / 2).tolist()
    series = []
    for kind, values in (("right", right), ("wrong", wrong)):
        shares = np.histogram(values, edges)[0] / max(1, values.size)
        series.append(Series(f"{kind} ({values.size:,} paths)", middles, shares.tolist()))
    return Figure(name, title, "steps", Axis("C_path"), Axis("share of paths, %", percent=True), series)


EXPERIMENT: Final = Experiment(
    "calibration",
    "confidence of right and wrong paths by difficulty (figure 6)",
    "Confidence of right and wrong paths by difficulty",
    _measure,
)
