"""How early confidence tells right from wrong paths: areas under the ROC curve of the beginnings of paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.paths import area
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.result import Axis, Cell, Figure, Measure, ResultColumn, Series, Table
from sureenough.bench.score import intervals
from sureenough.bench.source import Source
from sureenough.core.confidence.array import scan_all
from sureenough.core.confidence.instability import Bools, Floats
from sureenough.pools import Question, RecordedPath, scan_together

SIGNALS: Final = ("C_path", "tail", "mean", "R")
ETA: Final = 0.5
VARIANTS: Final = ("wrong", "left out")
"""What paths without an answer count as."""


class Depth(NamedTuple):
    """Where paths are looked at: after a share of their tokens or, if that is 0, after so many tokens."""

    share: float
    tokens: int = 0

    def __str__(self) -> str:
        return f"{100 * self.share:g}% of the path" if self.share else f"{self.tokens:,} tokens"


RELATIVE: Final = tuple(Depth(share) for share in (0.1, 0.25, 0.5, 0.75, 1.0))
ABSOLUTE: Final = tuple(Depth(0.0, 1 << n) for n in range(4, 15))
DEPTHS: Final = (*RELATIVE, *ABSOLUTE)


class QuestionDepths(NamedTuple):
    """One question; an area is NaN if all compared paths are right, or none is."""

    areas: Floats  # by variant, depth, window and signal
    paths: NDArray[np.intp]  # compared ones, by variant and depth
    full: Floats  # share of them that have a full window, by variant, depth and window


@dataclass(frozen=True, slots=True)
class ReadDepths:
    """The pipeline's task: areas of one question for all windows and depths."""

    windows: tuple[int, ...]

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionDepths:
        shape = len(VARIANTS), len(DEPTHS), len(self.windows)
        result = QuestionDepths(
            np.full((*shape, len(SIGNALS)), np.nan), np.zeros(shape[:2], np.intp), np.full(shape, np.nan)
        )
        paths = [path for path in question.paths if path.tokens]
        if judged.right is None or not paths:
            return result
        right: Bools = np.array([judged.right.get(path.answer or "", False) for path in paths])
        answered: Bools = np.array([path.answer is not None for path in paths])
        ends, values = ends_at(paths), self.values(paths)
        for depth, end in enumerate(ends):
            for variant, compared in enumerate((end > 0, (end > 0) & answered)):
                result.paths[variant, depth] = compared.sum()
                if not compared.any():
                    continue
                for number, window in enumerate(self.windows):
                    result.full[variant, depth, number] = (end[compared] >= window).mean()
                    sides = compared & right, compared & ~right
                    result.areas[variant, depth, number] = [
                        area(*(signal[side] for side in sides)) for signal in values[number, depth]
                    ]
        return result

    def values(self, paths: Sequence[RecordedPath]) -> Floats:
        """By window, depth, signal and path, larger if the path is surer. NaN where a path ended before."""
        ends = ends_at(paths)
        values = np.full((len(self.windows), len(DEPTHS), len(SIGNALS), len(paths)), np.nan)
        for number, window in enumerate(self.windows):
            scan_together(paths, window)
            for i, path in enumerate(paths):
                own = path.windows(window)
                reached = np.flatnonzero(ends[:, i] >= window)
                last = ends[reached, i] - window  # the window that ends there
                values[number, reached, 0, i] = np.minimum.accumulate(own.conf)[last]
                values[number, reached, 1, i] = own.conf[last]
                values[number, reached, 3, i] = -np.maximum.accumulate(own.risk(ETA))[last]
        shorter = ends < max(self.windows)
        for i, (path, means) in enumerate(zip(paths, map(_running_means, paths), strict=True)):
            began = np.flatnonzero(ends[:, i])
            values[:, began, 2, i] = means[ends[began, i] - 1]
            short = np.flatnonzero(shorter[:, i] & (ends[:, i] > 0))
            risks = _risks_of_beginnings(path, ends[short, i])
            for number, window in enumerate(self.windows):  # a beginning shorter than the window is one window
                places = ends[short, i] < window
                at = short[places]
                values[number, at, 0, i] = values[number, at, 1, i] = values[number, at, 2, i]
                values[number, at, 3, i] = -risks[places]
        return values


def ends_at(paths: Sequence[RecordedPath]) -> NDArray[np.intp]:
    """By depth and path, the tokens of its beginning; 0 if the path ended before."""
    lengths = np.array([path.tokens for path in paths])
    rows = [
        np.maximum(1, np.ceil(depth.share * lengths - 1e-9)).astype(np.intp)
        if depth.share
        else np.where(lengths >= depth.tokens, depth.tokens, 0)
        for depth in DEPTHS
    ]
    return np.stack(rows)


def _running_means(path: RecordedPath) -> Floats:
    means: Floats = np.cumsum(path.conf) / np.arange(1, path.tokens + 1)
    return means


def _risks_of_beginnings(path: RecordedPath, ends: NDArray[np.intp]) -> Floats:
    beginnings = [np.asarray(path.conf)[:end] for end in ends]
    longest = int(ends.max(initial=1))
    return np.array([windows.risk(ETA)[-1] for windows in scan_all(beginnings, beginnings, longest)])


# -- tables and figures

COLUMNS: Final = [
    ResultColumn("dataset"),
    ResultColumn("model"),
    ResultColumn("beginning"),
    ResultColumn("window", "count", "tokens"),
    ResultColumn("questions", "count"),
    ResultColumn("paths", "count"),
    ResultColumn("with a full window", "percent", "%"),
    *(ResultColumn(name, "number", digits=3) for name in SIGNALS),
]
READING: Final = (
    "area under the ROC curve inside a question: the chance that a right path is surer than a wrong one, 0.5 if the "
    "signal says nothing; mean over questions that have both, with a 95% interval over these",
    "C_path: the lowest window so far; tail: the latest; mean: of all tokens so far; R: the largest instability so far "
    "(lower is surer). If a beginning is shorter than the window, it is one window, and the first three are the same",
    "a share of a path is not known while the path runs, and gives away how long it will be; only beginnings in tokens "
    "can be acted on: these compare the paths that got so far",
)


class DepthAreas(NamedTuple):
    """A pool's areas, with intervals."""

    source: Source
    windows: tuple[int, ...]
    questions: list[int]  # with right and wrong paths, by depth
    paths: list[int]  # of these questions
    full: Floats  # by depth and window
    areas: list[list[list[Measure]]]  # by depth, window and signal

    def curve(self, depths: Sequence[Depth], signal: str, window: int) -> list[tuple[Depth, Measure]]:
        """The known areas of one signal."""
        number, place = self.windows.index(window), SIGNALS.index(signal)
        known = [(depth, DEPTHS.index(depth)) for depth in depths if self.questions[DEPTHS.index(depth)]]
        return [(depth, self.areas[at][number][place]) for depth, at in known if window in self.distinct(depth)]

    def distinct(self, depth: Depth) -> tuple[int, ...]:
        """The windows that fit into so many tokens; if none does, all are alike and the first is enough."""
        return tuple(size for size in self.windows if depth.share or size <= depth.tokens) or self.windows[:1]


def joined_areas(
    source: Source, windows: tuple[int, ...], questions: Sequence[QuestionDepths], variant: str, seed: int
) -> DepthAreas:
    """Means over the questions of a pool."""
    of_variant = VARIANTS.index(variant)
    areas = np.stack([one.areas[of_variant] for one in questions])
    counts = np.stack([one.paths[of_variant] for one in questions])
    full = np.stack([one.full[of_variant] for one in questions])
    joined = DepthAreas(source, windows, [], [], np.full(full.shape[1:], np.nan), [])
    for depth in range(len(DEPTHS)):
        both = np.isfinite(areas[:, depth, 0, 0])
        known = areas[both, depth].reshape(int(both.sum()), len(windows) * len(SIGNALS))
        joined.questions.append(len(known))
        joined.paths.append(int(counts[both, depth].sum()))
        if len(known):
            joined.full[depth] = np.average(full[both, depth], axis=0, weights=counts[both, depth])
        means = known.mean(axis=0) if len(known) else np.full(known.shape[1], np.nan)
        measures = [measure(float(mean), bounds) for mean, bounds in zip(means, intervals(known, seed), strict=True)]
        joined.areas.append([measures[i : i + len(SIGNALS)] for i in range(0, len(measures), len(SIGNALS))])
    return joined


def depth_table(name: str, title: str, pools: Sequence[DepthAreas], notes: Sequence[str]) -> Table:
    """One row per beginning and window."""
    rows: list[list[Cell]] = []
    for pool in pools:
        for depth, n in zip(DEPTHS, pool.questions, strict=True):
            at = DEPTHS.index(depth)
            for window in pool.distinct(depth) if n else ():
                number = pool.windows.index(window)
                names: list[Cell] = [pool.source.dataset, pool.source.model, str(depth), window, n, pool.paths[at]]
                rows.append([*names, float(pool.full[at, number]), *pool.areas[at][number]])
    return Table(name, title, COLUMNS, rows, [*READING, *notes])


def depth_figures(place: int, pool: DepthAreas, window: int) -> Iterator[Figure]:
    """Areas over relative and absolute depth, and those of C_path for all windows."""
    if not any(pool.questions):
        return
    title, axis = f"{pool.source.dataset}, {pool.source.model}", Axis("area under ROC, within questions")
    absolute, relative = Axis("tokens of the path", "log"), Axis("part of the path", percent=True)
    for slug, depths, x in (("tokens", ABSOLUTE, absolute), ("share", RELATIVE, relative)):
        series = [_series(signal, pool.curve(depths, signal, window)) for signal in SIGNALS]
        note = f"window {window}; only tokens are known while a path runs"
        yield Figure(
            f"areas-{slug}-{place}", f"{title}: when a path is known to be lost", "line", x, axis, series, [note]
        )
    if len(pool.windows) > 1:
        series = [_series(f"window {size}", pool.curve(ABSOLUTE, "C_path", size)) for size in pool.windows]
        yield Figure(f"areas-windows-{place}", f"{title}: C_path by window", "line", absolute, axis, series)


def _series(name: str, curve: Sequence[tuple[Depth, Measure]]) -> Series:
    return Series(
        name,
        [depth.share or float(depth.tokens) for depth, _ in curve],
        [one.value for _, one in curve],
        [one.low for _, one in curve],
        [one.high for _, one in curve],
    )
