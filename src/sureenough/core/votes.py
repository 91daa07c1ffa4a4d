"""Ballots, their weights, and the poll that stop rules and the final vote are asked on."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, Protocol

from sureenough.core.events import Answer
from sureenough.core.options import check, one_of, option


class Ballot(NamedTuple):
    """One path's vote."""

    path: int
    answer: Answer
    lowest: float  # C_path
    tail: float  # group conf of its last window


class Weigh(Protocol):
    """How much ballots weigh. `settled`: a ballot's weight, once warm-up is over, never changes again."""

    @property
    def settled(self) -> bool: ...

    @property
    def reads(self) -> bool:
        """Whether it reads confidence at all."""

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """A weight for every ballot; `warmup` holds C_path of the warm-up paths, abstaining ones too."""


@dataclass(frozen=True, slots=True)
class ByCount:
    """Every ballot weighs 1."""

    settled: bool = True
    reads: bool = False

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:  # noqa: ARG002
        """Ones."""
        return [1.0] * len(ballots)


@dataclass(frozen=True, slots=True)
class ByLowest:
    """A ballot weighs its path's C_path, its lowest group confidence."""

    settled: bool = True
    reads: bool = True

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:  # noqa: ARG002
        """C_path as it is."""
        return [ballot.lowest for ballot in ballots]


@dataclass(frozen=True, slots=True)
class ByConfidence:
    """A ballot weighs its path's C_path: raw, or on the scale of the warm-up paths."""

    weight: str = option("raw", "C_path as it is, over the warm-up's mean, or its maximum",
                         one_of("raw", "mean", "unit"))  # fmt: skip
    settled: bool = True
    reads: bool = True

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, ballots: Sequence[Ballot], warmup: Sequence[float]) -> Sequence[float]:
        """C_path, divided where asked; 1 where there is nothing to divide by."""
        if self.weight == "raw":
            return [ballot.lowest for ballot in ballots]
        mean = sum(warmup) / len(warmup) if warmup else 0.0
        scale = mean if self.weight == "mean" else max(warmup, default=0.0)
        if scale == 0.0:
            return [1.0] * len(ballots)
        if self.weight == "mean":
            return [ballot.lowest / scale for ballot in ballots]
        return [min(1.0, ballot.lowest / scale) for ballot in ballots]


by_count: Final = ByCount()


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
        self.warmup: list[float] = []
        self._weigh = weigh
        self._classes: Mapping[Answer, Hashable] = {}
        self._candidates: dict[Hashable, _Candidate] = {}

    @property
    def counted(self) -> int:
        """Paths counted, with a vote or without."""
        return len(self.outcomes)

    def add(self, path: int, ballot: Ballot | None) -> None:
        """Count one path."""
        self.outcomes[path] = None if ballot is None else self._class(ballot.answer)
        if ballot is None:
            return
        self.ballots.append(ballot)
        if self._weigh.settled:
            self._enter(ballot, self._weigh([ballot], self.warmup)[0])
        else:
            self._reweigh()

    def regroup(self, classes: Mapping[Answer, Hashable]) -> None:
        """Other answers mean the same now: form the candidates anew."""
        self._classes = classes
        for ballot in self.ballots:
            self.outcomes[ballot.path] = self._class(ballot.answer)
        self._reweigh()

    def lead(self) -> Lead | None:
        """The lead by weight; None while nobody has voted."""
        return self._lead([candidate.weight for candidate in self._candidates.values()])

    def heads(self) -> Lead | None:
        """The lead by number of paths."""
        return self._lead([candidate.heads for candidate in self._candidates.values()])

    def winner(self) -> Answer | None:
        """The heaviest answer; among equals the one of the lowest-numbered path."""
        return next(iter(self.votes()), None)

    def votes(self) -> dict[Answer, float]:
        """Weight by answer, heaviest first."""
        ranked = sorted(self._candidates.values(), key=lambda c: (-c.weight, c.path))
        return {candidate.answer: candidate.weight for candidate in ranked}

    def _class(self, answer: Answer) -> Hashable:
        return self._classes.get(answer, answer)

    def _enter(self, ballot: Ballot, weight: float) -> None:
        key = self._class(ballot.answer)
        candidate = self._candidates.get(key)
        if candidate is None:
            candidate = self._candidates[key] = _Candidate(ballot)
        elif ballot.path < candidate.path:
            candidate.path, candidate.answer = ballot.path, ballot.answer
        candidate.heads += 1
        candidate.weight += weight

    def _reweigh(self) -> None:
        self._candidates = {}
        for ballot, weight in zip(self.ballots, self._weigh(self.ballots, self.warmup), strict=True):
            self._enter(ballot, weight)

    @staticmethod
    def _lead(values: Sequence[float]) -> Lead | None:
        if len(values) < 2:
            return Lead(values[0], 0.0, values[0]) if values else None
        second, first = sorted(values)[-2:]
        return Lead(first, second, sum(values))
