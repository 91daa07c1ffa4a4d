"""Weights of votes: 1, the path's C_path, or by signals that proved to be worth it; and how that is learned."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import copysign, exp, inf, isfinite, nan, sqrt
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

from sureenough.core.events import Answer
from sureenough.core.options import MODERATE, TEMPERATURE, HasOptions, one_of, option
from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.core.outcome import Outcome


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
    settled = False
    reads = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        return self.rule(ballots, warmup)


@dataclass(frozen=True, slots=True)
class ByLowest:
    """A ballot weighs its path's C_path, its lowest group confidence."""

    settled = True
    reads = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        return [ballot.lowest for ballot in ballots]


@dataclass(frozen=True, slots=True)
class ByConfidence(HasOptions):
    """A ballot weighs its path's C_path: raw, or on the scale of the warm-up paths."""

    weight: str = option("raw", "raw: C_path as it is; mean, unit: over the warm-up's mean or maximum",
                         one_of("raw", "mean", "unit"))  # fmt: skip
    settled = True
    reads = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """C_path over its scale; 1 if the scale is 0."""
        if self.weight == "raw":
            return [ballot.lowest for ballot in ballots]
        scale = max(warmup, default=0.0) if self.weight == "unit" else sum(warmup) / (len(warmup) or 1)
        if scale == 0.0:
            return [1.0] * len(ballots)
        weights = [ballot.lowest / scale for ballot in ballots]
        return [min(1.0, weight) for weight in weights] if self.weight == "unit" else weights


# Which confidence to trust, learned from question to question without labels.
#
# The most frequent answer is right more often than the next one, so a signal that tells their paths apart is worth a
# weight. A state keeps, for each signal, the mean over questions of its correlation with a vote for the leader, among
# the votes for these two, beside an optimistic prior; weights and the care of the stop rule follow from it.
# docs/sure.md gives the rule.

SIGNALS: Final = ("tail", "mean_peak")
"""Fields of a ballot that may be trusted."""
PRIOR: Final = 0.15
PRIOR_QUESTIONS: Final = 8
"""The prior counts as so many questions with this correlation; from this correlation on, a signal is fully trusted."""
FEWEST_VOTES: Final = 5
"""A question with fewer votes for its two leaders teaches nothing."""
STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LearnerState:
    """What is known of one model's signals. `receive` returns the next state; a run uses the state of its start."""

    questions: int = 0  # outcomes received
    sums: tuple[float, ...] = (0.0,) * len(SIGNALS)  # of correlations with votes for the leader, by signal
    counts: tuple[int, ...] = (0,) * len(SIGNALS)  # questions with such a correlation

    def receive(self, outcome: Outcome) -> LearnerState:
        """The state after one more question."""
        values = [outcome.correlations.get(name) for name in SIGNALS]
        sums = tuple(total + (value or 0.0) for total, value in zip(self.sums, values, strict=True))
        counts = tuple(count + (value is not None) for count, value in zip(self.counts, values, strict=True))
        return LearnerState(self.questions + 1, sums, counts)

    @property
    def correlations(self) -> dict[str, float]:
        """R of each signal: the mean over questions, with the prior."""
        return {
            name: (PRIOR * PRIOR_QUESTIONS + total) / (PRIOR_QUESTIONS + count)
            for name, total, count in zip(SIGNALS, self.sums, self.counts, strict=True)
        }

    @property
    def trust(self) -> float:
        """0 if no signal goes with votes for leaders, 1 if one does as much as the prior expects."""
        return min(1.0, max(0.0, *self.correlations.values()) / PRIOR)

    def betas(self, most: float) -> dict[str, float]:
        """The weight of each signal; together at most `most`, in proportion to the squares of positive r."""
        positive = {name: max(0.0, r) for name, r in self.correlations.items()}
        squares = sum(r * r for r in positive.values())
        amount = most * self.trust
        return {name: amount * r * r / squares if squares > 0.0 else 0.0 for name, r in positive.items()}

    def to_json(self) -> dict[str, Any]:
        """As plain JSON values; it holds no text of questions or answers."""
        signals = zip(SIGNALS, self.sums, self.counts, strict=True)
        return {
            "version": STATE_VERSION,
            "questions": self.questions,
            "signals": {name: {"sum": total, "questions": count} for name, total, count in signals},
        }

    @classmethod
    def from_json(cls, data: object) -> Self:
        """The state in `to_json`'s form; UsageError if it is damaged or of another version."""
        if not isinstance(data, Mapping) or data.get("version") != STATE_VERSION:
            raise UsageError(f"not a learner's state of version {STATE_VERSION}")
        try:
            signals, questions = [data["signals"][name] for name in SIGNALS], data["questions"]
            sums = tuple(float(signal["sum"]) for signal in signals)
            counts = tuple(signal["questions"] for signal in signals)
            whole = all(type(count) is int and 0 <= count < 1 << 53 for count in (questions, *counts))
            if whole and max(counts) <= questions and all(abs(s) <= n for s, n in zip(sums, counts, strict=True)):
                return cls(questions, sums, counts)
        except (KeyError, TypeError, ValueError, OverflowError):
            pass
        raise UsageError("a learner's state is damaged: a number is missing, malformed, or contradicts the others")


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's; None if either does not vary or holds values that are not finite."""
    n = len(first)
    means = sum(first) / n, sum(second) / n
    a, b = [x - means[0] for x in first], [x - means[1] for x in second]
    spreads = sqrt(sum(x * x for x in a)), sqrt(sum(x * x for x in b))
    if not (1e-9 <= spreads[0] < inf and 1e-9 <= spreads[1] < inf):
        return None
    covariance = sum(x * y for x, y in zip(a, b, strict=True))
    return max(-1.0, min(1.0, covariance / (spreads[0] * spreads[1])))


DAMPING: Final = 8.0
"""Votes at which half of beta is believed."""
Z_CAP: Final = 2.5
"""Standard deviations beyond which nothing is gained."""
SUM_CAP: Final = 2.0
"""The most that all signals together add to the logarithm of a weight."""


@dataclass(frozen=True, slots=True)
class BySignals(HasOptions):
    """Paths more confident than the others weigh more; all votes sum to the effective number of paths."""

    weigh: str = option("learned", "learned: by the signals that go with votes for leaders; tail: by the last window; "
                        "count: all paths alike", one_of("learned", "tail", "count"))  # fmt: skip
    beta: float = option(0.8, "how much confidence counts at most; 0 weighs all paths alike", MODERATE)
    state: LearnerState = field(default=LearnerState(), compare=False)
    betas: dict[str, float] = field(init=False, compare=False, repr=False)  # of each signal that weighs

    def __post_init__(self) -> None:
        HasOptions.__post_init__(self)
        learned = {"learned": self.state.betas(self.beta), "tail": {"tail": self.beta}, "count": {}}[self.weigh]
        object.__setattr__(self, "betas", {name: beta for name, beta in learned.items() if beta > 0.0})

    @property
    def settled(self) -> bool:
        return self.weigh == "count"

    @property
    def reads(self) -> bool:
        return self.weigh != "count"

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """exp(n/(n + damping) sum of beta z), scaled to the effective number of votes."""
        n = len(ballots)
        parts = [part for name, beta in self.betas.items() if (part := _scores(ballots, name, beta)) is not None]
        if not parts:
            return [1.0] * n
        totals = parts[0] if len(parts) == 1 else list(map(sum, zip(*parts, strict=True)))
        strength = n / (n + DAMPING)
        raw = [
            exp(strength * (total if -SUM_CAP <= total <= SUM_CAP else copysign(SUM_CAP, total))) for total in totals
        ]
        return _effective(raw)


by_count: Final = BySignals("count")
"""Every path alike, unless the caller sets `weigh`."""


def _scores(ballots: Sequence[Ballot], name: str, beta: float) -> list[float] | None:
    """A signal as beta z: z in (population) standard deviations from its mean, clipped.

    None if the signal does not vary, or if a value is not finite.
    """
    values = list(map(attrgetter(name), ballots))
    mean = sum(values) / (len(values) or 1)
    centred = [value - mean for value in values]
    spread = sqrt(sum([value * value for value in centred]) / (len(values) or 1))
    if not 1e-9 <= spread < inf:
        return None
    factor, cap = beta / spread, beta * Z_CAP
    return [score if -cap <= (score := factor * value) <= cap else copysign(cap, score) for value in centred]


def _effective(weights: list[float]) -> list[float]:
    """Weights scaled to the effective number of votes, (sum w)^2 / sum w^2."""
    scale = sum(weights) / sum([weight * weight for weight in weights])
    return [weight * scale for weight in weights]


@dataclass(frozen=True, slots=True)
class BySoftmax(HasOptions):
    """CISC: a ballot weighs the softmax of its confidence among the ballots of the question."""

    signal: str = option("mean_peak", "confidence of a path: mean_peak, mean_conf, tail or lowest (C_path)",
                         one_of("mean_peak", "mean_conf", "tail", "lowest"))  # fmt: skip
    temperature: float = option(0.02, "of the softmax; the lower, the more confidence counts", TEMPERATURE)
    settled = False
    reads = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """exp(confidence / temperature), scaled to the effective number of votes; all 1 if a value is not finite."""
        values = list(map(attrgetter(self.signal), ballots))
        if not all(map(isfinite, values)):
            return [1.0] * len(values)
        largest = max(values, default=0.0)
        return _effective([exp((value - largest) / self.temperature) for value in values]) if values else []
