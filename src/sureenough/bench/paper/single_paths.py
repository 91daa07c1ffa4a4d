"""An experiment on single paths: how confident right and wrong ones are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.experiment import Experiment, Found, Inputs, PoolResults, over_pools
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.shared import CATEGORIES, pool_windows, resampled, settings_note
from sureenough.bench.result import Axis, Figure, Series
from sureenough.bench.tables import Cell, Table, columns, known
from sureenough.core.confidence import Bools, Floats
from sureenough.pools import Question, scan_together


class PathSignals(NamedTuple):
    """The answered paths of one question."""

    level: int | None
    right: Bools
    lowest: Floats  # C_path
    tail: Floats
    mean: Floats

    @property
    def share(self) -> float:
        """The share of answered paths that are right."""
        return float(self.right.mean())


@dataclass(frozen=True, slots=True)
class ReadSignals:
    """The pipeline's work: one question's paths at this window."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> PathSignals | None:
        """None if the question has no gold answer or no answered path."""
        scan_together(question.paths, self.window)
        answered = [path for path in question.paths if path.answer is not None and path.tokens]
        if judged.right is None or not answered:
            return None
        windows = [path.windows(self.window) for path in answered]
        return PathSignals(
            question.level,
            np.array([judged.right.get(path.answer or "", False) for path in answered], dtype=np.bool_),
            np.array([one.lowest for one in windows]),
            np.array([one.tail for one in windows]),
            np.array([float(np.mean(path.conf)) for path in answered]),
        )


def by_difficulty(questions: Sequence[PathSignals]) -> tuple[str, dict[str, list[PathSignals]]]:
    """What difficulty is, and the questions of each, the easiest first.

    By the dataset's levels if it has several, else by fixed shares of right paths.
    """
    levels = sorted({one.level or 0 for one in questions})
    if len([level for level in levels if level]) > 1:
        return "the dataset's level", {
            f"level {level}" if level else "no level": [one for one in questions if (one.level or 0) == level]
            for level in levels
        }
    groups = {
        name: [one for one in questions if low <= one.share < high]
        for name, low, high in (("easy", 2 / 3, inf), ("medium", 1 / 3, 2 / 3), ("hard", 0.0, 1 / 3))
    }
    how = "the share of right paths (easy from 2/3, hard below 1/3)"
    return how, {name: group for name, group in groups.items() if group}


BINS: Final = 30
SIGNAL_NAMES: Final = {"lowest": "C_path (lowest window)", "tail": "last window", "mean": "mean of all tokens"}
CALIBRATION_COLUMNS: Final = [
    *columns("text", "dataset", "model", "difficulty", "signal"),
    *columns("count", "questions", "right paths", "wrong paths"),
    *columns("number", "mean, right", "mean, wrong", "area under ROC", "area within questions", digits=3),
]
READING: Final = (
    "area: the chance that a right path is more confident than a wrong one, 0.5 if confidence says nothing",
    "within questions: the same inside each question that has both, mean with a 95% interval over questions; "
    "this is what a vote can use",
)


def _calibration(inputs: Inputs) -> Iterator[Found]:
    """Confidence of right and wrong paths, measured in three ways, by difficulty."""
    pools = over_pools(inputs, lambda pool: ReadSignals(pool.window))
    rows: list[list[Cell]] = []
    for place, one in enumerate(pools, 1):
        source = one.opened.source
        how, groups = _groups(one)
        yield one.opened
        yield f"{source.dataset}: difficulty is {how}; window {one.opened.window}"
        for name, questions in groups.items():
            names = [source.dataset, source.model, name]
            rows += [[*names, *_signal_row(questions, each, inputs.options.seed)] for each in SIGNAL_NAMES if questions]
        yield from _calibration_figures(place, f"{source.label}: C_path", groups)
    settings = settings_note(window=pool_windows(one.opened for one in pools), budget="all recorded paths")
    title = "Confidence of right and wrong paths"
    yield Table("calibration", title, CALIBRATION_COLUMNS, rows, [*READING, settings])


def _groups(pool: PoolResults[PathSignals | None]) -> tuple[str, dict[str, list[PathSignals]]]:
    """What difficulty is, and the questions of each; all questions first."""
    every = [one for one in pool.values if one is not None]
    how, groups = by_difficulty(every)
    return how, {"all": every, **groups}


def _signal_row(questions: list[PathSignals], signal: str, seed: int) -> list[Cell]:
    right, wrong = _split(questions, signal)
    pairs = [_split([one], signal) for one in questions]
    within = np.array([area(*pair) for pair in pairs if pair[0].size and pair[1].size])
    return [SIGNAL_NAMES[signal], len(questions), right.size, wrong.size, _mean(right), _mean(wrong),
            known(area(right, wrong)), resampled(within, seed)]  # fmt: skip


def _mean(values: Floats) -> float | None:
    return float(values.mean()) if values.size else None


def _split(questions: Sequence[PathSignals], signal: str) -> tuple[Floats, Floats]:
    """The signal of right and of wrong paths."""
    values = np.concatenate([np.empty(0), *(getattr(one, signal) for one in questions)])
    right = np.concatenate([np.empty(0, np.bool_), *(one.right for one in questions)])
    return values[right], values[~right]


def area(right: Floats, wrong: Floats) -> float:
    """The chance that a right path is more confident than a wrong one (area under the ROC curve); ties count half."""
    if not right.size or not wrong.size:
        return nan
    ordered = np.sort(wrong)
    below: NDArray[np.intp] = np.searchsorted(ordered, right, "left") + np.searchsorted(ordered, right, "right")
    return float(below.sum() / (2.0 * right.size * wrong.size))


def _calibration_figures(place: int, title: str, groups: dict[str, list[PathSignals]]) -> Iterator[Figure]:
    yield _histogram(f"all-{place}", f"{title} of right and wrong paths", groups["all"])
    names = [name for name in groups if name != "all"]
    for name in dict.fromkeys(names[:1] + names[-1:]):
        yield _histogram(f"{name.replace(' ', '-')}-{place}", f"{title}, {name}", groups[name])
    means = [
        Series(kind, [*names], [_mean(_split(groups[name], "lowest")[side]) for name in names])
        for side, kind in enumerate(("right", "wrong"))
    ]
    yield Figure(f"levels-{place}", f"{title} by difficulty", "bar", CATEGORIES, Axis("mean C_path"), means)


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


CALIBRATION: Final = Experiment(
    "calibration",
    "confidence of right and wrong paths by difficulty (figure 6)",
    _calibration,
)
