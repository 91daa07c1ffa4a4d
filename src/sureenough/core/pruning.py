"""Pruning: a gate tests the latest window of a growing path; a calibration derives the gate from the warm-up."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import inf
from typing import Final, NamedTuple

import numpy as np

from sureenough.core.confidence import Floats, Monitor, Windows
from sureenough.core.options import FENCE, NOT_NEGATIVE, PERCENT, HasOptions, one_of, option


class Tier(StrEnum):
    """Which of the gate's tests pruned a path."""

    DROP = "drop"  # confidence too low
    RISK = "risk"  # trend too unstable


class Closed(NamedTuple):
    """Where a gate closed on a path: after so many tokens, by this test."""

    tokens: int
    tier: Tier


@dataclass(frozen=True, slots=True)
class Gate:
    """A question's thresholds; the default never closes. Every test is strict."""

    trust: float = inf  # group peak above it: go on, whatever the rest says
    drop: float = -inf  # group conf below it: prune
    risk: float = inf  # instability above it: prune
    eta: float = 0.5  # penalty on falling confidence, from `Stratified`, which has the default
    floor: float = -inf  # warm-up paths with C_path below it do not vote

    def tier(self, path: Monitor) -> Tier | None:
        """The test that the latest window fails, if any."""
        if path.peak > self.trust:
            return None
        if path.conf < self.drop:
            return Tier.DROP
        if self.risk < inf and path.risk(self.eta) > self.risk:
            return Tier.RISK
        return None

    def first_closed(self, path: Windows) -> Closed | None:
        """Where `tier` would first prune this recorded path: the same decision, for all windows at once."""
        if not path.watched:
            return None
        low = path.lowest < self.drop
        risky = self.risk < inf and path.riskiest(self.eta) > self.risk
        if not low and not risky:
            return None  # most paths: their extremes settle it without a look at every window
        closed = path.conf < self.drop
        if risky:
            closed |= path.risk(self.eta) > self.risk
        closed &= path.peak <= self.trust
        at = int(closed.argmax())
        if not closed[at]:
            return None
        return Closed(at + path.window, Tier.DROP if path.conf[at] < self.drop else Tier.RISK)


OPEN_GATE: Final = Gate()
"""Never closes."""

Calibrate = Callable[[Sequence[Windows]], Gate]
"""Warm-up paths -> gate."""


def no_gate(paths: Sequence[Windows]) -> Gate:
    """Paths are never pruned."""
    return OPEN_GATE


@dataclass(frozen=True, slots=True)
class TwoTiers(HasOptions):
    """DDC without its trend: trust by group peak, drop by group conf."""

    trust: float = option(90.0, "percentile of group peak above which a path is trusted", PERCENT)
    drop: float = option(20.0, "percentile of group conf below which a path is pruned", PERCENT)
    per: str = option(
        "window",
        "what drop and risk are percentiles of: window, of all windows; path, of each path's extreme one",
        one_of("window", "path"),
    )

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """Thresholds from all windows of all warm-up paths, pooled; without any window the gate stays open.

        With per=path, `drop` percent of the warm-up paths have a window below the threshold, however long they are.
        """
        seen = [path for path in paths if path.tokens]
        if not seen:
            return OPEN_GATE
        confs = [np.array([path.lowest for path in seen])] if self.per == "path" else [path.conf for path in seen]
        return Gate(_percentile([path.peak for path in seen], self.trust), _percentile(confs, self.drop))


@dataclass(frozen=True, slots=True)
class Stratified(TwoTiers):
    """DDC's three tiers: trust by group peak, drop by group conf, prune by an outlying trend."""

    risk: str = option("tukey", "fence for the trend: tukey, or a percentile such as p90", FENCE)
    eta: float = option(0.5, "penalty on falling confidence", NOT_NEGATIVE)

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """The two tiers of confidence, and a fence around the warm-up's instability."""
        gate = TwoTiers.__call__(self, paths)
        seen = [path for path in paths if path.tokens]
        if not seen:
            return gate
        by_path = self.per == "path"
        risks = np.concatenate([[path.riskiest(self.eta)] if by_path else path.risk(self.eta) for path in seen])
        if self.risk == "tukey":
            first, third = percentiles(risks, 25.0, 75.0)
            fence = third + 1.5 * (third - first)
        else:
            fence = percentiles(risks, float(self.risk[1:]))[0]
        return replace(gate, risk=fence, eta=self.eta)


@dataclass(frozen=True, slots=True)
class Keep(HasOptions):
    """DeepConf's test: later paths must reach the C_path of the best `keep` percent of the warm-up."""

    keep: float = option(10.0, "percent of the warm-up paths that are good enough", PERCENT)

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """The percentile of the warm-up's C_path prunes later paths and takes the vote of weak warm-up paths."""
        if not paths:
            return OPEN_GATE
        threshold = percentiles(np.array([path.lowest for path in paths]), 100.0 - self.keep)[0]
        return Gate(drop=threshold, floor=threshold)


def _percentile(parts: Sequence[Floats], q: float) -> float:
    return percentiles(np.concatenate(parts), q)[0]


def percentiles(values: Floats, *qs: float) -> list[float]:
    """np.percentile's linear interpolation, bit for bit, without its overhead: every question needs several."""
    last = len(values) - 1
    places = [q / 100.0 * last for q in qs]
    lower = [int(place) for place in places]
    ranked = np.partition(values, sorted({i for low in lower for i in (low, min(low + 1, last))}))
    values_at = []
    for place, low in zip(places, lower, strict=True):
        a, b, t = float(ranked[low]), float(ranked[min(low + 1, last)]), place - low
        values_at.append(a + (b - a) * t if t < 0.5 else b - (b - a) * (1.0 - t))
    return values_at
