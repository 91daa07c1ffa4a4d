"""Experiments on single paths: how confident right and wrong ones are, and whether that lets votes settle sooner.

The second is the paper's theorem B.1. Weights come from a pool's own paths, question by question, or from Beta
distributions. Uniform small weights show the paper's "safety brake".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import inf, nan
from statistics import fmean
from typing import Final, NamedTuple, Protocol, TypeVar
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.experiment import Experiment, Found, Inputs, PoolResults, over_pools
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.shared import CATEGORIES, VARIED, mean, pool_windows, resampled, settings_note
from sureenough.bench.result import Axis, Figure, Series
from sureenough.bench.tables import Cell, Column, Measure, Table, columns, known
from sureenough.core.confidence import Bools, Floats
from sureenough.core.stop_rules import betainc
from sureenough.errors import UsageError
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


# -- the confidence of right and of wrong paths

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


def _groups(pool: PoolResults[Q | None]) -> tuple[str, dict[str, list[Q]]]:
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

# -- stopping times of weighted and of counted votes

RUNS: Final = 64
MOST: Final = 512
BETAS: Final[Sequence[Sequence[float]]] = (
    (0.9, 8.0, 2.0, 5.0, 5.0),
    (0.75, 6.0, 3.0, 5.0, 5.0),
    (0.6, 5.0, 4.0, 5.0, 5.0),
)
"""Easy, medium, hard: p, then the Beta parameters of the weights of right and of wrong paths."""
SMALL: Final = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SHARES: Final = (0.9, 0.7, 0.6)
LONG: Final = 4096
VARIANTS: Final = {
    "counts": "counted votes",
    "raw": "weights, raw",
    "mean": "weights, mean 1",
    "unit": "weights, at most 1",
}
TAU: Final = 0.95
BLOCK: Final = 32


class Stops(NamedTuple):
    """When runs stopped, and on which side."""

    times: NDArray[np.int64]  # votes; the most allowed if a run never stopped
    wrong: Bools  # settled on the wrong side
    open: Bools  # never settled

    @property
    def mean(self) -> float:
        """Mean stopping time; a lower bound if runs stayed open."""
        return float(self.times.mean())


def stopping(right: Bools, weights: Floats) -> Stops:
    """Each row is a run: after every vote, test whether the heavier side holds most with probability above tau."""
    runs, most = right.shape
    ahead = np.cumsum(np.where(right, weights, 0.0), axis=1)
    behind = np.cumsum(np.where(right, 0.0, weights), axis=1)
    times = np.full(runs, most, dtype=np.int64)
    wrong, open_ = np.zeros(runs, np.bool_), np.ones(runs, np.bool_)
    for start in range(0, most, BLOCK):
        running = np.flatnonzero(open_)
        a, b = ahead[running, start : start + BLOCK], behind[running, start : start + BLOCK]
        settled = betainc(1.0 + np.minimum(a, b), 1.0 + np.maximum(a, b), 0.5) > TAU
        hit = settled.any(axis=1)
        at = settled.argmax(axis=1)[hit]
        stopped = running[hit]
        times[stopped] = start + at + 1
        wrong[stopped] = b[hit, at] > a[hit, at]
        open_[stopped] = False
    return Stops(times, wrong, open_)


class Condition(NamedTuple):
    """The theorem's sufficient condition, both sides of it."""

    left: float
    right: float

    @property
    def holds(self) -> bool:
        """Whether the left side is strictly larger; false if one is undefined."""
        return bool(self.left > self.right)


def condition(p: float, right: Floats, wrong: Floats) -> Condition:
    """(p mu_c - q mu_i) / sqrt(p mu2_c + q mu2_i) against (p - q) / sqrt(4 p q), from samples of the weights."""
    moments = [float(x) for w in (right, wrong) for x in ((w.mean(), (w * w).mean()) if w.size else (0.0, 0.0))]
    return condition_of(p, *moments)


def condition_of(p: float, mean_c: float, square_c: float, mean_i: float, square_i: float) -> Condition:
    """The same from given moments."""
    q = 1.0 - p
    spread = np.sqrt(p * square_c + q * square_i)
    left = (p * mean_c - q * mean_i) / spread if spread > 0.0 else nan
    return Condition(float(left), float((p - q) / np.sqrt(4.0 * p * q)) if 0.0 < p < 1.0 else inf)


def can_hold(p: float) -> bool:
    """Whether any weights at all satisfy the condition at this p.

    By Cauchy and Schwarz its left side is at most sqrt(p), reached if all right paths weigh the same and wrong ones
    nothing. That exceeds the right side if 4 p^3 - 4 p + 1 < 0: up to p = 0.838 of those above one half.
    """
    return 4.0 * p * p * p - 4.0 * p + 1.0 < 0.0


class Simulated(NamedTuple):
    """One question, whose own paths were drawn many times."""

    level: int | None
    share: float  # of answered paths that are right
    informative: bool | None  # right paths weigh more on average; None if all paths are right, or all are wrong
    condition: Condition
    stops: dict[str, tuple[float, float]]  # by variant, the mean stopping time and the share of wrong stops


@dataclass(frozen=True, slots=True)
class Simulate:
    """The pipeline's work: draw a question's paths with replacement, stop by counts and by three scales of weight."""

    window: int
    seed: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> Simulated | None:
        """None if the question has no gold answer or no answered path."""
        paths = ReadSignals(self.window)(question, judged)
        if paths is None or not paths.lowest.any():
            return None
        weights, rng = paths.lowest, np.random.default_rng((self.seed, crc32(question.id.encode())))
        drawn = rng.integers(weights.size, size=(RUNS, MOST))
        scales = np.ones_like(weights), weights, weights / float(weights.mean()), weights / float(weights.max())
        stops = [stopping(paths.right[drawn], scaled[drawn]) for scaled in scales]
        right, wrong = weights[paths.right], weights[~paths.right]
        return Simulated(
            paths.level,
            paths.share,
            bool(right.mean() > wrong.mean()) if right.size and wrong.size else None,
            condition(paths.share, right, wrong),
            {name: (stop.mean, float(stop.wrong.mean())) for name, stop in zip(VARIANTS, stops, strict=True)},
        )


def _theorem(inputs: Inputs) -> Iterator[Found]:
    """Stopping times by difficulty, the theorem's condition evaluated, and the safety brake."""
    seed = inputs.options.seed
    if inputs.sources:
        yield from _measured(over_pools(inputs, lambda pool: Simulate(pool.window, seed)), seed)
    if inputs.sweep or not inputs.sources:
        settings = settings_note(
            budget=f"{MOST} votes", repeats=f"{40 * RUNS} runs, seed {seed}",
            weights="1, drawn, and drawn over their mean",
        )  # fmt: skip
        rows = [_beta_row(case, seed) for case in _cases(inputs.sweep or ()) or BETAS]
        yield Table("beta", "Stopping times with weights from Beta distributions", BETA_COLUMNS, rows, [settings])
    yield from _brake(seed)
    yield from NOTES


NOTES: Final = (
    f"a run draws votes one by one and stops when the heavier side holds most with probability above {TAU:g}; "
    f"{MOST} votes at most, {RUNS} runs per question, drawn from the question's own answered paths",
    "the condition does not change when all weights are scaled; the stop test does. With equal weights its left side "
    "is p - q, never more than its right side: it cannot hold there, whatever their size",
    "raw C_path is far above 1 on a model's own scale, so weights act as an accelerator there, not as a brake",
)
COLUMNS: Final = [
    *columns("text", "dataset", "model", "difficulty"),
    *columns("count", "questions"),
    *columns("count", "solvable", unit="p > 0.5"),
    *columns("number", "p", digits=3),
    *columns("count", "some paths wrong", unit="p < 1, of solvable"),
    *columns("percent", "informative", unit="% of those"),
    *columns("count", "condition can hold", unit="p < 0.838, of solvable"),
    *columns("count", "condition holds", unit="of those"),
    *columns("number", *(f"N, {name}" for name in VARIANTS.values()), unit="votes", digits=1),
    *columns("percent", *(f"condition holds, yet slower ({weights})" for weights in ("mean 1", "at most 1"))),
    *columns("percent", *(f"wrong stops, {name}" for name in VARIANTS.values())),
]


def _measured(pools: Sequence[PoolResults[Simulated | None]], seed: int) -> Iterator[Found]:
    rows: list[list[Cell]] = []
    notes = []
    for place, one in enumerate(pools, 1):
        source, (how, groups) = one.opened.source, _groups(one)
        notes.append(f"{source.dataset}: difficulty is {how}")
        rows += [[source.dataset, source.model, name, *_row(group, seed)] for name, group in groups.items() if group]
        solvable = {name: [each for each in group if each.share > 0.5] for name, group in groups.items()}
        drawn = {name: group for name, group in solvable.items() if group}
        series = [
            Series(title, [*drawn], [fmean(each.stops[variant][0] for each in group) for group in drawn.values()])
            for variant, title in VARIANTS.items()
        ]
        title = f"{source.label}: mean votes until the posterior settles (solvable questions)"
        yield Figure(f"measured-{place}", title, "bar", CATEGORIES, Axis("votes"), series)
        yield one.opened
    notes += [
        "N: mean stopping time over solvable questions, the theorem's assumption; wrong stops over all questions",
        "condition can hold: no weights satisfy it from p = 0.838 on, since its left side is at most sqrt(p)",
        settings_note(
            window=pool_windows(one.opened for one in pools),
            budget=f"{MOST} votes",
            repeats=f"{RUNS} runs per question, seed {seed}",
            weights="1 per path, and C_path raw, over its mean, and over its maximum",
        ),
    ]
    yield Table("measured", "Stopping times with weights measured on the pool", COLUMNS, rows, notes)


def _row(questions: Sequence[Simulated], seed: int) -> list[Cell]:
    solvable = [one for one in questions if one.share > 0.5]
    informative = [one.informative for one in solvable if one.informative is not None]
    possible = [one for one in solvable if can_hold(one.share)]
    held = [one.stops for one in possible if one.condition.holds]
    slower = (mean(stops[variant] > stops["counts"] for stops in held) for variant in ("mean", "unit"))
    return [
        len(questions),
        len(solvable),
        fmean(one.share for one in questions),
        len(informative),
        mean(informative),
        len(possible),
        len(held),
        *(_resampled([one.stops[variant][0] for one in solvable], seed) for variant in VARIANTS),
        *slower,
        *(fmean(one.stops[variant][1] for one in questions) for variant in VARIANTS),
    ]


def _resampled(values: list[float], seed: int) -> Measure | None:
    """One value has no interval."""
    if len(values) < 2:
        return Measure(values[0], None, None) if values else None
    return resampled(np.array(values), seed)


def _cases(sweep: Sequence[float]) -> list[Sequence[float]]:
    """The experiment's own sweep: five numbers per case."""
    if len(sweep) % 5:
        raise UsageError(
            f"theorem takes five numbers per case, {len(sweep)} were given: p, then the Beta parameters of right and "
            "of wrong weights, such as --sweep 0.9,8,2,5,5"
        )
    return [sweep[i : i + 5] for i in range(0, len(sweep), 5)]


BETA_COLUMNS: Final = [
    *columns("number", "p", digits=2),
    *columns("text", "weights of right paths", "weights of wrong paths"),
    *columns("number", "left side", "right side", digits=3),
    *columns("text", "holds"),
    *columns("number", "N, counts", "N, weights", "N, weights of mean 1", unit="votes", digits=1),
    *columns("percent", "wrong stops, counts", "wrong stops, weights of mean 1"),
]


def _beta_row(case: Sequence[float], seed: int) -> list[Cell]:
    p, *shape = case
    if not 0.0 < p < 1.0 or min(shape) <= 0.0:
        raise UsageError(f"theorem: {case} is not possible: p lies between 0 and 1, Beta parameters are above 0")
    rng = np.random.default_rng((seed, 1))
    size = (40 * RUNS, MOST)
    right = rng.random(size) < p
    betas = shape[:2], shape[2:]
    weights = np.where(right, *(rng.beta(a, b, size) for a, b in betas))
    moments = [m for a, b in betas for m in (a / (a + b), a * (a + 1) / ((a + b) * (a + b + 1)))]
    held = condition_of(p, *moments)
    expected = p * moments[0] + (1 - p) * moments[2]
    counts, plain, scaled = (stopping(right, one) for one in (np.ones(size), weights, weights / expected))
    return [
        p, *(f"Beta({a:g}, {b:g})" for a, b in betas), *held, "yes" if held.holds else "no",
        counts.mean, plain.mean, scaled.mean, float(counts.wrong.mean()), float(scaled.wrong.mean()),
    ]  # fmt: skip


BRAKE_COLUMNS: Final = [
    *columns("number", "p", "weight of every vote", digits=2),
    *columns("number", "N, counts", "N, weights", unit="votes", digits=1),
    *columns("ratio", "ratio"),
    Column("the paper's 1/weight", "ratio", paper="appendix B.1"),
    *columns("percent", "wrong stops", "never stopped"),
]


def _brake(seed: int) -> Iterator[Table | Figure]:
    """The factor in votes, against counting, if all weights are the same small number."""
    rows: list[list[Cell]] = []
    series = [Series("1/weight", [*SMALL], [1.0 / weight for weight in SMALL], paper="appendix B.1")]
    for p in SHARES:
        right = np.random.default_rng((seed, 2)).random((4 * RUNS, LONG)) < p
        every = [stopping(right, np.full(right.shape, weight)) for weight in SMALL]
        base = every[0].mean  # of votes of weight 1
        for weight, stops in zip(SMALL, every, strict=True):
            shares = float(stops.wrong.mean()), float(stops.open.mean())
            rows.append([p, weight, base, stops.mean, stops.mean / base, 1.0 / weight, *shares])
        series.append(Series(f"p = {p:g}", [*SMALL], [stops.mean / base for stops in every]))
    title = "The safety brake: uniform small weights"
    settings = settings_note(budget=f"{LONG} votes", repeats=f"{4 * RUNS} runs, seed {seed}", weights=VARIED)
    yield Table("brake", title, BRAKE_COLUMNS, rows, [settings])
    x, y = Axis("weight of every vote", "log"), Axis("votes, relative to counting", "log")
    yield Figure("brake", title, "line", x, y, series)


THEOREM: Final = Experiment(
    "theorem",
    "Monte Carlo of the appendix: weighted against counted stopping (figure 7)",
    _theorem,
    reads=("sweep",),
)
