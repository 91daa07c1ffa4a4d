"""A guard for confidence that misleads: one question cannot tell, many can.

Question by question, the correlation of confidence with leave-one-out agreement is averaged with a hopeful prior. When
the mean falls to the floor, confidence is no longer believed: `sure` counts votes as equal and asks for four times more
certainty, until the mean recovers.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from sureenough.core.expected_gain import ExpectedGain
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByTail

PRIOR: Final = 0.2
WORTH: Final = 8  # questions that the prior counts as
FLOOR: Final = 0.05


@dataclass(slots=True)
class ConfidenceGuard:
    """Watches one strategy over many questions."""

    strategy: Strategy
    wary: int = 0  # runs made without confidence
    _sum: float = field(default=PRIOR * WORTH)
    _seen: int = field(default=WORTH)

    @property
    def belief(self) -> float:
        """The running mean of the correlation."""
        return self._sum / self._seen

    def current(self) -> Strategy:
        """The strategy as it stands, or without its confidence where that has misled."""
        stop, weigh = self.strategy.stop, self.strategy.weigh
        if self.belief > FLOOR or not isinstance(stop, ExpectedGain) or not isinstance(weigh, ByTail):
            return self.strategy
        self.wary += 1
        return replace(self.strategy, weigh=replace(weigh, beta=0.0), stop=replace(stop, delta=stop.delta / 4))

    def learn(self, agreement: float | None) -> None:
        """Take note of a run's correlation, where it had one."""
        if agreement is not None:
            self._sum += agreement
            self._seen += 1
