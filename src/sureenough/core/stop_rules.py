"""Stop rules: called after every counted path, they decide whether the vote is settled.

A rule measures the poll and compares with its threshold. `verdict` is what people see of it: the quantity, its value,
and a sentence. `need` is how many more votes could settle it, which plans the width.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from math import exp, lgamma, log, pi
from typing import Any, Final, NamedTuple

from sureenough.core.options import COUNT, MODERATE, PROBABILITY, SHARE, HasOptions, option
from sureenough.core.poll import Lead, Poll, Standing


def exceeds_share(alpha: float, beta: float, share: float) -> float:
    """P(p > share) for p ~ Beta(alpha, beta), as a survival function: exact even if it is tiny."""
    return float(betainc(beta, alpha, 1.0 - share))


def betainc(a: Any, b: Any, x: Any) -> Any:
    """The regularised incomplete beta function I_x(a, b), of numbers or arrays."""
    return _scipy_betainc()(a, b, x)


@cache
def _scipy_betainc() -> Callable[[Any, Any, Any], Any]:
    from scipy.special import betainc as function  # importing it takes a fifth of a second: not before it is needed

    return function  # type: ignore[no-any-return]


CERTIFIED: Final = 0.05
"""The usual level."""


def certificate(standing: Standing) -> float:
    """The level at which an answer is the model's most frequent one.

    Whenever one looks, and under any stop rule, an answer that is not is certified at level alpha with a probability of
    at most alpha. docs/sure.md explains it.
    """
    votes, rival, position = standing
    if votes <= rival:
        return 1.0
    # How much likelier the votes for the two are if this answer has any share above 1/2 (all alike) than with a fair
    # coin. Its first vote is left out: by that it became one of the answers.
    log_beta = lgamma(votes) + lgamma(rival + 1.0) - lgamma(votes + rival + 1.0)
    ratio = (votes + rival) * log(2.0) + log_beta + log(exceeds_share(votes, rival + 1.0, 0.5))
    share = 0.9 if position == 1 else 0.6 / (pi * (position - 1)) ** 2  # of alpha, for this answer; they sum to 1
    return min(1.0, exp(-min(ratio + log(share), 700.0)))  # beyond 700, it would be 0


def votes_to_certify(standing: Standing) -> int:
    """The fewest further votes for an answer that certify it at the usual level."""

    def certified(more: int) -> bool:
        return certificate(standing._replace(votes=standing.votes + more)) <= CERTIFIED

    most = 1
    while not certified(most):
        most *= 2
    return bisect_left(range(most), True, key=certified)


NO_LEAD: Final = Lead(0.0, 0.0, 0.0)
QUANTITIES: Final = {
    "posterior": "posterior",
    "weighted_posterior": "posterior by the paper's weights",
    "leader_share": "leader share",
    "expected_gain": "expected gain",
    "certificate": "certificate",
}
"""What stop rules measure, with names for people. Only a posterior with every path counted as one vote is a probability
that can be trusted: raw confidences of 15 count a path as 15 votes."""


class Verdict(NamedTuple):
    """What a stop rule makes of the votes."""

    quantity: str | None  # what it measures: one of QUANTITIES; None if it measures nothing
    measure: float | None = None  # None before the first vote
    posterior: float | None = None  # probability that the leader leads, every path one vote; None if the rule has none
    why: str = ""  # the same in a sentence

    def measured(self) -> str | None:
        """What was measured, for people; beside a posterior by weights stands the one that can be trusted."""
        if self.measure is None:
            return None
        by_count = self.posterior if self.quantity == "weighted_posterior" else None
        beside = f" ({by_count:.4f} with every path one vote)" if by_count else ""
        return f"{QUANTITIES.get(self.quantity or '', 'stop rule')} {self.measure:.4f}{beside}"


class StopRule(HasOptions):
    """Decides when a poll is settled.

    A rule that derives from this needs `__call__`, which measures nothing; or `quantity`, `measure_after` and a
    `threshold` (by default its `tau`), from which all the rest follows.
    """

    __slots__ = ()
    counts_paths = True  # whether a path without a vote can settle it; else it is asked only after votes
    weighted = True  # whether it measures weights; else every path counts as 1
    stops_above = True  # the threshold; else below it

    @property
    def quantity(self) -> str | None:
        """What `measure` returns: one of QUANTITIES; None if it measures nothing."""
        return None

    @property
    def threshold(self) -> float | None:
        """The value of `measure` at which the rule stops, by default its `tau`; None if it measures nothing."""
        return getattr(self, "tau", None)

    def __call__(self, poll: Poll) -> bool:
        """Whether the vote is settled."""
        return self.settles(self.measure(poll))

    def settles(self, measured: float | None) -> bool:
        """Whether it stops at this value: by default, at the threshold or beyond it."""
        if measured is None or (threshold := self.threshold) is None:
            return False
        return measured >= threshold if self.stops_above else measured <= threshold

    def measure(self, poll: Poll) -> float | None:
        """The quantity that is compared with the threshold; None before the first vote."""
        if self.quantity is None or (lead := self._lead(poll)) is None:
            return None
        return self.measure_after(poll, lead, 0)

    def _lead(self, poll: Poll) -> Lead | None:
        return poll.lead_by_weight() if self.weighted else poll.lead_by_count()

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float | None:
        """The quantity after so many further votes of the mean weight so far, all for the leader."""
        return None

    def posterior(self, poll: Poll) -> float | None:
        """The probability that the leader leads, with every path counted as one vote; None if the rule has none."""
        return None

    def need(self, poll: Poll, most: int) -> int:
        """The fewest further paths that would settle it if all voted for the leader; at most `most`.

        Of what it measures, more votes never unsettle. A rule without a measure is called with imagined votes.
        """
        if self.quantity is None:
            return self.votes_to_settle(poll, most) or most
        lead = self._lead(poll) or NO_LEAD
        further = range(1, most + 1)
        return min(most, 1 + bisect_left(further, True, key=lambda n: self.settles(self.measure_after(poll, lead, n))))

    def votes_to_settle(self, poll: Poll, most: int) -> int | None:
        """The same, by calling it with imagined votes; None if no more than `most` settle it, or if it fails."""
        imagined = poll.copy()
        try:
            for more in range(1, min(most, poll.budget - poll.counted) + 1):
                imagined.add_for_leader()
                if self(imagined):
                    return more
        except Exception:  # the caller's code; if it fails on votes that were counted, that is raised
            return None
        return None

    def why(self, poll: Poll) -> str:
        """The state of the rule in a sentence."""
        measured = self.measure(poll)
        if measured is None:
            return "" if self.quantity is None else "There are no votes yet."
        return self.explain(poll, measured)

    def explain(self, poll: Poll, measured: float) -> str:
        """What the rule makes of what it measured."""
        return ""

    def verdict(self, poll: Poll) -> Verdict:
        return Verdict(self.quantity, self.measure(poll), self.posterior(poll), self.why(poll))


@dataclass(frozen=True, slots=True)
class PlainStopRule(StopRule):
    """Any callable as a stop rule. It is called with imagined votes, too, so it must not count its calls."""

    rule: Callable[[Poll], bool]

    def __call__(self, poll: Poll) -> bool:
        return bool(self.rule(poll))


@dataclass(frozen=True, slots=True)
class Never(StopRule):
    """Samples the whole budget."""

    counts_paths = False

    def need(self, poll: Poll, most: int) -> int:
        return most

    def why(self, poll: Poll) -> str:
        return "It samples the whole budget, whatever the votes are."


never: Final = Never()


@dataclass(frozen=True, slots=True)
class Posterior(StopRule):
    """DDC: the leader holds more than gamma of the weight, with probability above tau."""

    gamma: float = option(0.5, "share of the votes that counts as settled", SHARE)
    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    weighted: bool = True  # False: the test counts each path as 1
    counts_paths = False

    @property
    def quantity(self) -> str:
        return "weighted_posterior" if self.weighted else "posterior"

    def settles(self, measured: float | None) -> bool:
        return measured is not None and measured > self.tau

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
        """1 - I_gamma(1 + weight of the leader, 1 + weight of all the others)."""
        first = lead.first + more * lead.total / max(1, poll.voting)
        return exceeds_share(1.0 + first, 1.0 + (lead.total - lead.first), self.gamma)

    def posterior(self, poll: Poll) -> float | None:
        """The same with every path counted as one vote."""
        lead = poll.lead_by_count()
        return None if lead is None else self.measure_after(poll, lead, 0)

    def explain(self, poll: Poll, measured: float) -> str:
        side = "above" if measured > self.tau else "not above"
        claim = f"the leader holds more than {self.gamma:.0%} of the votes with probability"
        if not self.weighted:
            return f"{claim.capitalize()} {measured:.4f}, {side} tau = {self.tau:g}."
        return (
            f"By the paper's weights {claim} {measured:.4f}, {side} tau = {self.tau:g}; "
            f"with every path counted as one vote, {self.posterior(poll):.4f}."
        )


@dataclass(frozen=True, slots=True)
class TwoLargest(StopRule):
    """Adaptive-consistency: the most frequent answer beats the next one, with probability tau or more."""

    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    counts_paths = weighted = False
    quantity = "posterior"

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
        """1 - I_0.5(v1 + 1, v2 + 1) over the two largest counts."""
        return exceeds_share(lead.first + more + 1.0, lead.second + 1.0, 0.5)

    def posterior(self, poll: Poll) -> float | None:
        return self.measure(poll)

    def explain(self, poll: Poll, measured: float) -> str:
        first, second, _ = poll.lead_by_count() or NO_LEAD
        return (
            f"{first:.4g} votes against {second:.4g}: the leader beats the next answer with probability "
            f"{measured:.4f}; it stops at {self.tau:g}."
        )


@dataclass(frozen=True, slots=True)
class Share(StopRule):
    """DeepConf: the leader holds tau of the weight or more."""

    tau: float = option(0.95, "share of the vote weight at which sampling stops", PROBABILITY)
    counts_paths = False
    quantity = "leader_share"

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float | None:
        """Weight of the leader over all weight."""
        first, _, total = lead
        added = more * (total / max(1, poll.voting) or 1.0)
        return (first + added) / (total + added) if total + added > 0.0 else None

    def explain(self, poll: Poll, measured: float) -> str:
        return f"The leader holds {measured:.1%} of the vote weight; it stops at {self.tau:.0%}."


@dataclass(frozen=True, slots=True)
class Unanimous(StopRule):
    """Early-stopping self-consistency: a whole batch of paths, by their numbers, gave one answer."""

    batch: int = option(5, "paths in a batch that must agree", COUNT)
    counts_paths = False

    def __call__(self, poll: Poll) -> bool:
        """Tests the batch of the path counted last; all of them if answers were regrouped, which may unite any."""
        if poll.last is not None:
            return self._agrees(poll, poll.last - poll.last % self.batch, self.batch)
        batches = range(0, max(poll.outcomes, default=-1) + 1, self.batch)
        return any(self._agrees(poll, first, self.batch) for first in batches)

    def _agrees(self, poll: Poll, first: int, size: int) -> bool:
        if poll.counted < size:
            return False
        answers = {poll.outcomes.get(path) for path in range(first, first + size)}
        return len(answers) == 1 and None not in answers

    def need(self, poll: Poll, most: int) -> int:
        """The rest of this batch, and a whole one more if this one disagrees already."""
        begun = poll.counted % self.batch
        rest = self.batch - begun
        united = begun == 0 or self._agrees(poll, poll.counted - begun, begun)
        return min(most, rest if united else rest + self.batch)

    def why(self, poll: Poll) -> str:
        which = "A" if self(poll) else "No"
        return f"{which} batch of {self.batch} paths, by their numbers, gave one and the same answer."


def gain(first: float, second: float, total: float, future: float) -> float:
    """Expected vote share gained by going on, with `future` effective votes still to come; docs/sure.md derives it.

    It is the probability that the runner-up overtakes the leader, times by how much, times the share of the votes that
    the two hold.
    """
    if future <= 0.0:
        return 0.0
    a, b = first + 1.0, second + 1.0
    both = a + b
    share = both / (total + 2.0 + 1.0)  # one more for answers that are not among the votes yet
    coming = future * share
    # The leader's final share of the two is Beta-binomial; c makes a Beta of the same mean and variance.
    c = ((both + 1.0) * (both + coming) / coming - 1.0) / both
    overtaken = float(betainc(c * a, c * b, 0.5)) - 2.0 * a / both * float(betainc(c * a + 1.0, c * b, 0.5))
    return share * max(0.0, overtaken)


@dataclass(frozen=True, slots=True)
class ExpectedGain(StopRule):
    """`sure`: the rest of the budget is expected to gain no more than delta of the vote share."""

    delta: float = option(0.01, "vote share that the rest of the budget must be worth", PROBABILITY)
    least: int = option(3, "paths before the first test", COUNT)
    trust: float = field(default=1.0, compare=False)  # in the weights, 0 to 1: with none, delta is halved
    quantity = "expected_gain"
    stops_above = False

    @property
    def threshold(self) -> float:
        return self.delta * (0.5 + 0.5 * self.trust)

    def __call__(self, poll: Poll) -> bool:
        """At the threshold or below; never without a vote, before `least` paths, or at the end of the budget."""
        return self.least <= poll.counted < poll.budget and self.settles(self.measure(poll))

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
        """The expected gain of the rest of the budget, in vote share."""
        votes = poll.voting
        each = lead.total / votes
        answering = (votes + more + 1) / (poll.counted + more + 1)
        future = (poll.budget - poll.counted - more) * each * answering
        return gain(lead.first + more * each, lead.second, lead.total + more * each, future)

    def need(self, poll: Poll, most: int) -> int:
        """At least enough for the first test."""
        need = StopRule.need(self, poll, most) if poll.voting else 1
        return min(most, max(need, self.least - poll.counted))

    def explain(self, poll: Poll, measured: float) -> str:
        remaining = poll.budget - poll.counted
        if remaining <= 0:
            return "No paths remain."
        side = "no more than" if measured <= self.threshold else "more than"
        return (
            f"The {remaining} remaining path{'s' * (remaining != 1)} would gain {100 * measured:.2f} points of vote "
            f"share on average, {side} delta = {100 * self.threshold:g} points."
        )


@dataclass(frozen=True, slots=True)
class Certified(StopRule):
    """The leader is certified to be the model's most frequent answer."""

    alpha: float = option(CERTIFIED, "probability of certifying an answer that is not the most frequent", SHARE)
    counts_paths = weighted = stops_above = False
    quantity = "certificate"

    @property
    def threshold(self) -> float:
        return self.alpha

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
        standing = poll.standing()
        return certificate(standing._replace(votes=standing.votes + more))

    def explain(self, poll: Poll, measured: float) -> str:
        return (
            f"That the leader is the most frequent answer is certified at {measured:.3g}; it stops at {self.alpha:g}."
        )


@dataclass(frozen=True, slots=True)
class OneSampleGate(StopRule):
    """ReASC: the mean peak of the first path is at the gate, or later the leader almost certainly wins.

    The constants are our own, since those of the paper are not public: docs/deviations.md.
    """

    gate: float = option(0.96, "mean peak at which the first path decides alone; above 1: never", MODERATE)
    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    counts_paths = False
    quantity = "posterior"

    def __call__(self, poll: Poll) -> bool:
        return self._passes(poll) or self.settles(self.measure(poll))

    def _passes(self, poll: Poll) -> bool:
        return poll.counted == 1 and len(poll.ballots) == 1 and poll.ballots[0].mean_peak >= self.gate

    def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
        """1 - I_0.5(v1 + 1, v2 + 1) over the two heaviest answers, in effective votes."""
        return exceeds_share(lead.first + more * (lead.total / poll.voting) + 1.0, lead.second + 1.0, 0.5)

    def need(self, poll: Poll, most: int) -> int:
        """One path at first."""
        return StopRule.need(self, poll, most) if poll.voting else 1

    def explain(self, poll: Poll, measured: float) -> str:
        if self._passes(poll):
            return f"The first path has a mean peak of {poll.ballots[0].mean_peak:.4f}, at or above {self.gate:g}."
        return f"The leader beats the next answer with probability {measured:.4f}; it stops at {self.tau:g}."
