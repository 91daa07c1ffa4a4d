"""The scheduler: it receives events and returns actions (what to start, to cancel, and when to stop), and does no I/O.

Votes are counted in order of start, so that any number of paths at once gives the answer of one at a time. Drivers for
live engines, recorded paths and tests all loop over `receive`; observers see `snapshot()`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice, takewhile
from math import ceil, inf
from typing import Final

from sureenough.core.events import (
    Action,
    Cancel,
    Classify,
    Computed,
    Ended,
    Event,
    Expired,
    Extended,
    Fate,
    Reason,
    Regrouped,
    Sampled,
    Start,
    Stop,
    Token,
    Tokens,
    path_seed,
)
from sureenough.core.options import DEFAULT_WINDOW, RunOptions, choose_window
from sureenough.core.outcome import (
    Outcome,
    PathSnapshot,
    Phase,
    Snapshot,
    VoteSnapshot,
    full_budget_tokens,
    token_bill,
    warnings,
)
from sureenough.core.path import GatedMonitor, PathSearch, PathState, SignalTrace
from sureenough.core.poll import Poll
from sureenough.core.pruning import OPEN_GATE, Tier
from sureenough.core.strategy import Strategy
from sureenough.errors import ProtocolError, UsageError

TRANSITIONS: Final = {
    Phase.NEW: (Phase.WARMUP, Phase.SAMPLING, Phase.STOPPED),  # begin(), with or without a warm-up; or Expired
    Phase.WARMUP: (Phase.SAMPLING, Phase.STOPPED),  # its last path ended: calibrate; or budget, cap, Expired
    Phase.SAMPLING: (Phase.STOPPED,),  # the vote is settled; or budget, cap, Expired
    Phase.STOPPED: (),  # later tokens are overrun, other events change nothing
}
WINDOW_PATHS: Final = 3
"""The paths whose lengths choose the window of a strategy without a warm-up."""
SILENT_PATHS: Final = 8
"""A live run ends if so many paths, or the whole warm-up if that is more, give no answer."""


class Session:
    """One question, one strategy, one budget."""

    def __init__(
        self,
        strategy: Strategy,
        options: RunOptions,
        *,
        longest_window: int = DEFAULT_WINDOW,
        gives_up: bool = False,
    ) -> None:
        """Without a window in the options, the first paths choose one; `gives_up`: end if they give no answer."""
        if options.paths is None:
            raise UsageError("a session needs a budget: RunOptions(paths=…)")
        if strategy.search is not None:
            strategy.search.check()
            options = replace(options, paths=min(options.paths, strategy.search.runs))
        options.check_budget(strategy)
        self._strategy, self._options = strategy, options
        self._longest_window, self._gives_up = longest_window, gives_up
        self._reads = strategy.reads_confidence
        self._budget: int = options.paths or 1
        self._max_tokens = inf if options.max_tokens is None else options.max_tokens
        self._phase = Phase.NEW
        self._paths: list[PathState] = []  # in order of start, in which they are counted
        self._poll = Poll(strategy.weigh, self._budget)
        self._gate = OPEN_GATE  # until the warm-up has ended
        self._running = self._generated = 0  # paths, tokens
        self._steps = 0  # the longest chain of tokens generated one after another
        self._turn = 0  # paths that had their turn: all before them had theirs, they ended, their class is known
        self._classifying = False  # the class of the answer of the path whose turn it is was requested
        self._window_paths = 0  # paths whose lengths chose the window
        self._stop: Stop | None = None
        self._seen: dict[int, PathSnapshot] = {}  # paths and votes as the latest snapshot has them
        self._seen_votes: VoteSnapshot | None = None
        self._changed: set[int] = set()  # paths that are different since

    @property
    def strategy(self) -> Strategy:
        return self._strategy

    @property
    def options(self) -> RunOptions:
        """The options, with the window once it is known."""
        return self._options

    @property
    def done(self) -> bool:
        """Whether the run has ended."""
        return self._phase is Phase.STOPPED

    def begin(self) -> list[Action]:
        """The first paths to start."""
        if self._phase is not Phase.NEW:
            raise ProtocolError("begin() was called twice")
        self._enter(Phase.WARMUP if self._strategy.warmup else Phase.SAMPLING)
        return self._start_paths()

    def receive(self, event: Event) -> list[Action]:
        """Take in an event; what to do about it."""
        if self._phase is Phase.NEW and not isinstance(event, Regrouped | Expired):
            raise ProtocolError("receive() before begin()")
        if isinstance(event, Tokens):
            return self._on_tokens(self._path(event.path), event)
        if isinstance(event, Ended):
            return self._on_ended(self._path(event.path), event)
        if isinstance(event, Sampled | Extended | Computed):
            return self._on_search(self._path(event.path), event) or self._at_cap()
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
        """The path of an event."""
        if not 0 <= number < len(self._paths):
            raise ProtocolError(f"path {number} was never started; {len(self._paths)} paths were")
        self._changed.add(number)
        return self._paths[number]

    # -- events

    def _on_tokens(self, path: PathState, event: Tokens) -> list[Action]:
        self._grow(path, event.tokens, event.unread)
        if path.tier is not None and path.fate is None:
            return [Cancel(path.number, Fate.PRUNED), *self._end_path(path, Fate.PRUNED)]
        return self._at_cap()

    def _on_ended(self, path: PathState, event: Ended) -> list[Action]:
        _, fate, answer, summary, tokens = event
        running = path.fate is None
        if tokens:
            beyond_cap = len(tokens) > self._room
            self._grow(path, tokens)
            if running and path.tier is not None:
                return self._end_path(path, Fate.PRUNED)
            if beyond_cap:
                return self._at_cap()
        if summary is not None:  # an engine that watched the path counts for itself
            self._generated += path.reconcile(summary.tokens, self._room)
            self._steps = max(self._steps, path.chain + path.tokens)
        if not running or self._room < 0:
            return self._at_cap()
        path.answer = answer
        if fate is Fate.KEPT and self._reads:
            path.summarise(summary, self._options.window)
        elif fate is Fate.PRUNED:
            path.tier = (summary.tier if summary else None) or Tier.DROP
        return self._end_path(path, fate)

    def _end_path(self, path: PathState, fate: Fate) -> list[Action]:
        path.end(fate)
        self._running -= 1
        return self._advance()

    def _on_search(self, path: PathState, event: Sampled | Extended | Computed) -> list[Action]:
        """What the search for a path needs next."""
        if isinstance(event, Sampled):
            path.sample(event.branch, event.tokens)
            self._generated += event.tokens
            if path.search is not None:
                self._steps = max(self._steps, path.chain + path.search.depth)
            return []
        if path.search is None:
            return []
        if isinstance(event, Computed):
            return path.search.computed(event.result, self._room)
        return path.search.receive(event.branch, event.continuation, self._room)

    def _on_regrouped(self, event: Regrouped) -> list[Action]:
        self._poll.regroup(event.classes)
        self._classifying, self._seen_votes = False, None
        if self._phase is Phase.NEW:
            return []
        settled = self._phase is Phase.SAMPLING and self._strategy.stop(self._poll)
        return self._advance("settled" if settled else None)

    # -- tokens

    @property
    def _room(self) -> float:
        """What is left of the cap on tokens."""
        return self._max_tokens - self._generated

    def _grow(self, path: PathState, tokens: Sequence[Token], unread: int = 0) -> None:
        """A path grew; its gate may have closed."""
        path.grow(tokens, unread, self._max_tokens - self._generated)
        self._generated += len(tokens) + unread
        if path.chain + path.tokens > self._steps:  # for every token: a call of max() takes longer
            self._steps = path.chain + path.tokens

    def _at_cap(self) -> list[Action]:
        return self._finish("max_tokens") if self._room <= 0 and not self.done else []

    # -- what may run

    def _start_paths(self) -> list[Action]:
        """Start what may run; the run ends if nothing runs and nothing may start."""
        actions: list[Action] = []
        for _ in range(self._may_start()):
            actions += self._start()
        return actions if self._running or self._classifying else self._finish("budget")

    def _may_start(self) -> int:
        warmup, options = self._phase is Phase.WARMUP, self._options
        places = self._running + (self._classifying and not warmup)  # a path keeps its place until it is counted
        wanted = self._budget - len(self._paths)
        if warmup:
            wanted = min(wanted, self._strategy.warmup - len(self._kept()) - places)
        elif wanted and options.hurry is not None:
            # Votes that wait for the class of an answer may settle it: their paths are not replaced before.
            wanted = min(wanted, self._planned_width(options.hurry) - self._running - self._awaiting_class())
        return min(wanted, options.parallel - places)

    def _planned_width(self, hurry: float) -> int:
        """As many paths as could settle the vote, and this share more."""
        need = self._strategy.stop.need(self._poll, self._options.parallel)
        return max(1, need + ceil(hurry * need))

    def _awaiting_class(self) -> int:
        """Ended paths that wait for the class of an answer only, not for a path that runs."""
        if not self._classifying:
            return 0
        return sum(1 for _ in takewhile(lambda path: path.fate is not None, islice(self._paths, self._turn, None)))

    def _start(self) -> list[Action]:
        number, warmup, gate = len(self._paths), self._phase is Phase.WARMUP, self._gate
        method, seed, window = self._strategy.search, path_seed(self._options.seed, number), self._options.window
        make_reader: Callable[[], SignalTrace | GatedMonitor] | None = None
        if self._reads:
            make_reader = SignalTrace if warmup or window is None else partial(GatedMonitor, window, gate)
        path = PathState(number, self._steps, warmup, make_reader)
        self._paths.append(path)
        self._changed.add(number)
        self._running += 1
        start = Start(number, seed, warmup, gate)
        if method is None:
            return [start]
        path.search = PathSearch(method, number, seed, path.adopt)
        return [start, *path.search.begin(self._room)]

    # -- counting votes

    def _advance(self, verdict: Reason | None = None) -> list[Action]:
        """Give ended paths their turn, in order of start, and count them; then stop, or start what may run."""
        request: list[Action] = []
        while verdict is None and (path := self._next()) is not None:
            if path.fate is Fate.KEPT and path.answer is not None and not self._poll.knows(path.answer):
                request = self._classify()
                break
            self._turn += 1
            if not self._holds_votes:
                verdict = self._count_passed()
        if verdict is None and not self._classifying and self._holds_votes and self._may_release():
            verdict = self._release()
        if verdict is None and self._room <= 0:
            verdict = "max_tokens"
        return [*request, *self._start_paths()] if verdict is None else self._finish(verdict)

    def _next(self) -> PathState | None:
        """The path whose turn it is, if it has ended."""
        path = self._paths[self._turn] if self._turn < len(self._paths) else None
        return None if path is None or path.fate is None else path

    def _classify(self) -> list[Action]:
        """Request the class of the answer of the path whose turn it is, once.

        Only answers of paths that had their turn are in the request, so that no width changes how answers are grouped.
        """
        if self._classifying:
            return []
        self._classifying = True
        passed = [path.answer for path in self._paths[: self._turn + 1] if path.fate is Fate.KEPT]
        return [Classify(tuple(dict.fromkeys(answer for answer in passed if answer is not None)))]

    @property
    def _holds_votes(self) -> bool:
        """Whether nothing is counted yet: the warm-up has not ended, or confidence needs a window first."""
        return self._phase is not Phase.SAMPLING or (self._options.window is None and self._reads)

    def _may_release(self) -> bool:
        """Whether the paths that calibrate the gate, or else those that choose the window, are over."""
        if self._phase is Phase.WARMUP:
            return len(self._kept()) >= self._strategy.warmup
        return self._turn >= min(WINDOW_PATHS, self._budget)

    def _release(self) -> Reason | None:
        """Count the votes that were held, by the window, the thresholds and the weights of their paths."""
        warming_up = self._phase is Phase.WARMUP
        if self._options.window is None:
            self._choose_window()
        if warming_up and self._strategy.prunes:
            self._gate = self._strategy.calibrate([path.calibration_windows() for path in self._kept()])
        verdict = self._count_passed()
        if warming_up:
            self._enter(Phase.SAMPLING)
            verdict = self._test()
        return verdict

    def _count_passed(self) -> Reason | None:
        """Count the paths that had their turn. A vote may settle the run; a path without one only under some rules."""
        if self._phase is not Phase.SAMPLING:
            passed = self._paths[: self._turn]
            self._poll.warmup = [path.summary.lowest for path in passed if path.fate is Fate.KEPT]
        verdict = None
        for path in self._paths[self._poll.counted : self._turn]:
            ballot = path.count(self._gate)
            self._poll.add(path.number, ballot)
            self._changed.add(path.number)
            self._seen_votes = None
            if self._phase is Phase.SAMPLING and (verdict := self._test(voted=ballot is not None)) is not None:
                break
        return verdict

    def _test(self, *, voted: bool = True) -> Reason | None:
        """Whether the vote is settled, or enough paths, failed ones left out, were counted and none has an answer."""
        if (voted or self._strategy.stop.counts_paths) and self._strategy.stop(self._poll):
            return "settled"
        if not self._gives_up or self._poll.ballots:
            return None
        most = max(SILENT_PATHS, self._strategy.warmup)
        first = [path for path in self._paths if path.fate is not Fate.FAILED][:most]
        silent = len(first) == most and all(path.counted and path.answer is None for path in first)
        return "no_answer" if silent else None

    def _kept(self) -> list[PathState]:
        """The paths that ran to their end."""
        return [path for path in self._paths if path.fate is Fate.KEPT]

    # -- the window

    def _choose_window(self) -> None:
        """From the lengths of the warm-up or of the first paths, without failed ones."""
        first = [path for path in self._paths[: self._turn] if path.warmup or path.number < WINDOW_PATHS]
        lengths = [path.tokens for path in first if path.fate is Fate.KEPT]
        window, self._window_paths = choose_window(lengths, self._longest_window), len(lengths)
        self._options = replace(self._options, window=window)
        for path in self._kept():
            path.summary = path.summary.over(window)

    # -- the end

    def _finish(self, reason: Reason) -> list[Action]:
        """Count the paths whose votes waited for a window or for the end of the warm-up; cancel those that run."""
        held = self._holds_votes
        if self._options.window is None:
            self._choose_window()
        if held:
            self._count_passed()
        cancels = [Cancel(path.number, Fate.DISCARDED) for path in self._paths if path.fate is None]
        for path in self._paths:
            path.discard()
        self._running = 0
        self._changed.update(range(len(self._paths)))
        self._seen_votes = None
        self._stop = Stop(self._poll.winner(), reason)
        self._enter(Phase.STOPPED)
        return [*cancels, self._stop]

    # -- what others may look at

    def snapshot(self) -> Snapshot:
        """The session at this moment, as frozen values; only what changed since the last one is built anew."""
        self._seen |= {number: PathSnapshot.of(self._paths[number]) for number in sorted(self._changed)}
        self._changed.clear()
        if self._seen_votes is None:
            self._seen_votes = VoteSnapshot.of(self._poll, self._strategy.stop)
        paths, votes = tuple(self._seen.values()), self._seen_votes
        return Snapshot(self._strategy, self._options, self._phase, paths, votes, self._gate, self._steps, self._stop)

    def outcome(self) -> Outcome:
        """The result, once the run has ended."""
        if self._stop is None:
            raise ProtocolError("outcome() before the run has ended")
        strategy, options, paths, poll = self._strategy, self._options, self._paths, self._poll
        # If paths were pruned, or put together by a search, votes are not independent draws from one distribution.
        independent = not strategy.prunes and strategy.search is None
        fates, tiers = [path.fate for path in paths], [path.tier for path in paths if path.fate is Fate.PRUNED]
        return Outcome(
            answer=self._stop.answer,
            reason=self._stop.reason,
            votes=poll.votes(),
            tokens=token_bill(paths),
            steps=self._steps,
            strategy=strategy.name,
            options=options,
            verdict=strategy.stop.verdict(poll),
            started=len(paths),
            counted=poll.counted,
            voting=poll.voting,
            agreeing=poll.voting_for(self._stop.answer),
            standing=poll.standing(self._stop.answer) if independent else None,
            full_budget_tokens=full_budget_tokens(options.paths or len(paths), paths),
            abstained=sum([path.answer is None for path in paths if path.fate is Fate.KEPT]),
            ended_uncounted=sum([path.ended_uncounted for path in paths]),
            failed=fates.count(Fate.FAILED),
            tiers={tier: tiers.count(tier) for tier in Tier},
            gate=None if self._gate is OPEN_GATE else self._gate,
            window_paths=self._window_paths,
            classes=poll.groups(),
            correlations=poll.correlations() if strategy.reads_confidence else {},
            learned=strategy.state,
            notes=warnings(strategy, options, paths),
        )
