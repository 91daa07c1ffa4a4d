"""The scheduler: told what happened, it says what to start, cancel and when to stop. It does nothing itself.

Votes are counted in order of start, so that any number of paths at once gives the answer of one at a time. Drivers
for live engines, recorded paths and tests all loop over `receive`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from math import inf

from sureenough.core.events import (
    Action,
    Cancel,
    Ended,
    Event,
    Expired,
    Fate,
    Reason,
    Regrouped,
    Start,
    Stop,
    Summary,
    Tier,
    Token,
    Tokens,
    Unread,
    path_seed,
)
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.path import PathState, outcome_notes, path_counts
from sureenough.core.pruning import Gate
from sureenough.core.strategy import Strategy
from sureenough.core.votes import Poll
from sureenough.errors import ProtocolError, UsageError


class Session:
    """One question, one strategy, one budget."""

    def __init__(self, strategy: Strategy, options: RunOptions) -> None:
        if options.paths is None or options.window is None:
            raise UsageError("a session needs a budget and a window: RunOptions(paths=…, window=…)")
        options.check_budget(strategy)
        self.strategy, self.options = strategy, options
        self.budget, self.window = options.paths, options.window
        self.parallel, self.seed = options.parallel, options.seed
        self.count = options.count
        self.planned = options.planned
        self.max_tokens = inf if options.max_tokens is None else options.max_tokens
        self.gate = Gate()
        self.poll = Poll(strategy.weigh, self.budget)
        self.paths: list[PathState] = []
        self.stopped: Stop | None = None
        self.steps = 0  # the longest chain of tokens made one after another
        self._reads = strategy.reads_confidence
        self._stop = strategy.stop
        self._begun = False
        self._warm = strategy.warmup == 0
        self._running = 0
        self._warmed = 0  # warm-up paths that ran to their end
        self._made = 0  # all tokens told of
        self._turn = 0  # the path whose vote is counted next

    @property
    def done(self) -> bool:
        """Whether the run is over."""
        return self.stopped is not None

    def begin(self) -> list[Action]:
        """The first paths to start."""
        if self._begun:
            raise ProtocolError("begin() was called twice")
        self._begun = True
        return self._fill()

    def receive(self, event: Event) -> list[Action]:
        """Take note of an event; what to do about it."""
        if not self._begun and not isinstance(event, Regrouped):  # classes may be known from the start
            raise ProtocolError("receive() before begin()")
        if isinstance(event, Tokens):
            return self._grown(self._known(event.path), event.tokens)
        if isinstance(event, Ended):
            return self._ended(self._known(event.path), event)
        if not isinstance(event, Regrouped | Expired):
            raise ProtocolError(f"not an event: {event!r}")
        if self.done:
            return []
        if isinstance(event, Expired):
            return self._finish(event.reason)
        self.poll.regroup(event.classes)
        return self._finish("settled") if self._settled() else []

    # -- tokens

    def _grown(self, path: PathState, tokens: Sequence[Token]) -> list[Action]:
        self._take(path, tokens)
        if path.tier is not None and path.fate is None:
            return [Cancel(path.number, Fate.PRUNED), *self._over(path, Fate.PRUNED)]
        return self._capped()

    def _take(self, path: PathState, tokens: Sequence[Token]) -> None:
        """Count tokens up to the decision on their path, if one falls among them; the rest is overrun."""
        told = len(tokens)
        taken = 0
        if path.fate is None:
            taken = int(min(told, self.max_tokens - self._made))
            if isinstance(tokens, Unread):
                # An end token may come without signals after all the others had theirs: it is only counted.
                path.blind |= path.monitor is None and path.signals is None
            elif path.warmup and self._reads:
                path.record(tokens[:taken])
            elif self._reads:
                taken = path.watch(tokens[:taken], self.gate, self.window)
        path.tokens += taken
        path.overrun += told - taken
        self._made += told
        self.steps = max(self.steps, path.chain + path.tokens)

    def _capped(self) -> list[Action]:
        return self._finish("max_tokens") if self._made >= self.max_tokens and not self.done else []

    # -- ends

    def _ended(self, path: PathState, event: Ended) -> list[Action]:
        _, fate, answer, summary, tokens = event
        running = path.fate is None
        if tokens:
            cut = self._made + len(tokens) > self.max_tokens
            self._take(path, tokens)
            if running and path.tier is not None:
                return self._over(path, Fate.PRUNED)
            if cut:
                return self._capped()
        if summary is not None:
            over = self._settle(path, summary)
            if over and running:
                return self._capped()
        if not running:
            return self._capped()
        path.answer = answer
        if fate is Fate.KEPT and self._reads:
            path.close(self.window, summary)
        elif fate is Fate.PRUNED:
            path.tier = (summary.tier if summary else None) or Tier.DROP
        return self._over(path, fate)

    def _settle(self, path: PathState, summary: Summary) -> bool:
        """An engine that watched its own path knows best where the decision fell; True where the cap came first."""
        news = summary.tokens - path.tokens
        over = 0
        if news < 0:
            path.overrun -= news
        else:
            self._made += news
            if self._made > self.max_tokens and path.fate is None:
                over = int(self._made - self.max_tokens)
                path.overrun += over
        path.tokens += news - over
        if path.chain + path.tokens > self.steps:
            self.steps = path.chain + path.tokens
        return over > 0

    def _over(self, path: PathState, fate: Fate) -> list[Action]:
        path.fate = fate
        if path.monitor is not None or path.signals is not None:
            path.monitor = path.signals = None
        self._running -= 1
        if path.warmup and fate is Fate.KEPT:
            self._warmed += 1
        if self._counted(path) if self._warm else self._calibrated():
            return self._finish("settled")
        return self._finish("max_tokens") if self._made >= self.max_tokens else self._fill()

    def _calibrated(self) -> bool:
        """Once warm-up is over: thresholds, weights, votes; then the first stop test."""
        if self._warmed < self.strategy.warmup:
            return False
        self._warm = True
        warmed = [path for path in self.paths if path.fate is Fate.KEPT]
        if self.strategy.prunes:
            self.gate = self.strategy.calibrate([path.seen() for path in warmed])
        self.poll.warmup = [path.lowest for path in warmed]
        for path in self.paths:
            self._count(path)
        self._turn = len(self.paths)
        return self._settled()

    def _counted(self, path: PathState) -> bool:
        """Count what can be counted now, one at a time, and ask the stop rule after each."""
        if self.count == "finish":
            return self._count(path) and self._settled()
        while self._turn < len(self.paths) and self.paths[self._turn].fate is not None:
            news = self._count(self.paths[self._turn])
            self._turn += 1
            if news and self._settled():
                return True
        return False

    def _count(self, path: PathState) -> bool:
        """Whether this may change the stop rule's mind: a vote does, a path without one only for some rules."""
        path.counted = True
        ballot = path.ballot(self.gate)
        self.poll.add(path.number, ballot)
        return ballot is not None or self._stop.counts_paths

    def _settled(self) -> bool:
        return self._warm and self._stop(self.poll)

    # -- what next

    def _fill(self) -> list[Action]:
        """Start as many paths as may run now; the run is over when none runs and none may start."""
        paths, warm = self.paths, self._warm
        wanted = self.budget - len(paths)
        if not warm:
            wanted = min(wanted, self.strategy.warmup - self._warmed - self._running)
        elif wanted and self.planned:
            wanted = min(wanted, 2 * self.strategy.stop.need(self.poll, self.parallel) - self._running)
        starts: list[Action] = []
        for number in range(len(paths), len(paths) + min(wanted, self.parallel - self._running)):
            paths.append(PathState(number, self.steps, not warm))
            starts.append(Start(number, path_seed(self.seed, number)))
        self._running += len(starts)
        return starts if self._running else self._finish("budget")

    def _finish(self, reason: Reason) -> list[Action]:
        if not self._warm:
            self._count_unfinished_warmup()
        cancels: list[Action] = []
        for path in self.paths:
            if path.fate is None:
                cancels.append(Cancel(path.number, Fate.SPARED))
                path.fate = Fate.SPARED
            elif path.fate is Fate.KEPT and not path.counted:
                path.fate = Fate.SPARED
        self._running = 0
        self.stopped = Stop(self.poll.winner(), reason)
        return [*cancels, self.stopped]

    def _count_unfinished_warmup(self) -> None:
        """The run is cut in its warm-up: the vote so far, with nothing calibrated."""
        in_turn = takewhile(lambda path: path.fate is not None, self.paths)
        ended = list(in_turn) if self.count == "start" else [path for path in self.paths if path.fate is not None]
        self.poll.warmup = [path.lowest for path in ended if path.fate is Fate.KEPT]
        for path in ended:
            self._count(path)

    def _known(self, number: int) -> PathState:
        if not 0 <= number < len(self.paths):
            raise ProtocolError(f"path {number} was never started; {len(self.paths)} paths were")
        return self.paths[number]

    def outcome(self) -> Outcome:
        """The result, once the run is over."""
        if self.stopped is None:
            raise ProtocolError("outcome() before the run is over")
        return Outcome(
            answer=self.stopped.answer,
            reason=self.stopped.reason,
            votes=self.poll.votes(),
            steps=self.steps,
            strategy=self.strategy.name,
            paths=self.budget,
            window=self.window,
            parallel=self.parallel,
            seed=self.seed,
            count=self.count,
            weight=getattr(self.strategy.weigh, "weight", None),
            planned=self.planned,
            measure=self.strategy.stop.measure(self.poll),
            why=self.strategy.stop.why(self.poll),
            agreement=None if self.strategy.weigh.settled else self.poll.agreement(),
            gate=self.gate if self.strategy.prunes and self._warm else None,
            notes=outcome_notes(self.strategy, self.paths, self.window, self.count),
            **path_counts(self.paths),
        )
