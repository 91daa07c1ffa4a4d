"""Stop rules: asked after every counted path whether the answer is settled.

A rule measures the poll and compares with its bar; `measure` is what progress displays draw, `why` says it in words,
`need` how many more paths it would take at least, which plans how many run at once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from sureenough.core.beta import betainc
from sureenough.core.strategy_options import COUNT, PROBABILITY, SHARE, check_options, option
from sureenough.core.votes import Poll


class StopRule(Protocol):
    """Says when a poll is settled. A rule that derives from this needs `__call__` only."""

    @property
    def counts_paths(self) -> bool:
        """Whether a path without a vote can settle it."""
        return True

    def __call__(self, poll: Poll) -> bool: ...

    def measure(self, poll: Poll) -> float | None:
        """The quantity that the rule watches, where it has one."""
        return None

    def need(self, poll: Poll, most: int) -> int:
        """The fewest further paths that would settle it, were they all to vote for the leader; at most `most`."""
        return most

    def why(self, poll: Poll) -> str:
        """Where the rule stands, in a sentence."""
        return ""


@dataclass(frozen=True, slots=True)
class PlainStopRule(StopRule):
    """Any callable as a stop rule: a plug-in need be no more."""

    rule: Callable[[Poll], bool]

    def __call__(self, poll: Poll) -> bool:
        """What it says."""
        return bool(self.rule(poll))


def fewest_votes(most: int, settles: Callable[[int], bool]) -> int:
    """The smallest k from 1 to `most` that settles; `most` where none does. More votes never unsettle."""
    return min(most, 1 + bisect_left(range(1, most + 1), True, key=settles))


@dataclass(frozen=True, slots=True)
class Never:
    """The budget decides."""

    counts_paths: bool = False

    def __call__(self, poll: Poll) -> bool:
        """No."""
        return False

    def measure(self, poll: Poll) -> float | None:
        """Nothing is watched."""
        return None

    def need(self, poll: Poll, most: int) -> int:
        """As many as may be."""
        return most

    def why(self, poll: Poll) -> str:
        """Nothing to add."""
        return "It samples the whole budget, whatever the votes say."


never: Final = Never()


def exceeds_share(alpha: float, beta: float, share: float) -> float:
    """P(p > share) for p ~ Beta(alpha, beta), as a survival function: exact where it is tiny."""
    return float(betainc(beta, alpha, 1.0 - share))


@dataclass(frozen=True, slots=True)
class Posterior:
    """DDC: the leader holds more than gamma of the weight, with probability above tau."""

    gamma: float = option(0.5, "share of the votes that counts as settled", SHARE)
    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    weighted: bool = True  # False: the test counts each path as 1
    counts_paths: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, poll: Poll) -> bool:
        """Strictly above tau."""
        measured = self.measure(poll)
        return measured is not None and measured > self.tau

    def measure(self, poll: Poll) -> float | None:
        """1 - I_gamma(1 + weight of the leader, 1 + weight of all the others)."""
        return self._with(poll, 0)

    def need(self, poll: Poll, most: int) -> int:
        """With further paths of the mean weight so far."""
        return fewest_votes(most, lambda more: (self._with(poll, more) or 0.0) > self.tau)

    def _with(self, poll: Poll, more: int) -> float | None:
        lead = poll.lead() if self.weighted else poll.heads()
        if lead is None:
            return None
        first = lead.first + more * lead.total / len(poll.ballots)
        return exceeds_share(1.0 + first, 1.0 + (lead.total - lead.first), self.gamma)

    def why(self, poll: Poll) -> str:
        """The posterior against tau."""
        measured = self.measure(poll)
        if measured is None:
            return "Nobody has voted."
        side = "above" if measured > self.tau else "not above"
        return (
            f"The leader holds more than {self.gamma:.0%} of the votes with probability {measured:.4f}, "
            f"{side} tau = {self.tau:g}."
        )


@dataclass(frozen=True, slots=True)
class TwoLargest:
    """Adaptive-consistency: the most frequent answer beats the next one, with probability tau or more."""

    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)
    counts_paths: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, poll: Poll) -> bool:
        """At tau or above."""
        measured = self.measure(poll)
        return measured is not None and measured >= self.tau

    def measure(self, poll: Poll) -> float | None:
        """1 - I_0.5(v1 + 1, v2 + 1) over the two largest counts."""
        lead = poll.heads()
        return None if lead is None else exceeds_share(lead.first + 1.0, lead.second + 1.0, 0.5)

    def need(self, poll: Poll, most: int) -> int:
        """More of the leader, none of the others."""
        first, second, _ = poll.heads() or (0.0, 0.0, 0.0)
        return fewest_votes(most, lambda more: exceeds_share(first + more + 1.0, second + 1.0, 0.5) >= self.tau)

    def why(self, poll: Poll) -> str:
        """The two counts and what they mean."""
        lead = poll.heads()
        if lead is None:
            return "Nobody has voted."
        return (
            f"{lead.first:.0f} votes against {lead.second:.0f}: the leader beats the next answer with probability "
            f"{self.measure(poll):.4f}; it stops at {self.tau:g}."
        )


@dataclass(frozen=True, slots=True)
class Share:
    """DeepConf: the leader holds tau of the weight or more."""

    tau: float = option(0.95, "share of the vote weight at which sampling stops", PROBABILITY)
    counts_paths: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, poll: Poll) -> bool:
        """At tau or above."""
        measured = self.measure(poll)
        return measured is not None and measured >= self.tau

    def measure(self, poll: Poll) -> float | None:
        """Weight of the leader over all weight."""
        lead = poll.lead()
        return lead.first / lead.total if lead is not None and lead.total > 0.0 else None

    def need(self, poll: Poll, most: int) -> int:
        """With further paths of the mean weight so far."""
        first, _, total = poll.lead() or (0.0, 0.0, 0.0)
        each = total / max(1, len(poll.ballots)) or 1.0
        return fewest_votes(most, lambda more: first + more * each >= self.tau * (total + more * each))

    def why(self, poll: Poll) -> str:
        """The share against tau."""
        measured = self.measure(poll)
        if measured is None:
            return "Nobody has voted."
        return f"The leader holds {measured:.1%} of the vote weight; it stops at {self.tau:.0%}."


@dataclass(frozen=True, slots=True)
class Unanimous:
    """Early-stopping self-consistency: a whole window of paths, by their numbers, gave one answer."""

    batch: int = option(5, "paths in a window that must agree", COUNT)
    counts_paths: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    def __call__(self, poll: Poll) -> bool:
        """The window of the path counted last; all, where answers were regrouped and may unite an earlier one."""
        if poll.last is not None:
            return self._agrees(poll, poll.last - poll.last % self.batch, self.batch)
        windows = range(0, max(poll.outcomes, default=-1) + 1, self.batch)
        return any(self._agrees(poll, first, self.batch) for first in windows)

    def _agrees(self, poll: Poll, first: int, size: int) -> bool:
        if poll.counted < size:
            return False
        answers = {poll.outcomes.get(path) for path in range(first, first + size)}
        return len(answers) == 1 and None not in answers

    def measure(self, poll: Poll) -> float | None:
        """A window agrees or it does not."""
        return None

    def need(self, poll: Poll, most: int) -> int:
        """The rest of this window, and a whole one more where this one is split already."""
        begun = poll.counted % self.batch
        rest = self.batch - begun
        united = begun == 0 or self._agrees(poll, poll.counted - begun, begun)
        return min(most, rest if united else rest + self.batch)

    def why(self, poll: Poll) -> str:
        """Whether a window agreed."""
        found = "A" if self(poll) else "No"
        return f"{found} window of {self.batch} paths, by their numbers, gave one and the same answer."
