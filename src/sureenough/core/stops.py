"""Stop rules: asked after every counted path whether the answer is settled.

A rule measures the poll and compares with its bar; `measure` is what progress displays draw.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from scipy.special import betainc

from sureenough.core.options import COUNT, PROBABILITY, SHARE, check, option
from sureenough.core.votes import Lead, Poll


class StopRule(Protocol):
    """Says when a poll is settled."""

    def __call__(self, poll: Poll) -> bool: ...

    def measure(self, poll: Poll) -> float | None:
        """The quantity that the rule watches, where it has one."""


@dataclass(frozen=True, slots=True)
class Never:
    """The budget decides."""

    def __call__(self, poll: Poll) -> bool:  # noqa: ARG002
        """No."""
        return False

    def measure(self, poll: Poll) -> float | None:  # noqa: ARG002
        """Nothing is watched."""
        return None


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

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, poll: Poll) -> bool:
        """Strictly above tau."""
        measured = self.measure(poll)
        return measured is not None and measured > self.tau

    def measure(self, poll: Poll) -> float | None:
        """1 - I_gamma(1 + weight of the leader, 1 + weight of all the others)."""
        lead = poll.lead() if self.weighted else poll.heads()
        if lead is None:
            return None
        return exceeds_share(1.0 + lead.first, 1.0 + (lead.total - lead.first), self.gamma)


@dataclass(frozen=True, slots=True)
class TwoLargest:
    """Adaptive-consistency: the most frequent answer beats the next one, with probability tau or more."""

    tau: float = option(0.95, "probability at which sampling stops", PROBABILITY)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, poll: Poll) -> bool:
        """At tau or above."""
        measured = self.measure(poll)
        return measured is not None and measured >= self.tau

    def measure(self, poll: Poll) -> float | None:
        """1 - I_0.5(v1 + 1, v2 + 1) over the two largest counts."""
        lead = poll.heads()
        return None if lead is None else exceeds_share(lead.first + 1.0, lead.second + 1.0, 0.5)


@dataclass(frozen=True, slots=True)
class Share:
    """DeepConf: the leader holds tau of the weight or more."""

    tau: float = option(0.95, "share of the vote weight at which sampling stops", PROBABILITY)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, poll: Poll) -> bool:
        """At tau or above."""
        measured = self.measure(poll)
        return measured is not None and measured >= self.tau

    def measure(self, poll: Poll) -> float | None:
        """Weight of the leader over all weight."""
        lead: Lead | None = poll.lead()
        return lead.first / lead.total if lead is not None and lead.total > 0.0 else None


@dataclass(frozen=True, slots=True)
class Unanimous:
    """Early-stopping self-consistency: a whole window of paths, by their numbers, gave one answer."""

    batch: int = option(5, "paths in a window that must agree", COUNT)

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, poll: Poll) -> bool:
        """Any whole window will do: answers regrouped late may unite an earlier one."""
        windows = range(0, max(poll.outcomes, default=-1) + 1, self.batch)
        return any(self._agrees(poll, first) for first in windows)

    def _agrees(self, poll: Poll, first: int) -> bool:
        answers = {poll.outcomes.get(path) for path in range(first, first + self.batch)}
        return len(answers) == 1 and None not in answers

    def measure(self, poll: Poll) -> float | None:  # noqa: ARG002
        """A window agrees or it does not."""
        return None
