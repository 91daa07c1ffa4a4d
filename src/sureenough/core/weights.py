"""Weights of votes: 1, the path's confidence, or how confident the path ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import exp, nan, sqrt
from typing import Final, NamedTuple, Protocol

from sureenough.core.events import Answer
from sureenough.core.strategy_options import MODERATE, check_options, one_of, option


class Ballot(NamedTuple):
    """One path's vote."""

    path: int
    answer: Answer
    lowest: float  # C_path
    tail: float  # group conf of its last window
    mean_peak: float = nan  # over all tokens; NaN if the engine does not sum it
    mean_conf: float = nan


class Weigh(Protocol):
    """Weighs ballots. A plain callable with the same arguments will do; see `PlainWeigh`."""

    @property
    def settled(self) -> bool:
        """Whether a ballot's weight, once the warm-up has ended, never changes again."""

    @property
    def reads(self) -> bool:
        """Whether it reads confidence."""

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """A weight for every ballot; `warmup` holds C_path of the warm-up paths, abstaining ones too."""


@dataclass(frozen=True, slots=True)
class PlainWeigh:
    """Any callable as weights: it is assumed to read confidence, and to weigh all ballots anew at each call."""

    rule: Callable[[Sequence[Ballot], Sequence[float]], Sequence[float]]
    settled: bool = False
    reads: bool = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        return self.rule(ballots, warmup)


@dataclass(frozen=True, slots=True)
class ByCount:
    """Every ballot weighs 1."""

    settled: bool = True
    reads: bool = False

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        return [1.0] * len(ballots)


@dataclass(frozen=True, slots=True)
class ByLowest:
    """A ballot weighs its path's C_path, its lowest group confidence."""

    settled: bool = True
    reads: bool = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        return [ballot.lowest for ballot in ballots]


@dataclass(frozen=True, slots=True)
class ByConfidence:
    """A ballot weighs its path's C_path: raw, or on the scale of the warm-up paths."""

    weight: str = option("raw", "raw: C_path as it is; mean, unit: over the warm-up's mean or maximum",
                         one_of("raw", "mean", "unit"))  # fmt: skip
    settled: bool = True
    reads: bool = True

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """C_path over its scale; 1 if the scale is 0."""
        if self.weight == "raw":
            return [ballot.lowest for ballot in ballots]
        mean = sum(warmup) / len(warmup) if warmup else 0.0
        scale = mean if self.weight == "mean" else max(warmup, default=0.0)
        if scale == 0.0:
            return [1.0] * len(ballots)
        if self.weight == "mean":
            return [ballot.lowest / scale for ballot in ballots]
        return [min(1.0, ballot.lowest / scale) for ballot in ballots]


by_count: Final = ByCount()


def standardised(values: Sequence[float]) -> list[float] | None:
    """Values in standard deviations from their mean (the population's); None if they do not differ."""
    n = len(values)
    if n == 0:
        return None
    mean = sum(values) / n
    spread = sqrt(sum((value - mean) ** 2 for value in values) / n)
    return None if spread < 1e-9 else [(value - mean) / spread for value in values]


@dataclass(frozen=True, slots=True)
class ByTail:
    """Paths that end more confident than the others weigh more; all votes sum to the effective number of paths."""

    beta: float = option(0.6, "how much a path's last window counts; 0 weighs all paths alike", MODERATE)
    damping: float = 8.0  # votes at which half of beta is believed
    cap: float = 2.5  # standard deviations beyond which nothing is gained
    settled: bool = False
    reads: bool = True

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """exp(beta n/(n + damping) z), scaled to the effective number of votes."""
        n = len(ballots)
        scores = standardised([ballot.tail for ballot in ballots])
        if scores is None:
            return [1.0] * n
        strength = self.beta * n / (n + self.damping)
        raw = [exp(strength * min(self.cap, max(-self.cap, z))) for z in scores]
        scale = sum(raw) / sum(weight * weight for weight in raw)
        return [weight * scale for weight in raw]
