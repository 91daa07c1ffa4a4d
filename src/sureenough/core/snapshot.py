"""What observers and displays may see of a session: frozen values, safe to keep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from sureenough.core.events import Answer, Fate, Stop
from sureenough.core.options import SMALLEST_WINDOW, RunOptions
from sureenough.core.path import PathState
from sureenough.core.poll import Poll
from sureenough.core.pruning import Gate, Tier
from sureenough.core.stop_rules import StopRule, describe_measure
from sureenough.core.strategy import Strategy


class Phase(Enum):
    """The phases of a session; `session.TRANSITIONS` lists what may follow what."""

    NEW = "new"
    WARMUP = "warm-up"  # the first paths run to their end; nothing is counted or pruned
    SAMPLING = "sampling"  # paths are watched, votes are counted, the stop rule is tested
    STOPPED = "stopped"


class PathSnapshot(NamedTuple):
    """One path."""

    number: int
    warmup: bool
    tokens: int
    overrun: int
    fate: Fate | None  # None while it runs
    tier: Tier | None
    answer: Answer | None
    counted: bool
    search_tokens: int = 0
    ended_uncounted: bool = False  # discarded, but not cancelled

    @classmethod
    def of(cls, path: PathState) -> PathSnapshot:
        return cls(*(getattr(path, name) for name in cls._fields))


@dataclass(frozen=True, slots=True)
class VoteSnapshot:
    """The votes counted so far, and what the stop rule makes of them."""

    weights: Mapping[Answer, float]  # weight by answer, heaviest first
    candidates: Mapping[int, Answer]  # the answer that each voting path's candidate is named by
    counted: int  # paths counted, with a vote or without
    measure: float | None  # what the stop rule measured
    why: str  # the same in a sentence
    posterior: float | None = None  # probability that the leader leads, every path one vote

    @classmethod
    def of(cls, poll: Poll, stop: StopRule) -> VoteSnapshot:
        why = stop.why(poll) if poll.counted else ""
        return cls(poll.votes(), poll.candidates(), poll.counted, stop.measure(poll), why, stop.posterior(poll))


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A session at one moment."""

    strategy: Strategy
    options: RunOptions
    phase: Phase
    paths: tuple[PathSnapshot, ...]
    votes: VoteSnapshot
    gate: Gate
    steps: int  # the longest chain of tokens generated one after another
    stop: Stop | None  # once the run has ended

    @property
    def budget(self) -> int:
        """The most paths that may be started."""
        return self.options.paths or len(self.paths)

    @property
    def window(self) -> int:
        """Tokens per window; before it is chosen, the smallest that may be."""
        return self.options.window or SMALLEST_WINDOW

    @property
    def generated(self) -> int:
        """All tokens so far."""
        return sum(path.tokens + path.overrun + path.search_tokens for path in self.paths)

    def measured(self) -> str | None:
        """What the stop rule measured, for people; None before the first vote."""
        votes = self.votes
        if votes.measure is None:
            return None
        return describe_measure(votes.measure, self.strategy.stop.quantity, votes.posterior)

    def full_budget_tokens(self) -> float | None:
        """About what the whole budget would take, from the paths that ran to their end; None before the first."""
        whole = [path.tokens for path in self.paths if path.fate is Fate.KEPT]
        return self.budget * sum(whole) / len(whole) if whole else None


class SnapshotCache:
    """Makes snapshots cheap: only what changed since the last one is built anew."""

    def __init__(self) -> None:
        self._paths: list[PathSnapshot] = []
        self._changed: set[int] = set()
        self.changed = self._changed.add  # a path is different now
        self._votes: tuple[int, VoteSnapshot] | None = None  # of this version of the poll

    def clear(self) -> None:
        """Everything is different now."""
        self._paths.clear()
        self._changed.clear()
        self._votes = None

    def take(
        self, paths: Sequence[PathState], poll: Poll, stop: StopRule
    ) -> tuple[tuple[PathSnapshot, ...], VoteSnapshot]:
        """All paths and votes as they are now."""
        for number in self._changed:
            if number < len(self._paths):
                self._paths[number] = PathSnapshot.of(paths[number])
        self._changed.clear()
        self._paths += [PathSnapshot.of(path) for path in paths[len(self._paths) :]]
        if self._votes is None or self._votes[0] != poll.version:
            self._votes = poll.version, VoteSnapshot.of(poll, stop)
        return tuple(self._paths), self._votes[1]
