"""Gates prune a path that grows; calibrations make a question's gate from its warm-up paths (SPEC §3, §4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import NamedTuple

import numpy as np

from sureenough.core.events import Tier
from sureenough.core.monitor import Monitor
from sureenough.core.options import FENCE, NOT_NEGATIVE, PERCENT, check, option
from sureenough.core.trend import Floats
from sureenough.core.windows import Windows


class Closed(NamedTuple):
    """Where a gate closed on a path: after that many tokens, by that test."""

    tokens: int
    tier: Tier


@dataclass(frozen=True, slots=True)
class Gate:
    """A question's thresholds; the default never closes. Every test is strict."""

    trust: float = inf  # group peak above it: go on, whatever the rest says
    drop: float = -inf  # group conf below it: prune
    risk: float = inf  # instability above it: prune
    eta: float = 0.5
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
        """Where `tier` would first say no on this recorded path: the same decision, all windows at once."""
        if not path.watched or (self.drop == -inf and self.risk == inf):
            return None
        closed = path.conf < self.drop
        if self.risk < inf:
            closed = closed | (path.risk(self.eta) > self.risk)
        closed &= path.peak <= self.trust
        at = int(closed.argmax())
        if not closed[at]:
            return None
        return Closed(at + path.window, Tier.DROP if path.conf[at] < self.drop else Tier.RISK)


Calibrate = Callable[[Sequence[Windows]], Gate]
"""Warm-up paths -> gate."""


def no_gate(paths: Sequence[Windows]) -> Gate:  # noqa: ARG001 - it is a Calibrate
    """Paths are never pruned."""
    return Gate()


@dataclass(frozen=True, slots=True)
class TwoTiers:
    """DDC without its trend: trust by group peak, drop by group conf."""

    trust: float = option(90.0, "percentile of group peak above which a path is trusted", PERCENT)
    drop: float = option(20.0, "percentile of group conf below which a path is pruned", PERCENT)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """Thresholds from all windows of all warm-up paths, pooled; none where there is no window."""
        seen = [path for path in paths if path.tokens]
        if not seen:
            return Gate()
        return Gate(
            trust=_percentile([path.peak for path in seen], self.trust),
            drop=_percentile([path.conf for path in seen], self.drop),
        )


@dataclass(frozen=True, slots=True)
class Stratified:
    """DDC's three tiers: trust by group peak, drop by group conf, prune by an outlying trend."""

    trust: float = option(90.0, "percentile of group peak above which a path is trusted", PERCENT)
    drop: float = option(20.0, "percentile of group conf below which a path is pruned", PERCENT)
    risk: str = option("tukey", "fence for the trend: tukey, or a percentile such as p90", FENCE)
    eta: float = option(0.5, "penalty on falling confidence", NOT_NEGATIVE)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """The two tiers of confidence, and a fence around the warm-up's instability."""
        gate = TwoTiers(self.trust, self.drop)(paths)
        risks = [path.risk(self.eta) for path in paths if path.tokens]
        return replace(gate, risk=self._fence(risks), eta=self.eta) if risks else gate

    def _fence(self, risks: Sequence[Floats]) -> float:
        if self.risk != "tukey":
            return _percentile(risks, float(self.risk[1:]))
        first, third = np.percentile(np.concatenate(risks), (25.0, 75.0)).tolist()
        return float(third + 1.5 * (third - first))


@dataclass(frozen=True, slots=True)
class Keep:
    """DeepConf's test: keep the best `keep` percent of the warm-up paths and what comes up to them."""

    keep: float = option(10.0, "percent of the warm-up paths that are good enough", PERCENT)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, paths: Sequence[Windows]) -> Gate:
        """The percentile of the warm-up paths' C_path prunes later paths and silences weak warm-up paths."""
        if not paths:
            return Gate()
        bar = float(np.percentile([path.lowest for path in paths], 100.0 - self.keep))
        return Gate(drop=bar, floor=bar)


def _percentile(parts: Sequence[Floats], q: float) -> float:
    return float(np.percentile(np.concatenate(parts), q))
