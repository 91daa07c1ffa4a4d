"""Single paths: their confidence, and whether they are right; the paper's figure 6, by difficulty."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.columns import measure, pool_windows, settings_note
from sureenough.bench.paper.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.paper.figures import CATEGORIES
from sureenough.bench.pipeline import Source
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table, number
from sureenough.bench.score import intervals
from sureenough.core.confidence import Bools, Floats
from sureenough.pools import Question, scan_together

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


SIGNAL_NAMES: Final = {"lowest": "C_path (lowest window)", "tail": "last window", "mean": "mean of all tokens"}


class PathSignals(NamedTuple):
    """The answered paths of one question."""

    level: int | None
    right: Bools
    lowest: Floats  # C_path
    tail: Floats
    mean: Floats
    unanswered: int  # paths without an answer
    graded: bool

    @property
    def share(self) -> float:
        """The share of answered paths that are right."""
        return float(self.right.mean()) if self.right.size else float("nan")


@dataclass(frozen=True, slots=True)
class ReadSignals:
    """The pipeline's task: one question's paths at this window."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> PathSignals:
        scan_together(question.paths, self.window)
        answered = [path for path in question.paths if path.answer is not None and path.tokens]
        windows = [path.windows(self.window) for path in answered]
        right = judged.right or {}
        return PathSignals(
            question.level,
            np.array([right.get(path.answer or "", False) for path in answered], dtype=np.bool_),
            np.array([one.lowest for one in windows]),
            np.array([one.tail for one in windows]),
            np.array([float(np.mean(path.conf)) for path in answered]),
            len(question.paths) - len(answered),
            judged.right is not None,
        )


class Graded(Protocol):
    """A question whose difficulty is known."""

    @property
    def level(self) -> int | None: ...
    @property
    def share(self) -> float: ...


Q = TypeVar("Q", bound=Graded)


def by_difficulty(questions: Sequence[Q]) -> tuple[str, dict[str, list[Q]]]:
    """What difficulty is, and the questions of each, the easiest first.

    By the dataset's levels if it has several, else by fixed shares of right paths.
    """
    levels = sorted({one.level or 0 for one in questions})
    if len([level for level in levels if level]) < 2:
        groups = {
            "easy": [one for one in questions if one.share >= 2 / 3],
            "medium": [one for one in questions if 1 / 3 <= one.share < 2 / 3],
            "hard": [one for one in questions if one.share < 1 / 3],
        }
        return "the share of right paths (easy from 2/3, hard below 1/3)", {name: g for name, g in groups.items() if g}
    return "the dataset's level", {
        f"level {level}" if level else "no level": [one for one in questions if (one.level or 0) == level]
        for level in levels
    }


def area(right: Floats, wrong: Floats) -> float:
    """The chance that a right path is more confident than a wrong one (area under the ROC curve); ties count half."""
    if not right.size or not wrong.size:
        return float("nan")
    ordered = np.sort(wrong)
    below: NDArray[np.intp] = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.sum() / (2.0 * right.size * wrong.size))
