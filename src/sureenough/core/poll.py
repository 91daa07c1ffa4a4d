"""The votes counted so far: read by stop rules, by displays and by the final vote."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import NamedTuple

from sureenough.core.events import Answer
from sureenough.core.weights import FEWEST_VOTES, SIGNALS, Ballot, Weigh, correlation


class Lead(NamedTuple):
    """The two heaviest candidates and the total."""

    first: float
    second: float
    total: float


class Standing(NamedTuple):
    """Of one answer."""

    votes: float
    rival: float  # the most votes for another answer
    position: int  # among the distinct answers, by first appearance: 1 for the first


@dataclass(slots=True)
class _Candidate:
    """A class of answers, named by its lowest-numbered path."""

    path: int
    answer: Answer
    count: float = 0.0
    weight: float = 0.0


class Poll:
    """Ballots, grouped into candidates and weighed."""

    def __init__(self, weigh: Weigh, budget: int) -> None:
        self.budget = budget
        self.ballots: list[Ballot] = []
        self.outcomes: dict[int, Hashable | None] = {}  # path -> its candidate, None for a path without a vote
        self.last: int | None = None  # the path counted last; None if the candidates were formed anew since
        self.warmup: list[float] = []  # C_path of the warm-up paths
        self._weigh = weigh
        self._classes: Mapping[Answer, Hashable] | None = None
        self._candidates: dict[Hashable, _Candidate] = {}
        self._owners: list[_Candidate] = []  # each ballot's candidate
        self._stale = False  # weights must be computed anew

    @property
    def counted(self) -> int:
        """Paths counted, with a vote or without."""
        return len(self.outcomes)

    @property
    def voting(self) -> int:
        """Paths with a vote."""
        return len(self.ballots)

    def knows(self, answer: Answer) -> bool:
        """Whether the class of this answer is known."""
        return self._classes is None or answer in self._classes

    def add(self, path: int, ballot: Ballot | None) -> None:
        """Count a path; without a ballot it abstains."""
        self.last = path
        if ballot is None:
            self.outcomes[path] = None
            return
        self.ballots.append(ballot)
        candidate = self._assign(ballot)
        if self._weigh.settled:
            candidate.weight += self._weigh([ballot], self.warmup)[0]
        else:
            self._stale = True  # every weight may have changed

    def copy(self) -> Poll:
        """Another poll with the same votes."""
        other = Poll(self._weigh, self.budget)
        other.warmup, other._classes = self.warmup, self._classes
        ballots = {ballot.path: ballot for ballot in self.ballots}
        for path in self.outcomes:
            other.add(path, ballots.get(path))
        return other

    def add_for_leader(self) -> None:
        """Count an imagined path that votes for the leader, with the mean confidence of the votes so far."""
        path = max(self.outcomes, default=-1) + 1
        values = [[getattr(ballot, name) for ballot in self.ballots] or [1.0] for name in Ballot._fields[2:]]
        self.add(path, Ballot(path, self.winner() or "", *map(fmean, values)))

    def regroup(self, classes: Mapping[Answer, Hashable]) -> None:
        """Form the candidates anew: other answers mean the same now."""
        self.last = None
        self._classes = classes
        self._candidates, self._owners = {}, []
        for ballot in self.ballots:
            self._assign(ballot)
        self._stale = True

    def lead_by_weight(self) -> Lead | None:
        """None before the first vote."""
        return _lead([candidate.weight for candidate in self._weighed()])

    def lead_by_count(self) -> Lead | None:
        """The lead with every path counted as 1; None before the first vote."""
        return _lead([candidate.count for candidate in self._candidates.values()])

    def standing(self, answer: Answer | None = None) -> Standing:
        """How an answer stands by counts; by default the one with the most votes, among equals the first."""
        counts = {one.answer: one.count for one in self._candidates.values()}
        if not counts:
            return Standing(0.0, 0.0, 1)
        answer = max(counts, key=counts.__getitem__) if answer is None else answer
        most = max((count for other, count in counts.items() if other != answer), default=0.0)
        return Standing(counts[answer], most, 1 + list(counts).index(answer))

    def winner(self) -> Answer | None:
        """The heaviest answer; among equals the one of the lowest-numbered path."""
        return next(iter(self.votes()), None)

    def votes(self) -> dict[Answer, float]:
        """Weight by answer, heaviest first."""
        ranked = sorted(self._weighed(), key=lambda c: (-c.weight, c.path))
        return {candidate.answer: candidate.weight for candidate in ranked}

    def candidates(self) -> dict[int, Answer]:
        """For every path with a vote, the answer that its candidate is named by."""
        return {ballot.path: owner.answer for ballot, owner in zip(self.ballots, self._owners, strict=True)}

    def voting_for(self, answer: Answer | None) -> int:
        """Paths whose vote is for this candidate."""
        return sum(owner.answer == answer for owner in self._owners)

    def groups(self) -> tuple[tuple[Answer, ...], ...]:
        """The answers that were counted as one, as they were written; in order of the candidates' first votes."""
        written: dict[int, dict[Answer, None]] = {}
        for ballot, owner in zip(self.ballots, self._owners, strict=True):
            written.setdefault(id(owner), {})[ballot.answer] = None
        return tuple(map(tuple, written.values()))

    def correlations(self) -> dict[str, float]:
        """How far each signal goes with a vote for the leader instead of the runner-up, by counts.

        Votes for other answers are left out: they are less confident, whichever of the two is right. A question whose
        two are level or have fewer than five votes tells nothing, nor does a signal that does not vary.
        """
        leaders = sorted(self._candidates.values(), key=lambda one: -one.count)[:2]
        counts = [one.count for one in leaders]
        if sum(counts) < FEWEST_VOTES or len(set(counts)) < 2:
            return {}
        voters = [
            [one for one, owner in zip(self.ballots, self._owners, strict=True) if owner is two] for two in leaders
        ]
        votes, for_first = [*voters[0], *voters[1]], [1.0] * len(voters[0]) + [0.0] * len(voters[1])
        values = {name: correlation([getattr(one, name) for one in votes], for_first) for name in SIGNALS}
        return {name: value for name, value in values.items() if value is not None}

    def _class(self, answer: Answer) -> Hashable:
        return answer if self._classes is None else self._classes.get(answer, answer)

    def _assign(self, ballot: Ballot) -> _Candidate:
        key = self.outcomes[ballot.path] = self._class(ballot.answer)
        candidate = self._candidates.get(key)
        if candidate is None:
            candidate = self._candidates[key] = _Candidate(ballot.path, ballot.answer)
        elif ballot.path < candidate.path:
            candidate.path, candidate.answer = ballot.path, ballot.answer
        candidate.count += 1
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
