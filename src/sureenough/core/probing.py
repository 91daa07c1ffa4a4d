"""Probes: a running path is asked for its answer now, and one that repeats its answer often enough ends there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from sureenough.core.learning import LearnerState
from sureenough.core.strategy_options import COUNT, FLAG, HasOptions, option

LONGEST_PROBE: Final = 24
"""Tokens that a probe may take."""


class ProbeReply(NamedTuple):
    """What a path gave as its answer so far."""

    answer: str | None = None
    tokens: int = 0  # generated for it
    hedged: bool = False  # the words after the answer take it back

    def within(self, limit: int) -> ProbeReply:
        """The reply under a limit of tokens; one that was cut has no answer."""
        return self if self.tokens <= limit else ProbeReply(None, limit)


@dataclass(frozen=True, slots=True)
class ProbeRule(HasOptions):
    """When a path is probed, and which replies end it. Answers agree if they are the same text."""

    every: int = option(64, "tokens of a path between two probes", COUNT)
    agree: int = option(3, "probes in a row that must give the same answer, without hedging, to end a path", COUNT)
    votes: bool = option(False, "1: the latest probes of running paths vote too, as far as they proved right", FLAG)
    state: LearnerState = field(default=LearnerState(), compare=False)

    def place(self, replies: Sequence[ProbeReply]) -> int:
        """The tokens of a path after which its next probe comes, once these were answered."""
        return self.every * (len(replies) + 1)

    def settles(self, replies: Sequence[ProbeReply]) -> bool:
        """Whether the latest replies end the path."""
        latest = replies[-self.agree :]
        answers = {None if reply.hedged else reply.answer for reply in latest}
        return len(latest) == self.agree and len(answers) == 1 and None not in answers

    def settled_after(self, replies: Sequence[ProbeReply]) -> int | None:
        """How many of a path's replies it takes to end it; None if they do not."""
        return next((n for n in range(self.agree, len(replies) + 1) if self.settles(replies[:n])), None)
