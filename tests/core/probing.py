"""Recorded paths with probes, and strategies in which these vote."""

from __future__ import annotations

from dataclasses import replace

from sureenough.core.learning import LearnerState
from sureenough.core.probe_agreement import ProbeAgreement
from sureenough.core.probing import ProbeReply, ProbeRule
from sureenough.core.strategy import Strategy
from sureenough.pools import RecordedPath, RecordedProbe
from sureenough.strategies import STRATEGIES

EVERY = 4


def known(rate: float, length: float = 20.0, questions: int = 9996) -> LearnerState:
    """A state in which this share of probes was right at every depth, with the prior."""
    share = (rate * (questions + 4) - 2) / questions
    sums = (share * questions,) * 10
    return LearnerState(questions, probes=ProbeAgreement(sums, (questions,) * 10, length * questions, questions))


def voting(name: str = "ac", state: LearnerState | None = None, agree: int = 999) -> Strategy:
    strategy = replace(STRATEGIES[f"{name}+probe"], probe=ProbeRule(EVERY, agree, votes=True))
    return strategy.with_state(state or known(0.95))


def path(answer: str | None, tokens: int, *replies: str | None) -> RecordedPath:
    """A path that answers its probes one after another with these; with the last one to further probes."""
    places = range(EVERY, tokens, EVERY)
    given = [*replies, *[replies[-1] if replies else None] * len(places)]
    probes = tuple(RecordedProbe(at, ProbeReply(reply, 3)) for at, reply in zip(places, given, strict=False))
    return RecordedPath(answer, [0.9] * tokens, [9.0] * tokens, probes=probes)
