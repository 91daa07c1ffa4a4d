"""The stop rule of `sure`: stop if the rest of the budget is expected to gain less than delta of the vote share.

The expected gain is the probability that the runner-up overtakes the leader, times by how much, times the share of the
votes that the two hold. docs/sure.md derives it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from sureenough.core.beta import betainc
from sureenough.core.stop_rules import StopRule, fewest_votes
from sureenough.core.strategy_options import COUNT, PROBABILITY, option
from sureenough.core.votes import Poll


def gain(first: float, second: float, total: float, future: float, *, prior: float = 1.0, unseen: float = 1.0) -> float:
    """Expected vote share gained by going on, with `future` effective votes still to come."""
    if future <= 0.0:
        return 0.0
    a, b = first + prior, second + prior
    both = a + b
    share = both / (total + 2.0 * prior + unseen)
    coming = future * share
    # The leader's final share of the two is Beta-binomial; c makes a Beta of the same mean and variance.
    c = ((both + 1.0) * (both + coming) / coming - 1.0) / both
    overtaken = float(betainc(c * a, c * b, 0.5)) - 2.0 * a / both * float(betainc(c * a + 1.0, c * b, 0.5))
    return share * max(0.0, overtaken)


@dataclass(frozen=True, slots=True)
class ExpectedGain(StopRule):
    """Stop if the rest of the budget is expected to gain no more than delta of the vote share."""

    delta: float = option(0.01, "vote share that the rest of the budget must be worth", PROBABILITY)
    least: int = option(3, "paths before the first test", COUNT)
    trust: float = field(default=1.0, compare=False)  # in the weights, 0 to 1: with none, delta is halved
    counts_paths: bool = True  # each path that ends leaves fewer to come
    quantity: str = "expected_gain"
    stops_above: bool = False

    @property
    def threshold(self) -> float:
        return self.delta * (0.5 + 0.5 * self.trust)

    def __call__(self, poll: Poll) -> bool:
        """At the threshold or below; never without a vote, before `least` paths, or at the end of the budget."""
        if poll.counted < self.least or poll.counted >= poll.budget:
            return False
        measured = self.measure(poll)
        return measured is not None and measured <= self.threshold

    def measure(self, poll: Poll) -> float | None:
        """The expected gain of the rest of the budget, in vote share."""
        return self._measure_after(poll, 0)

    def _measure_after(self, poll: Poll, more: int) -> float | None:
        """The same after `more` further paths, of the mean weight so far, for the leader."""
        lead = poll.lead_by_weight()
        if lead is None:
            return None
        votes = poll.voting
        each = lead.total / votes
        answering = (votes + more + 1) / (poll.counted + more + 1)
        future = (poll.budget - poll.counted - more) * each * answering
        return gain(lead.first + more * each, lead.second, lead.total + more * each, future)

    def need(self, poll: Poll, most: int) -> int:
        """Enough for the first test, and for the expected gain to fall to the threshold."""
        if not poll.voting:
            return min(most, max(1, self.least - poll.counted))

        def settles(more: int) -> bool:
            gained = self._measure_after(poll, more)
            return poll.counted + more >= self.least and gained is not None and gained <= self.threshold

        return fewest_votes(most, settles)

    def explain(self, poll: Poll, measured: float) -> str:
        remaining = poll.budget - poll.counted
        if remaining <= 0:
            return "No paths remain."
        side = "no more than" if measured <= self.threshold else "more than"
        return (
            f"The {remaining} remaining path{'s' * (remaining != 1)} would gain {100 * measured:.2f} points of vote "
            f"share on average, {side} delta = {100 * self.threshold:g} points."
        )
