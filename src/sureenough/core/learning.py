"""Which confidence to trust, learned from question to question without labels.

Paths that agree with the others are right more often, so a signal that goes with agreement is worth a weight. A state
keeps, for each signal, the mean within-question correlation with leave-one-out agreement, beside an optimistic prior;
weights and the care of the stop rule follow from it. docs/sure.md gives the rule.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, Final, Self

from sureenough.errors import UsageError

if TYPE_CHECKING:
    from sureenough.core.outcome import Outcome

SIGNALS: Final = ("tail", "mean_peak")
"""Fields of a ballot that may be trusted."""
PRIOR: Final = 0.15
PRIOR_QUESTIONS: Final = 8
"""The prior counts as so many questions with this correlation; from this correlation on, a signal is fully trusted."""
FEWEST_VOTES: Final = 5
"""A question with fewer votes teaches nothing."""
STATE_VERSION: Final = 1


@dataclass(frozen=True, slots=True)
class LearnerState:
    """What is known of one model's signals. `receive` returns the next state; a run uses the state of its start."""

    questions: int = 0  # outcomes received
    sums: tuple[float, ...] = (0.0,) * len(SIGNALS)  # of correlations with agreement, by signal
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
        """0 if no signal goes with agreement, 1 if one does as much as the prior expects."""
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
            parts = [data["signals"][name] for name in SIGNALS]
            questions = _whole(data["questions"])
            counts = tuple(_whole(part["questions"]) for part in parts)
            sums = tuple(float(part["sum"]) for part in parts)
        except (KeyError, TypeError, ValueError, OverflowError):
            raise UsageError("a learner's state is damaged: a number is missing or malformed") from None
        if max(counts) > questions or any(
            not isfinite(total) or abs(total) > count for total, count in zip(sums, counts, strict=True)
        ):
            raise UsageError("a learner's state is damaged: its numbers contradict each other")
        return cls(questions, sums, counts)


def _whole(value: object) -> int:
    """A count from a file; ValueError if it cannot be one."""
    if type(value) is not int or not 0 <= value < 1 << 53:
        raise ValueError
    return value


def correlation(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Pearson's; None if either does not vary or holds values that are not finite."""
    n = len(first)
    means = sum(first) / n, sum(second) / n
    a, b = [x - means[0] for x in first], [x - means[1] for x in second]
    spreads = sqrt(sum(x * x for x in a)), sqrt(sum(x * x for x in b))
    if not (1e-9 <= spreads[0] < float("inf") and 1e-9 <= spreads[1] < float("inf")):
        return None
    covariance = sum(x * y for x, y in zip(a, b, strict=True))
    return max(-1.0, min(1.0, covariance / (spreads[0] * spreads[1])))
