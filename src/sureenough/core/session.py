"""The scheduler: it receives events and returns actions (what to start, to cancel, and when to stop), and does no I/O.

Votes are counted in order of start, so that any number of paths at once gives the answer of one at a time. Drivers for
live engines, recorded paths and tests all loop over `receive`; observers see `snapshot()`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from sureenough.core.events import (
    Action,
    Cancel,
    Computed,
    Ended,
    Event,
    Expired,
    Extended,
    Fate,
    Reason,
    Regrouped,
    Sampled,
    Stop,
    Tokens,
)
from sureenough.core.learning import LearnerState
from sureenough.core.options import DEFAULT_WINDOW, RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.path import PathState
from sureenough.core.pruning import Tier
from sureenough.core.snapshot import Phase, Snapshot, SnapshotCache
from sureenough.core.started_paths import StartedPaths
from sureenough.core.strategy import Strategy
from sureenough.core.vote_count import VoteCount
from sureenough.errors import ProtocolError, UsageError

TRANSITIONS: Final = {
    Phase.NEW: (Phase.WARMUP, Phase.SAMPLING, Phase.STOPPED),  # begin(), with or without a warm-up; or Expired
    Phase.WARMUP: (Phase.SAMPLING, Phase.STOPPED),  # its last path ended: calibrate; or budget, cap, Expired
    Phase.SAMPLING: (Phase.STOPPED,),  # the vote is settled; or budget, cap, Expired
    Phase.STOPPED: (),  # later tokens are overrun, other events change nothing
}


class Session:
    """One question, one strategy, one budget."""

    def __init__(
        self,
        strategy: Strategy,
        options: RunOptions,
        *,
        longest_window: int = DEFAULT_WINDOW,
        gives_up: bool = False,
        learned: Mapping[int, LearnerState] | None = None,
    ) -> None:
        """Without a window in the options, the first paths choose one; `gives_up`: end if they give no answer.

        `learned` has what earlier runs have learned, by their window; the strategy uses the state of its own.
        """
        if options.paths is None:
            raise UsageError("a session needs a budget: RunOptions(paths=…)")
        if strategy.search is not None:
            strategy.search.check()
            options = replace(options, paths=min(options.paths, strategy.search.runs))
        options.check_budget(strategy)
        self._phase, self._snapshots = Phase.NEW, SnapshotCache()
        self._stop: Stop | None = None
        self._votes = VoteCount(strategy, options, longest_window, learned, self._snapshots.changed, gives_up=gives_up)
        self._paths = StartedPaths(self._votes, self._snapshots.changed)

    @property
    def strategy(self) -> Strategy:
        """The strategy, with what earlier runs have learned once the window is known."""
        return self._votes.strategy

    @property
    def options(self) -> RunOptions:
        """The options, with the window once it is known."""
        return self._votes.options

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._phase is Phase.STOPPED

    def begin(self) -> list[Action]:
        """The first paths to start."""
        if self._phase is not Phase.NEW:
            raise ProtocolError("begin() was called twice")
        self._enter(Phase.WARMUP if self.strategy.warmup else Phase.SAMPLING)
        self._votes.sampling = not self.strategy.warmup
        return self._start_paths()

    def receive(self, event: Event) -> list[Action]:
        """Take in an event; what to do about it."""
        if self._phase is Phase.NEW and not isinstance(event, Regrouped | Expired):
            raise ProtocolError("receive() before begin()")
        if isinstance(event, Tokens):
            return self._on_tokens(self._paths.get(event.path), event)
        if isinstance(event, Ended):
            return self._on_ended(self._paths.get(event.path), event)
        if isinstance(event, Sampled | Extended | Computed):
            return self._paths.search(self._paths.get(event.path), event) or self._at_cap()
        if not isinstance(event, Regrouped | Expired):
            raise ProtocolError(f"not an event: {event!r}")
        if self.done:
            return []
        if isinstance(event, Expired):
            return self._finish(event.reason)
        self._votes.regroup(event)
        return [] if self._phase is Phase.NEW else self._advance()

    def _enter(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self._phase]:
            raise ProtocolError(f"no transition from {self._phase.value} to {phase.value}")
        self._phase = phase

    # -- events

    def _on_tokens(self, path: PathState, event: Tokens) -> list[Action]:
        self._paths.grow(path, event.tokens, event.unread)
        if path.tier is not None and path.fate is None:
            return [Cancel(path.number, Fate.PRUNED), *self._end_path(path, Fate.PRUNED)]
        return self._at_cap()

    def _on_ended(self, path: PathState, event: Ended) -> list[Action]:
        _, fate, answer, summary, tokens = event
        running = path.fate is None
        if tokens:
            beyond_cap = len(tokens) > self._paths.room
            self._paths.grow(path, tokens)
            if running and path.tier is not None:
                return self._end_path(path, Fate.PRUNED)
            if beyond_cap:
                return self._at_cap()
        if summary is not None:
            self._paths.reconcile(path, summary)
        if not running or self._paths.room < 0:
            return self._at_cap()
        path.answer = answer
        if fate is Fate.KEPT:
            self._votes.take_confidence(path, summary)
        elif fate is Fate.PRUNED:
            path.tier = (summary.tier if summary else None) or Tier.DROP
        return self._end_path(path, fate)

    def _end_path(self, path: PathState, fate: Fate) -> list[Action]:
        self._paths.end(path, fate)
        return self._advance()

    # -- decisions

    def _advance(self) -> list[Action]:
        """Count what can be counted; then stop, or start what may run."""
        votes = self._votes
        request = votes.advance()
        if votes.sampling and self._phase is Phase.WARMUP:
            self._enter(Phase.SAMPLING)
        if votes.settled:
            return self._finish("settled")
        if votes.silent:
            return self._finish("no_answer")
        if self._paths.room <= 0:
            return self._finish("max_tokens")
        return [*request, *self._start_paths()]

    def _start_paths(self) -> list[Action]:
        """Start what may run; the run ends if nothing runs and nothing may start."""
        starts = self._paths.start_more()
        return starts if self._paths.running or self._votes.classifying else self._finish("budget")

    def _at_cap(self) -> list[Action]:
        return self._finish("max_tokens") if self._paths.room <= 0 and not self.done else []

    def _finish(self, reason: Reason) -> list[Action]:
        self._votes.close()
        cancels = self._paths.discard()
        self._snapshots.clear()
        self._stop = Stop(self._votes.poll.winner(), reason)
        self._enter(Phase.STOPPED)
        return [*cancels, self._stop]

    # -- results

    def snapshot(self) -> Snapshot:
        """The session at this moment, as frozen values."""
        paths, votes = self._snapshots.take(self._paths.all, self._votes.poll, self.strategy.stop)
        gate, steps = self._votes.gate, self._paths.steps
        return Snapshot(self.strategy, self.options, self._phase, paths, votes, gate, steps, self._stop)

    def outcome(self) -> Outcome:
        """The result, once the run has ended."""
        if self._stop is None:
            raise ProtocolError("outcome() before the run has ended")
        return self._votes.outcome(self._stop, self._paths.steps)
