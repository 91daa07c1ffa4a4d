"""Monte Carlo of the paper's appendix: how long until the posterior settles, with counted and with weighted votes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from sureenough.bench.experiments.paths import ReadSignals
from sureenough.bench.judging import JudgedAnswers
from sureenough.core.confidence.instability import Bools, Floats
from sureenough.core.stop_rules import betainc
from sureenough.pools import Question

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
