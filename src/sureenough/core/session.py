"""The scheduler: it receives events and returns actions (what to start, to cancel, and when to stop), and does no I/O.

Votes are counted in order of start, so that any number of paths at once gives the answer of one at a time. Drivers for
live engines, recorded paths and tests all loop over `receive`; observers see `snapshot()`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from math import inf, isnan
from typing import Final

from sureenough.core.counting import CountingOrder
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
    Summary,
    Token,
    Tokens,
    path_seed,
)
from sureenough.core.expected_gain import gain_of_paths
from sureenough.core.first_paths import FirstPaths
from sureenough.core.learning import LearnerState
from sureenough.core.options import DEFAULT_WINDOW, RunOptions
from sureenough.core.outcome import Outcome, build_outcome
from sureenough.core.path import PathState
from sureenough.core.path_search import PathSearch
from sureenough.core.probe_votes import ProbeVotes
from sureenough.core.probing import LONGEST_PROBE
from sureenough.core.pruning import OPEN_GATE, Tier
from sureenough.core.search import Growth
from sureenough.core.snapshot import Phase, Snapshot, SnapshotCache
from sureenough.core.strategy import Strategy
from sureenough.core.votes import Poll
from sureenough.core.weights import NO_CERTAINTY
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
        self.strategy, self.options = strategy, options
        self._longest_window, self._gives_up = longest_window, gives_up
        self._window_paths = 0  # paths whose lengths chose the window
        self._budget, self._window = options.paths or 1, options.window
        self._max_tokens = inf if options.max_tokens is None else options.max_tokens
        self._reads, self._probe_rule = strategy.reads_confidence, strategy.probe
        self._needs_certainty = strategy.needs_certainty
        self._phase = Phase.NEW
        self._gate = OPEN_GATE
        self._poll = Poll(strategy.weigh, self._budget)
        self._paths: list[PathState] = []
        self._probe_votes: ProbeVotes | None = None
        if strategy.probe is not None and strategy.probe.votes:
            self._probe_votes = ProbeVotes(self._poll, strategy.probe.every, self._paths, options.count)
        self._order = CountingOrder(options.count, self._paths)
        self._first = FirstPaths(self._paths, strategy.warmup, self._budget)
        self._calibrated = False
        self._settled = False
        self._running = 0
        self._warmed_up = 0  # warm-up paths that ran to their end
        self._generated = 0  # all tokens
        self._steps = 0  # the longest chain of tokens generated one after another
        self._stop: Stop | None = None
        self._snapshots = SnapshotCache()
        self._learned = learned
        self._use_learned()

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
        return gain_of_paths(self._poll, paths)

    def begin(self) -> list[Action]:
        """The first paths to start."""
        if self._phase is not Phase.NEW:
            raise ProtocolError("begin() was called twice")
        self._enter(Phase.WARMUP if self.strategy.warmup else Phase.SAMPLING)
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
        decides = self._probe_votes is None or not self._probe_votes.only_learns
        if decides and self._probe_rule.settles(path.replies):
            path.answer, path.by_probe = event.reply.answer, True
            self._take_confidence(path, None)
            return [Cancel(path.number, Fate.KEPT), *self._end_path(path, Fate.KEPT)]
        actions = list[Action]()
        if self._probe_votes is not None:  # the vote of a path that is still running may settle the run
            self._probe_votes.probed(path)
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
        return path.adopt(growth, self._window, self._reads)

    def _grow(self, path: PathState, tokens: Sequence[Token], unread: int = 0) -> None:
        path.grow(tokens, unread, self._room, self._gate, self._window, self._reads)
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
            self._take_confidence(path, summary)
        elif fate is Fate.PRUNED:
            path.tier = (summary.tier if summary else None) or Tier.DROP
        return self._end_path(path, fate)

    def _take_confidence(self, path: PathState, summary: Summary | None) -> None:
        """What the votes of an ended path weigh, once the window is known."""
        if self._reads:
            if self._needs_certainty and (summary is None or isnan(summary.mean_certainty)):
                raise UsageError(NO_CERTAINTY)
            path.take_summary(summary)
            if self._window is not None:
                path.summarise(self._window)

    def _end_path(self, path: PathState, fate: Fate) -> list[Action]:
        path.end(fate)
        if self._probe_rule is not None:
            self._generated += path.drop_held()
        self._running -= 1
        self._order.ended(path)
        if path.warmup and fate is Fate.KEPT:
            self._warmed_up += 1
        return self._advance()

    def _on_regrouped(self, event: Regrouped) -> list[Action]:
        self._poll.regroup(event.classes)
        self._order.classifying = False
        if self._phase is Phase.SAMPLING:
            self._settled = self.strategy.stop(self._poll)
        return [] if self._phase is Phase.NEW else self._advance()

    # -- decisions

    def _advance(self) -> list[Action]:
        """Count what can be counted; then stop, or start what may run."""
        request = self._count_in_warmup() if self._phase is Phase.WARMUP else self._count_votes()
        if self._probe_votes is not None and not self._settled:
            self._probe_votes.refresh()
            self._settled = self._phase is Phase.SAMPLING and self.strategy.stop(self._poll)
        if self._settled:
            return self._finish("settled")
        if self._gives_up and self._first.gave_no_answer():
            return self._finish("no_answer")
        if self._generated >= self._max_tokens:
            return self._finish("max_tokens")
        if self._probe_votes is not None:
            request = request or self._order.request_expected(self._poll)
        starts = self._start_paths()
        return [*request, *starts] if request else starts

    def _count_votes(self) -> Sequence[Action]:
        """Count paths in their order, one at a time, until the stop rule is satisfied or a class is missing."""
        if self._window is None and self._reads:
            request = self._order.pass_ended(self._poll)
            if request is not None or not self._first.have_ended():
                return request or ()
            self._choose_window()
            self._count_passed()
        while not self._settled and (path := self._order.next()) is not None:
            request = self._order.pass_turn(path, self._poll)
            if request is not None:
                return request
            self._count(path)
        return ()

    def _count(self, path: PathState) -> None:
        """A vote may settle the run; a path without one only under some rules."""
        ballot = path.count(self._gate)
        self._snapshots.changed(path.number)
        self._poll.add(path.number, ballot)
        if ballot is not None or self.strategy.stop.counts_paths:
            self._settled = self._phase is Phase.SAMPLING and self.strategy.stop(self._poll)

    def _count_in_warmup(self) -> Sequence[Action]:
        """Nothing is counted before all warm-up paths have ended and their classes are known; then all are."""
        request = self._order.pass_ended(self._poll)
        if request is None and self._warmed_up == self.strategy.warmup:
            self._calibrate()
        return request or ()

    def _count_passed(self) -> None:
        """Count the paths that had their turn while nothing was counted."""
        for path in self._order.passed():
            if not self._settled:
                self._count(path)

    def _choose_window(self) -> None:
        self._window, self._window_paths = self._first.choose_window(self._order.passed(), self._longest_window)
        self.options = replace(self.options, window=self._window)
        self._use_learned()
        if self._reads:
            for path in self._paths:
                if path.fate is Fate.KEPT:
                    path.summarise(self._window)

    def _use_learned(self) -> None:
        """Once the window is known, and before any vote is counted."""
        if self._learned is not None and (self._window is not None or not self._reads):
            window = self._window if self._window is not None and self._reads else 0
            self.strategy = self.strategy.with_state(self._learned.get(window, LearnerState()))
            self._poll.weigh_by(self.strategy.weigh)
        if self._probe_votes is not None:
            self._probe_votes.learned(self.strategy.state or LearnerState(), (self._learned or {}).values())

    def _calibrate(self) -> None:
        """The warm-up has ended: window, thresholds, weights, votes, and the first stop test."""
        if self._window is None:
            self._choose_window()
        self._calibrated = True
        kept = [path for path in self._paths if path.fate is Fate.KEPT]
        if self.strategy.prunes:
            self._gate = self.strategy.calibrate([path.calibration_windows() for path in kept])
        self._poll.warmup = [path.lowest for path in kept]
        for path in self._paths:
            self._count(path)
        self._enter(Phase.SAMPLING)
        self._settled = self.strategy.stop(self._poll)

    def _start_paths(self) -> list[Action]:
        """Start as many paths as may run now; the run ends if none runs and none may start."""
        warmup = self._phase is Phase.WARMUP
        parallel, started = self.options.parallel, len(self._paths)
        running = self._running + (self._order.classifying and not warmup)  # a path keeps its place until it is counted
        wanted = self._budget - started
        if warmup:
            wanted = min(wanted, self.strategy.warmup - self._warmed_up - running)
        elif wanted and self.options.planned:
            # Votes that wait for the class of an answer may settle it: their paths are not replaced before.
            wanted = min(wanted, self._planned_width() - self._running - self._order.awaiting_class())
        starts: list[Action] = []
        for number in range(started, started + min(wanted, parallel - running)):
            seed = path_seed(self.options.seed, number)
            path = PathState(number, self._steps, warmup, warmup or self._window is None)
            self._paths.append(path)
            starts.append(Start(number, seed, warmup, self._gate))
            self._running += 1
            if self.strategy.search is not None:
                adopt = partial(self._adopt, path)
                path.search = PathSearch(self.strategy.search, number, seed, adopt)
                starts += path.search.begin(self._room)
        return starts if self._running or self._order.classifying else self._finish("budget")

    def _planned_width(self) -> int:
        """Twice what could settle the vote, more as paths end without settling it, and what costs no extra time."""
        ended = len(self._paths) - self._running
        need = self.strategy.stop.need(self._poll, self.options.parallel)
        return max(self.options.min_parallel, 2 * need, int(self.options.hurry * ended))

    def _at_cap(self) -> list[Action]:
        return self._finish("max_tokens") if self._generated >= self._max_tokens and not self.done else []

    def _finish(self, reason: Reason) -> list[Action]:
        uncounted = self._phase is Phase.WARMUP or (self._window is None and self._reads)
        if self._window is None:
            self._choose_window()
        if self._phase is Phase.WARMUP:  # the vote so far, with nothing calibrated
            self._poll.warmup = [path.lowest for path in self._order.passed() if path.fate is Fate.KEPT]
        if uncounted:
            self._settled = False  # by probes, if it was: these votes count all the same
            self._count_passed()
        running = [path.number for path in self._paths if path.fate is None]
        for path in self._paths:
            self._generated += path.drop_held()
            path.discard()
        self._snapshots = SnapshotCache()
        self._running = 0
        self._stop = Stop(self._poll.winner(), reason)
        self._enter(Phase.STOPPED)
        return [*(Cancel(number, Fate.DISCARDED) for number in running), self._stop]

    # -- results

    def snapshot(self) -> Snapshot:
        """The session at this moment, as frozen values."""
        paths, votes = self._snapshots.take(self._paths, self._poll, self.strategy.stop)
        return Snapshot(self.strategy, self.options, self._phase, paths, votes, self._gate, self._steps, self._stop)

    def outcome(self) -> Outcome:
        """The result, once the run has ended."""
        if self._stop is None:
            raise ProtocolError("outcome() before the run has ended")
        gate = self._gate if self._calibrated and self.strategy.prunes else None
        out = build_outcome(self.strategy, self.options, self._paths, self._poll, self._stop, self._steps, gate)
        if self._probe_votes is not None:
            out = self._probe_votes.complete(out)
        return replace(out, window_paths=self._window_paths) if self._window_paths else out
