"""A guard for confidence that misleads: one question cannot show it, many can.

Question by question, the correlation of confidence with leave-one-out agreement is averaged with an optimistic prior.
While the mean is at or below the floor, `sure` counts votes as equal and requires four times more certainty. The guard
learns from question to question, so a guarded pool is replayed by one process, in the file's order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from sureenough.core.expected_gain import ExpectedGain
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByTail

PRIOR: Final = 0.2
PRIOR_WEIGHT: Final = 8  # questions that the prior counts as
FLOOR: Final = 0.05


@dataclass(slots=True)
class ConfidenceGuard:
    """Follows one strategy over many questions."""

    strategy: Strategy
    wary: int = 0  # runs without confidence
    _sum: float = field(default=PRIOR * PRIOR_WEIGHT)
    _count: int = field(default=PRIOR_WEIGHT)

    @property
    def belief(self) -> float:
        """The running mean of the correlation."""
        return self._sum / self._count

    def current(self) -> Strategy:
        """The strategy, or the strategy without its confidence while that misleads."""
        stop, weigh = self.strategy.stop, self.strategy.weigh
        if self.belief > FLOOR or not isinstance(stop, ExpectedGain) or not isinstance(weigh, ByTail):
            return self.strategy
        self.wary += 1
        return replace(self.strategy, weigh=replace(weigh, beta=0.0), stop=replace(stop, delta=stop.delta / 4))

    def learn(self, agreement: float | None) -> None:
        """Add a run's correlation, if it has one."""
        if agreement is not None:
            self._sum += agreement
            self._count += 1

    def take_wary(self) -> int:
        """Runs without confidence since the last call."""
        wary, self.wary = self.wary, 0
        return wary
