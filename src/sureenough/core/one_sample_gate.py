"""ReASC's stop rule: one confident path is enough; otherwise a Beta test on votes weighed by confidence.

The paper's two stages, with constants of our own, since its constants are not public: docs/deviations.md.
"""

from __future__ import annotations

from dataclasses import dataclass

from sureenough.core.beta import exceeds_share
from sureenough.core.stop_rules import StopRule, fewest_votes
from sureenough.core.strategy_options import MODERATE, PROBABILITY, option
from sureenough.core.votes import Lead, Poll


@dataclass(frozen=True, slots=True)
class OneSampleGate(StopRule):
    """Stop after the first path if its mean peak is at the gate, later if the leader almost certainly wins."""

    gate: float = option(0.96, "mean peak at which the first path decides alone; above 1: never", MODERATE)
    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    counts_paths: bool = False
    quantity: str = "posterior"

    def __call__(self, poll: Poll) -> bool:
        measured = self.measure(poll)
        return self._passes(poll) or (measured is not None and measured >= self.tau)

    def _passes(self, poll: Poll) -> bool:
        return poll.counted == 1 and len(poll.ballots) == 1 and poll.ballots[0].mean_peak >= self.gate

    def measure(self, poll: Poll) -> float | None:
        """1 - I_0.5(v1 + 1, v2 + 1) over the two heaviest answers, in effective votes."""
        lead = poll.lead_by_weight()
        return None if lead is None else self._wins(lead, 0.0)

    def _wins(self, lead: Lead, more: float) -> float:
        return exceeds_share(lead.first + more + 1.0, lead.second + 1.0, 0.5)

    def need(self, poll: Poll, most: int) -> int:
        """One path at first; then votes of the mean weight so far for the leader."""
        lead = poll.lead_by_weight()
        if lead is None:
            return 1
        each = lead.total / len(poll.ballots)
        return fewest_votes(most, lambda more: self._wins(lead, more * each) >= self.tau)

    def explain(self, poll: Poll, measured: float) -> str:
        if self._passes(poll):
            return f"The first path has a mean peak of {poll.ballots[0].mean_peak:.4f}, at or above {self.gate:g}."
        return f"The leader beats the next answer with probability {measured:.4f}; it stops at {self.tau:g}."
