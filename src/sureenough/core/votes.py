"""The poll: everything counted so far, asked by stop rules and by the final vote."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import NamedTuple

from sureenough.core.events import Answer
from sureenough.core.weights import Ballot, Weigh, standardised


class Lead(NamedTuple):
    """The two heaviest candidates and the whole."""

    first: float
    second: float
    total: float


class _Candidate:
    __slots__ = ("answer", "heads", "path", "weight")

    def __init__(self, ballot: Ballot) -> None:
        self.path, self.answer = ballot.path, ballot.answer
        self.heads, self.weight = 0, 0.0


class Poll:
    """Everything counted so far. A candidate is a class of answers, named by its lowest-numbered path."""

    def __init__(self, weigh: Weigh, budget: int) -> None:
        self.budget = budget
        self.ballots: list[Ballot] = []
        self.outcomes: dict[int, Hashable | None] = {}  # path -> its candidate, None where it has no vote
        self.last: int | None = None  # the path counted last; None where the candidates were formed anew since
        self.warmup: list[float] = []
        self._weigh = weigh
        self._classes: Mapping[Answer, Hashable] = {}
        self._candidates: dict[Hashable, _Candidate] = {}
        self._owners: list[_Candidate] = []  # each ballot's candidate
        self._stale = False

    @property
    def counted(self) -> int:
        """Paths counted, with a vote or without."""
        return len(self.outcomes)

    def add(self, path: int, ballot: Ballot | None) -> None:
        """Count one path."""
        self.last = path
        self.outcomes[path] = None if ballot is None else self._class(ballot.answer)
        if ballot is None:
            return
        self.ballots.append(ballot)
        candidate = self._enter(ballot)
        if self._weigh.settled:
            candidate.weight += self._weigh([ballot], self.warmup)[0]
        else:
            self._stale = True  # every weight may have moved; worked out when somebody asks

    def regroup(self, classes: Mapping[Answer, Hashable]) -> None:
        """Other answers mean the same now: form the candidates anew."""
        self.last = None
        self._classes = classes
        self._candidates, self._owners = {}, []
        for ballot in self.ballots:
            self.outcomes[ballot.path] = self._class(ballot.answer)
            self._enter(ballot)
        self._stale = True

    def lead(self) -> Lead | None:
        """The lead by weight; None while nobody has voted."""
        return _lead([candidate.weight for candidate in self._weighed()])

    def heads(self) -> Lead | None:
        """The lead by number of paths."""
        return _lead([candidate.heads for candidate in self._candidates.values()])

    def winner(self) -> Answer | None:
        """The heaviest answer; among equals the one of the lowest-numbered path."""
        return next(iter(self.votes()), None)

    def votes(self) -> dict[Answer, float]:
        """Weight by answer, heaviest first."""
        ranked = sorted(self._weighed(), key=lambda c: (-c.weight, c.path))
        return {candidate.answer: candidate.weight for candidate in ranked}

    def _class(self, answer: Answer) -> Hashable:
        return self._classes.get(answer, answer)

    def agreement(self) -> float | None:
        """How far confidence goes with agreement: the correlation of tails with leave-one-out agreement.

        None with fewer than six votes, or where all are equally confident or all in agreement.
        """
        n = len(self.ballots)
        others = standardised([(owner.heads - 1) / (n - 1) for owner in self._owners]) if n >= 6 else None
        scores = standardised([ballot.tail for ballot in self.ballots])
        if others is None or scores is None:
            return None
        return sum(a * b for a, b in zip(scores, others, strict=True)) / n

    def _enter(self, ballot: Ballot) -> _Candidate:
        key = self._class(ballot.answer)
        candidate = self._candidates.get(key)
        if candidate is None:
            candidate = self._candidates[key] = _Candidate(ballot)
        elif ballot.path < candidate.path:
            candidate.path, candidate.answer = ballot.path, ballot.answer
        candidate.heads += 1
        self._owners.append(candidate)
        return candidate

    def _weighed(self) -> Sequence[_Candidate]:
        """The candidates, with their weights up to date."""
        candidates = list(self._candidates.values())
        if self._stale:
            for candidate in candidates:
                candidate.weight = 0.0
            for owner, weight in zip(self._owners, self._weigh(self.ballots, self.warmup), strict=True):
                owner.weight += weight
            self._stale = False
        return candidates


def _lead(values: Sequence[float]) -> Lead | None:
    if len(values) < 2:
        return Lead(values[0], 0.0, values[0]) if values else None
    second, first = sorted(values)[-2:]
    return Lead(first, second, sum(values))
