"""The paper's theorem B.1 and figure 7: when do weighted votes stop sooner than counted ones?

Weights come from a pool's own paths, question by question, or from Beta distributions. Uniform small weights show the
paper's "safety brake".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.calibration import ReadSignals, by_difficulty
from sureenough.bench.paper.columns import VARIED, measure, pool_windows, settings_note
from sureenough.bench.paper.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.paper.figures import CATEGORIES
from sureenough.bench.pipeline import PoolResults, Source
from sureenough.bench.result import Axis, Cell, Figure, Measure, ResultColumn, Series, Table
from sureenough.bench.score import intervals
from sureenough.core.confidence import Bools, Floats
from sureenough.core.stop_rules import betainc
from sureenough.errors import UsageError
from sureenough.pools import Question

BetaCase = tuple[float, float, float, float, float]
"""p, then the Beta parameters of the weights of right and of wrong paths: a, b, a, b."""
RUNS: Final = 64
MOST: Final = 512
BETAS: Final = ((0.9, 8.0, 2.0, 5.0, 5.0), (0.75, 6.0, 3.0, 5.0, 5.0), (0.6, 5.0, 4.0, 5.0, 5.0))
"""Easy, medium, hard: p, then the Beta parameters of right and of wrong weights."""
SMALL: Final = (1.0, 0.5, 0.2, 0.1, 0.05, 0.02)
SHARES: Final = (0.9, 0.7, 0.6)
LONG: Final = 4096
VARIANT_NAMES: Final = {
    "counts": "counted votes",
    "raw": "weights, raw",
    "mean": "weights, mean 1",
    "unit": "weights, at most 1",
}


def _measure(inputs: Inputs) -> Findings:
    """Stopping times by difficulty, the theorem's condition evaluated, and the safety brake."""
    seed = inputs.options.seed
    pools: list[PoolResults[Simulated | None]] = []
    tables, figures = [], []
    if inputs.sources:
        pools = over_pools(inputs, lambda pool: Simulate(pool.window, RUNS, MOST, seed))
        tables.append(_measured(pools, seed))
        figures += [_bars(i, one) for i, one in enumerate(pools, 1)]
    cases = _cases(inputs.sweep)
    if cases or not inputs.sources:
        tables.append(_betas(cases or BETAS, seed))
    brake, brake_figure = _brake(seed)
    return Findings([*tables, brake], [*figures, brake_figure], NOTES, [one.opened for one in pools])


NOTES: Final = (
    f"a run draws votes one by one and stops when the heavier side holds most with probability above 0.95; "
    f"{MOST} votes at most, {RUNS} runs per question, drawn from the question's own answered paths",
    "the condition does not change when all weights are scaled; the stop test does. With equal weights its left side "
    "is p - q, never more than its right side: it cannot hold there, whatever their size",
    "raw C_path is far above 1 on a model's own scale, so weights act as an accelerator there, not as a brake",
)


def _measured(pools: Sequence[PoolResults[Simulated | None]], seed: int) -> Table:
    columns = [
        *map(ResultColumn, ("dataset", "model", "difficulty")),
        ResultColumn("questions", "count"),
        ResultColumn("solvable", "count", "p > 0.5"),
        ResultColumn("p", "number", digits=3),
        ResultColumn("some paths wrong", "count", "p < 1, of solvable"),
        ResultColumn("informative", "percent", "% of those"),
        ResultColumn("condition can hold", "count", "p < 0.838, of solvable"),
        ResultColumn("condition holds", "count", "of those"),
        *(ResultColumn(f"N, {VARIANT_NAMES[v]}", "number", "votes", 1) for v in VARIANTS),
        *(ResultColumn(f"condition holds, yet slower ({w})", "percent", "%") for w in ("mean 1", "at most 1")),
        *(ResultColumn(f"wrong stops, {VARIANT_NAMES[v]}", "percent", "%") for v in VARIANTS),
    ]
    groups = [(one.opened.source, *group) for one in pools for group in _by_difficulty(one.values).items()]
    rows = [_row(*group, seed) for group in groups]
    notes = [f"{one.opened.source.dataset}: difficulty is {by_difficulty(_known(one.values))[0]}" for one in pools]
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
    return Table("measured", "Stopping times with weights measured on the pool", columns, rows, notes)


def _row(source: Source, name: str, questions: list[Simulated], seed: int) -> list[Cell]:
    solvable = [one for one in questions if one.share > 0.5]
    mixed = [one for one in solvable if one.informative is not None]
    possible = [one for one in solvable if can_hold(one.share)]
    held = [one for one in possible if one.condition.holds]

    def slower(variant: str) -> float | None:
        return fmean(one.means[variant] > one.means["counts"] for one in held) if held else None

    return [
        source.dataset,
        source.model,
        name,
        len(questions),
        len(solvable),
        fmean(one.share for one in questions),
        len(mixed),
        fmean(bool(one.informative) for one in mixed) if mixed else None,
        len(possible),
        len(held),
        *(_mean([one.means[v] for one in solvable], seed) for v in VARIANTS),
        slower("mean"),
        slower("unit"),
        *(fmean(one.wrong[v] for one in questions) for v in VARIANTS),
    ]


def _mean(values: list[float], seed: int) -> Measure | None:
    if len(values) < 2:
        return Measure(values[0], None, None) if values else None
    return measure(fmean(values), intervals(np.array(values).reshape(-1, 1), seed)[0])


def _by_difficulty(values: Sequence[Simulated | None]) -> dict[str, list[Simulated]]:
    known = _known(values)
    return {"all": known, **by_difficulty(known)[1]} if known else {}


def _known(values: Sequence[Simulated | None]) -> list[Simulated]:
    return [one for one in values if one is not None]


def _bars(number: int, pool: PoolResults[Simulated | None]) -> Figure:
    groups = {name: [q for q in group if q.share > 0.5] for name, group in _by_difficulty(pool.values).items()}
    groups = {name: group for name, group in groups.items() if group}
    series = [
        Series(VARIANT_NAMES[v], list(groups), [fmean(one.means[v] for one in group) for group in groups.values()])
        for v in VARIANTS
    ]
    source = pool.opened.source
    title = f"{source.label}: mean votes until the posterior settles (solvable questions)"
    return Figure(f"measured-{number}", title, "bar", CATEGORIES, Axis("votes"), series)


def _betas(cases: Sequence[BetaCase], seed: int) -> Table:
    columns = [
        ResultColumn("p", "number", digits=2),
        *map(ResultColumn, ("weights of right paths", "weights of wrong paths")),
        ResultColumn("left side", "number", digits=3),
        ResultColumn("right side", "number", digits=3),
        ResultColumn("holds"),
        ResultColumn("N, counts", "number", "votes", 1),
        ResultColumn("N, weights", "number", "votes", 1),
        ResultColumn("N, weights of mean 1", "number", "votes", 1),
        ResultColumn("wrong stops, counts", "percent", "%"),
        ResultColumn("wrong stops, weights of mean 1", "percent", "%"),
    ]
    rows = [_beta_row(case, seed) for case in cases]
    settings = settings_note(
        budget=f"{MOST} votes", repeats=f"{40 * RUNS} runs, seed {seed}", weights="1, drawn, and drawn over their mean"
    )
    return Table("beta", "Stopping times with weights from Beta distributions", columns, rows, [settings])


def _cases(sweep: Sequence[float] | None) -> tuple[BetaCase, ...]:
    """The experiment's own sweep: five numbers per case."""
    values = sweep or ()
    if len(values) % 5:
        raise UsageError(
            f"theorem takes five numbers per case, {len(values)} were given: p, then the Beta parameters of right and "
            "of wrong weights, such as --sweep 0.9,8,2,5,5"
        )
    return tuple(
        (values[i], values[i + 1], values[i + 2], values[i + 3], values[i + 4]) for i in range(0, len(values), 5)
    )


def _beta_row(case: BetaCase, seed: int) -> list[Cell]:
    p, *shape = case
    if not 0.0 < p < 1.0 or min(shape) <= 0.0:
        raise UsageError(f"theorem: {case} is not possible: p lies between 0 and 1, Beta parameters are above 0")
    rng = np.random.default_rng((seed, 1))
    size = (40 * RUNS, MOST)
    right = rng.random(size) < p
    weights = np.where(right, rng.beta(shape[0], shape[1], size), rng.beta(shape[2], shape[3], size))
    moments = [m for a, b in (shape[:2], shape[2:]) for m in (a / (a + b), a * (a + 1) / ((a + b) * (a + b + 1)))]
    condition = condition_of(p, *moments)
    mean = p * moments[0] + (1 - p) * moments[2]
    counts, plain, scaled = (stopping(right, w) for w in (np.ones(size), weights, weights / mean))
    named = [f"Beta({a:g}, {b:g})" for a, b in (shape[:2], shape[2:])]
    return [
        p,
        *named,
        condition.left,
        condition.right,
        "yes" if condition.holds else "no",
        counts.mean,
        plain.mean,
        scaled.mean,
        float(counts.wrong.mean()),
        float(scaled.wrong.mean()),
    ]


def _brake(seed: int) -> tuple[Table, Figure]:
    """The factor in votes, against counting, if all weights are the same small number."""
    rows: list[list[Cell]] = []
    series = [Series("1/weight", list(SMALL), [1.0 / eps for eps in SMALL], paper="appendix B.1")]
    for p in SHARES:
        rng = np.random.default_rng((seed, 2))
        right = rng.random((4 * RUNS, LONG)) < p
        ones = np.ones(right.shape)
        base = stopping(right, ones).mean
        ratios: list[float | None] = []
        for eps in SMALL:
            stops = stopping(right, eps * ones)
            ratios.append(stops.mean / base)
            rows.append(
                [p, eps, base, stops.mean, ratios[-1], 1.0 / eps, float(stops.wrong.mean()), float(stops.open.mean())]
            )
        series.append(Series(f"p = {p:g}", list(SMALL), ratios))
    columns = [
        ResultColumn("p", "number", digits=2),
        ResultColumn("weight of every vote", "number", digits=2),
        ResultColumn("N, counts", "number", "votes", 1),
        ResultColumn("N, weights", "number", "votes", 1),
        ResultColumn("ratio", "ratio"),
        ResultColumn("the paper's 1/weight", "ratio", paper="appendix B.1"),
        ResultColumn("wrong stops", "percent", "%"),
        ResultColumn("never stopped", "percent", "%"),
    ]
    x, y = Axis("weight of every vote", "log"), Axis("votes, relative to counting", "log")
    figure = Figure("brake", "The safety brake: uniform small weights", "line", x, y, series)
    settings = settings_note(budget=f"{LONG} votes", repeats=f"{4 * RUNS} runs, seed {seed}", weights=VARIED)
    return Table("brake", "The safety brake: uniform small weights", columns, rows, [settings]), figure


EXPERIMENT: Final = Experiment(
    "theorem",
    "Monte Carlo of the appendix: weighted against counted stopping (figure 7)",
    "Stopping times with confidence weights and with counts",
    _measure,
    reads=("sweep",),
)


TAU: Final = 0.95
BLOCK: Final = 32
VARIANTS: Final = ("counts", "raw", "mean", "unit")


class Stops(NamedTuple):
    """When runs stopped, and on which side."""

    times: NDArray[np.int64]  # votes; the most allowed if a run never stopped
    wrong: Bools  # settled on the wrong side
    open: Bools  # never settled

    @property
    def mean(self) -> float:
        """Mean stopping time; a lower bound if runs stayed open."""
        return float(self.times.mean())


def stopping(right: Bools, weights: Floats, tau: float = TAU) -> Stops:
    """Each row is a run: after every vote, test whether the heavier side holds most with probability above tau."""
    runs, most = right.shape
    ahead = np.cumsum(np.where(right, weights, 0.0), axis=1)
    behind = np.cumsum(np.where(right, 0.0, weights), axis=1)
    times = np.full(runs, most, dtype=np.int64)
    wrong, open_ = np.zeros(runs, np.bool_), np.ones(runs, np.bool_)
    for start in range(0, most, BLOCK):
        running = np.flatnonzero(open_)
        if not running.size:
            break
        a, b = ahead[running, start : start + BLOCK], behind[running, start : start + BLOCK]
        settled = betainc(1.0 + np.minimum(a, b), 1.0 + np.maximum(a, b), 0.5) > tau
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
    left = (p * mean_c - q * mean_i) / spread if spread > 0.0 else float("nan")
    return Condition(float(left), float((p - q) / np.sqrt(4.0 * p * q)) if 0.0 < p < 1.0 else float("inf"))


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
    means: dict[str, float]  # stopping time by variant
    wrong: dict[str, float]  # share of runs that settled on the wrong side
    open: dict[str, float]
    graded: bool


@dataclass(frozen=True, slots=True)
class Simulate:
    """The pipeline's task: draw a question's paths with replacement, stop by counts and by three scales of weight."""

    window: int
    runs: int
    most: int
    seed: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> Simulated | None:
        """None if the question has no gold answer or no answered path."""
        paths = ReadSignals(self.window)(question, judged)
        if not paths.graded or not paths.right.size or not paths.lowest.any():
            return None
        rng = np.random.default_rng((self.seed, crc32(question.id.encode())))
        drawn = rng.integers(paths.right.size, size=(self.runs, self.most))
        right, weights = paths.right[drawn], paths.lowest[drawn]
        scales = {"counts": 0.0, "raw": 1.0, "mean": float(paths.lowest.mean()), "unit": float(paths.lowest.max())}
        stops = {
            name: stopping(right, weights / scale if scale else np.ones_like(weights)) for name, scale in scales.items()
        }
        c, i = paths.lowest[paths.right], paths.lowest[~paths.right]
        return Simulated(
            paths.level,
            paths.share,
            bool(c.mean() > i.mean()) if c.size and i.size else None,
            condition(paths.share, c, i),
            {name: stop.mean for name, stop in stops.items()},
            {name: float(stop.wrong.mean()) for name, stop in stops.items()},
            {name: float(stop.open.mean()) for name, stop in stops.items()},
            True,
        )
