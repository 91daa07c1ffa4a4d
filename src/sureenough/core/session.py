"""The scheduler: it receives events and returns actions (what to start, to cancel, and when to stop), and does no I/O.

Votes are counted in order of start, so that any number of paths at once gives the answer of one at a time. Drivers for
live engines, recorded paths and tests all loop over `receive`; observers see `snapshot()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf
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
    Probe,
    Probed,
    Reason,
    Regrouped,
    Sampled,
    Start,
    Stop,
    Token,
    Tokens,
    path_seed,
)
from sureenough.core.expected_gain import gain_of_paths
from sureenough.core.learning import LearnerState
from sureenough.core.options import DEFAULT_WINDOW, RunOptions
from sureenough.core.outcome import Outcome, build_outcome
from sureenough.core.path import PathState
from sureenough.core.path_search import PathSearch
from sureenough.core.probing import LONGEST_PROBE
from sureenough.core.pruning import Tier
from sureenough.core.search import Growth
from sureenough.core.snapshot import Phase, Snapshot, SnapshotCache
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
        self._gives_up = gives_up
        self._budget = options.paths or 1
        self._max_tokens = inf if options.max_tokens is None else options.max_tokens
        self._reads, self._probe_rule = strategy.reads_confidence, strategy.probe
        self._phase = Phase.NEW
        self._paths: list[PathState] = []
        self._running = 0
        self._generated = 0  # all tokens
        self._steps = 0  # the longest chain of tokens generated one after another
        self._stop: Stop | None = None
        self._snapshots = SnapshotCache()
        self._votes = VoteCount(strategy, options, self._paths, longest_window, learned, self._snapshots.changed)

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

    @property
    def generated(self) -> int:
        """All tokens so far."""
        return self._generated

    @property
    def _room(self) -> float:
        """What is left of the cap on tokens."""
        return self._max_tokens - self._generated

    def gain_of_paths(self, paths: int) -> float:
        """Expected vote share gained by so many further paths."""
        return gain_of_paths(self._votes.poll, paths)

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
            return self._on_tokens(self._path(event.path), event)
        if isinstance(event, Ended):
            return self._on_ended(self._path(event.path), event)
        if isinstance(event, Probed):
            return self._on_probed(self._path(event.path), event)
        if isinstance(event, Sampled):
            return self._on_sampled(self._path(event.path), event)
        if isinstance(event, Extended | Computed):
            return self._on_searched(self._path(event.path), event)
        if not isinstance(event, Regrouped | Expired):
            raise ProtocolError(f"not an event: {event!r}")
        if self.done:
            return []
        return self._finish(event.reason) if isinstance(event, Expired) else self._on_regrouped(event)

    def _enter(self, phase: Phase) -> None:
        if phase not in TRANSITIONS[self._phase]:
            raise ProtocolError(f"no transition from {self._phase.value} to {phase.value}")
        self._phase = phase

    def _path(self, number: int) -> PathState:
        if not 0 <= number < len(self._paths):
            raise ProtocolError(f"path {number} was never started; {len(self._paths)} paths were")
        self._snapshots.changed(number)
        return self._paths[number]

    # -- events

    def _on_tokens(self, path: PathState, event: Tokens) -> list[Action]:
        due = False
        if self._probe_rule is not None and path.fate is None:
            if path.hold(event):
                return []
            event, due = path.cut_at_probe(event, self._probe_rule.every)
        self._grow(path, event.tokens, event.unread)
        if path.tier is not None and path.fate is None:
            return [Cancel(path.number, Fate.PRUNED), *self._end_path(path, Fate.PRUNED)]
        if not due or self._room <= 0:
            return self._at_cap()
        return [Probe(path.number, path.tokens, int(min(LONGEST_PROBE, self._room)))]

    def _on_probed(self, path: PathState, event: Probed) -> list[Action]:
        path.take_reply(event.reply)
        self._generated += event.reply.tokens
        if path.fate is not None or self._probe_rule is None:
            return self._at_cap()
        decides = self._votes.by_probes is None or not self._votes.by_probes.only_learns
        if decides and self._probe_rule.settles(path.replies):
            path.answer, path.by_probe = event.reply.answer, True
            self._votes.take_confidence(path, None)
            return [Cancel(path.number, Fate.KEPT), *self._end_path(path, Fate.KEPT)]
        actions = list[Action]()
        if self._votes.by_probes is not None:  # the vote of a path that is still running may settle the run
            self._votes.by_probes.probed(path)
            actions = self._advance()
        held = path.release() if self._generated < self._max_tokens and not self.done else []
        return [*actions, *(action for later in held for action in self.receive(later))] or self._at_cap()

    def _on_sampled(self, path: PathState, event: Sampled) -> list[Action]:
        path.sample(event.branch, event.tokens)
        self._generated += event.tokens
        if path.search is not None:
            self._steps = max(self._steps, path.chain + path.search.depth)
        return self._at_cap()

    def _on_searched(self, path: PathState, event: Extended | Computed) -> list[Action]:
        if path.fate is not None or path.search is None:
            return []
        if isinstance(event, Computed):
            return path.search.computed(event.result, self._room)
        return path.search.receive(event.branch, event.continuation, self._room)

    def _adopt(self, path: PathState, growth: Growth) -> int:
        return path.adopt(growth, self._votes.window, self._reads)

    def _grow(self, path: PathState, tokens: Sequence[Token], unread: int = 0) -> None:
        path.grow(tokens, unread, self._room, self._votes.gate, self._votes.window, self._reads)
        self._generated += len(tokens) + unread
        self._steps = max(self._steps, path.chain + path.tokens)

    def _on_ended(self, path: PathState, event: Ended) -> list[Action]:
        if self._probe_rule is not None and path.hold(event):
            return []
        _, fate, answer, summary, tokens = event
        running = path.fate is None
        if tokens:
            beyond_cap = self._generated + len(tokens) > self._max_tokens
            self._grow(path, tokens)
            if running and path.tier is not None:
                return self._end_path(path, Fate.PRUNED)
            if beyond_cap:
                return self._at_cap()
        if summary is not None:
            self._generated += path.reconcile(summary, self._room) + summary.probe_tokens
            self._steps = max(self._steps, path.chain + path.tokens)
            if running and self._generated > self._max_tokens:
                return self._at_cap()
        if not running:
            return self._at_cap()
        path.answer = answer
        if fate is Fate.KEPT:
            self._votes.take_confidence(path, summary)
        elif fate is Fate.PRUNED:
            path.tier = (summary.tier if summary else None) or Tier.DROP
        return self._end_path(path, fate)

    def _end_path(self, path: PathState, fate: Fate) -> list[Action]:
        path.end(fate)
        if self._probe_rule is not None:
            self._generated += path.drop_held()
        self._running -= 1
        self._votes.end_path(path)
        return self._advance()

    def _on_regrouped(self, event: Regrouped) -> list[Action]:
        self._votes.regroup(event)
        return [] if self._phase is Phase.NEW else self._advance()

    # -- decisions

    def _advance(self) -> list[Action]:
        """Count what can be counted; then stop, or start what may run."""
        votes = self._votes
        request = votes.advance()
        if votes.sampling and self._phase is Phase.WARMUP:
            self._enter(Phase.SAMPLING)
        if votes.settled:
            return self._finish("settled")
        if self._gives_up and votes.first.gave_no_answer():
            return self._finish("no_answer")
        if self._generated >= self._max_tokens:
            return self._finish("max_tokens")
        if votes.by_probes is not None:
            request = request or votes.order.request_expected(votes.poll)
        starts = self._start_paths()
        return [*request, *starts] if request else starts

    def _start_paths(self) -> list[Action]:
        """Start as many paths as may run now; the run ends if none runs and none may start."""
        warmup, options, order = self._phase is Phase.WARMUP, self._votes.options, self._votes.order
        running = self._running + (order.classifying and not warmup)  # a path keeps its place until it is counted
        started = len(self._paths)
        wanted = self._budget - started
        if warmup:
            wanted = min(wanted, self.strategy.warmup - self._votes.warmed_up - running)
        elif wanted and options.planned:
            # Votes that wait for the class of an answer may settle it: their paths are not replaced before.
            wanted = min(wanted, self._planned_width() - self._running - order.awaiting_class())
        starts: list[Action] = []
        for number in range(started, started + min(wanted, options.parallel - running)):
            starts += self._start_path(number, warmup)
        return starts if self._running or order.classifying else self._finish("budget")

    def _start_path(self, number: int, warmup: bool) -> list[Action]:
        seed = path_seed(self.options.seed, number)
        path = PathState(number, self._steps, warmup, warmup or self._votes.window is None)
        self._paths.append(path)
        self._running += 1
        start = Start(number, seed, warmup, self._votes.gate)
        if self.strategy.search is None:
            return [start]
        path.search = PathSearch(self.strategy.search, number, seed, partial(self._adopt, path))
        return [start, *path.search.begin(self._room)]

    def _planned_width(self) -> int:
        """Twice what could settle the vote, more as paths end without settling it, and what costs no extra time."""
        ended = len(self._paths) - self._running
        need = self.strategy.stop.need(self._votes.poll, self.options.parallel)
        return max(self.options.min_parallel, 2 * need, int(self.options.hurry * ended))

    def _at_cap(self) -> list[Action]:
        return self._finish("max_tokens") if self._generated >= self._max_tokens and not self.done else []

    def _finish(self, reason: Reason) -> list[Action]:
        self._votes.close()
        running = [path.number for path in self._paths if path.fate is None]
        for path in self._paths:
            self._generated += path.drop_held()
            path.discard()
        self._snapshots = SnapshotCache()
        self._running = 0
        self._stop = Stop(self._votes.poll.winner(), reason)
        self._enter(Phase.STOPPED)
        return [*(Cancel(number, Fate.DISCARDED) for number in running), self._stop]

    # -- results

    def snapshot(self) -> Snapshot:
        """The session at this moment, as frozen values."""
        paths, votes = self._snapshots.take(self._paths, self._votes.poll, self.strategy.stop)
        return Snapshot(
            self.strategy, self.options, self._phase, paths, votes, self._votes.gate, self._steps, self._stop
        )

    def outcome(self) -> Outcome:
        """The result, once the run has ended."""
        if self._stop is None:
            raise ProtocolError("outcome() before the run has ended")
        gate = self._votes.gate if self._votes.calibrated and self.strategy.prunes else None
        out = build_outcome(self.strategy, self.options, self._paths, self._votes.poll, self._stop, self._steps, gate)
        if self._votes.by_probes is not None:
            out = self._votes.by_probes.complete(out)
        return replace(out, window_paths=self._votes.window_paths) if self._votes.window_paths else out
