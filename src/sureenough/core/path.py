"""One path in a session: its tokens, its confidence and its fate. The session decides, the path changes its state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import inf, isnan
from typing import Any

import numpy as np

from sureenough.core.confidence import Monitor, Windows, scan
from sureenough.core.events import Action, Adopt, Answer, Compute, Extend, Fate, Summary, Token, path_seed
from sureenough.core.pruning import OPEN_GATE, Gate, Tier
from sureenough.core.search import Computation, Continuation, Draws, Growth, SearchMethod
from sureenough.core.weights import Ballot
from sureenough.errors import ProtocolError


class PathSearch:
    """Runs a method. `room` is what is left of the cap on tokens, and limits the branches of the next round."""

    def __init__(self, method: SearchMethod, path: int, seed: int, adopt: Callable[[Growth], int]) -> None:
        """`adopt` makes tokens part of the path, and returns how many it has then."""
        self._search = method.search(Draws(np.random.Generator(np.random.PCG64(seed)).random))
        self._path, self._seed, self._adopt = path, seed, adopt
        self._first_branch = 0  # of this round
        self._replies: list[Continuation | None] = []
        self._sampled: list[int] = []  # tokens of the branches of this round
        self._depth = 0  # tokens of the longest branches of the rounds before
        self._computes = False  # a computation is under way

    @property
    def depth(self) -> int:
        """The longest chain of tokens sampled one after another."""
        return self._depth + max(self._sampled, default=0)

    def begin(self, room: float) -> list[Action]:
        return self._next(None, room)

    def sampled(self, branch: int, tokens: int) -> None:
        if 0 <= branch - self._first_branch < len(self._sampled):
            self._sampled[branch - self._first_branch] += tokens

    def receive(self, branch: int, reply: Continuation, room: float) -> list[Action]:
        """Take in a finished branch; the next round begins when this one is complete."""
        index = branch - self._first_branch
        if not 0 <= index < len(self._replies) or self._replies[index] is not None:
            raise ProtocolError(f"branch {branch} was not requested, or has been received before")
        self._replies[index] = reply
        return [] if None in self._replies else self._next(list(self._replies), room)

    def computed(self, result: Any, room: float) -> list[Action]:
        """Take in the result of a computation."""
        if not self._computes:
            raise ProtocolError("no result of a computation was requested")
        return self._next(result, room)

    def _next(self, received: Any, room: float) -> list[Action]:
        """What the method needs now; the last growth ends the path."""
        self._depth, self._first_branch = self.depth, self._first_branch + len(self._replies)
        self._replies, self._sampled, self._computes = [], [], False
        try:
            following = self._search.send(received)
        except StopIteration as end:
            self._adopt(end.value)
            return [Adopt(self._path, end.value, ends=True)]
        if isinstance(following, Computation):
            self._computes = True
            return [Compute(self._path, following)]
        self._replies, self._sampled = [None] * len(following.samples), [0] * len(following.samples)
        adopted = self._adopt(following.adopted)
        actions: list[Action] = [Adopt(self._path, following.adopted)] if following.adopted.text else []
        for branch, (beginning, limits, tokens) in enumerate(following.samples, self._first_branch):
            limits = limits._replace(max_tokens=max(1, int(min(limits.max_tokens, room))))
            seed = path_seed(self._seed, branch)
            actions.append(Extend(self._path, branch, beginning, limits, seed, max(tokens, adopted)))
        return actions


class PathState:
    """Running until `end`; then kept, pruned, failed or discarded. `count` marks a path whose vote was counted."""

    # Defaults live on the class: sweeps over recorded paths create millions of these.
    tokens = overrun = 0
    counted = False
    fate: Fate | None = None  # None while it runs
    tier: Tier | None = None
    answer: Answer | None = None
    windows: Windows | None = None
    lowest = tail = mean_peak = mean_conf = 0.0
    _lacks_signals = False  # tokens came without signals: only a summary can replace them
    _monitor: Monitor | None = None
    _signals: list[tuple[float, float]] | None = None  # of traced paths, until they are summarised
    _summary: Summary | None = None
    ended_uncounted = False  # it ended by itself, but was not counted before the run was over
    search: PathSearch | None = None  # of a path that is searched for
    search_tokens = 0  # sampled in its search, and not part of it

    def __init__(self, number: int, chain: int, warmup: bool, traced: bool) -> None:
        self.number = number
        self.chain = chain  # the run's longest chain of tokens when this path was started
        self.warmup = warmup
        self.traced = traced  # its signals are kept to its end: for the calibration, or since the window is not known

    # -- growing

    def grow(
        self, tokens: Sequence[Token], unread: int, room: float, gate: Gate, window: int | None, reads: bool
    ) -> None:
        """Take tokens until the gate closes or `room` is used up; all further ones are overrun."""
        generated = len(tokens) + unread
        taken = 0
        if self.fate is None:
            taken = int(min(generated, room))
            if tokens and reads:
                readable = tokens[:taken]
                if self.traced or window is None:
                    self._record(readable)
                else:
                    watched = self._watch(readable, gate, window)
                    taken = watched if self.tier is not None else taken
            elif unread and self._monitor is None and self._signals is None:
                # An end token may come without signals after all the others had theirs: it is only counted.
                self._lacks_signals = True
        self.tokens += taken
        self.overrun += generated - taken

    def _record(self, tokens: Iterable[Token]) -> None:
        if self._signals is None:
            self._signals = []
        for _, peak, conf in tokens:
            self._lacks_signals |= isnan(conf)
            self._signals.append((peak, conf))

    def _watch(self, tokens: Iterable[Token], gate: Gate, window: int) -> int:
        """Follow the path token by token; how many until the gate closed on it, or all of them."""
        if self._monitor is None:
            self._monitor = Monitor(window, gate.trend_window)
        monitor = self._monitor
        push, test = monitor.push, gate.tier  # looked up once: this loop is most of what a live token costs here
        taken = 0
        for _, peak, conf in tokens:
            taken += 1
            if isnan(conf):
                self._lacks_signals = True
            elif push(peak, conf) and (tier := test(monitor)) is not None:
                self.tier = tier
                break
        return taken

    def sample(self, branch: int, tokens: int) -> None:
        """A branch of its search grew; after the decision on the path this is overrun."""
        if self.fate is None and self.search is not None:
            self.search.sampled(branch, tokens)
            self.search_tokens += tokens
        else:
            self.overrun += tokens

    def adopt(self, growth: Growth, window: int | None, reads: bool) -> int:
        """Tokens of its search become part of it; how many it has then."""
        unread = growth.unread if growth.tokens else 0
        self.search_tokens -= len(growth.tokens) + unread
        self.grow(growth.tokens, unread, inf, OPEN_GATE, window, reads)
        return self.tokens

    def reconcile(self, summary: Summary, room: float) -> int:
        """Take over the count of an engine that watched the path; returns how many of its own tokens are new.

        Tokens that it places after the decision, or that exceed `room`, are overrun.
        """
        new = summary.tokens - self.tokens
        if new < 0:
            self.overrun -= new
            self.tokens += new
            return 0
        beyond = int(new - room) if self.fate is None and new > room else 0
        self.overrun += beyond
        self.tokens += new - beyond
        return new

    # -- ending

    def end(self, fate: Fate) -> None:
        self.fate = fate
        if fate is not Fate.KEPT and (self._monitor is not None or self._signals is not None):
            self._monitor = self._signals = None

    def take_summary(self, summary: Summary | None) -> None:
        """What an engine that watched the path knows of it; without that, its own signals are needed."""
        if summary is None and self._lacks_signals:
            raise ProtocolError(f"path {self.number} ended with neither signals nor a summary")
        self._summary = summary

    def summarise(self, window: int) -> None:
        """The confidence of a path that ran to its end, from the engine's summary or from its own signals."""
        summary = self._summary
        fits = summary is not None and summary.windows is not None and summary.windows.window == window
        if summary is not None and (summary.signals is None or fits):
            self.windows = summary.windows
            self._take(summary)
        elif summary is None and self._monitor is not None:
            self._take(self._monitor)
        else:
            signals = self._signals or [] if summary is None else summary.signals
            both = np.array(signals, dtype=np.float64).reshape(-1, 2)
            self.windows = scan(both[:, 0], both[:, 1], window)
            self._take(self.windows)
        self._monitor = self._signals = self._summary = None

    def _take(self, source: Summary | Monitor | Windows) -> None:
        self.lowest, self.tail = source.lowest, source.tail
        self.mean_peak, self.mean_conf = source.mean_peak, source.mean_conf

    def discard(self) -> None:
        """The run is over. If the path was not counted before, its tokens are discarded."""
        self.ended_uncounted = self.fate is Fate.KEPT and not self.counted
        if self.fate is None or self.ended_uncounted:
            self.fate = Fate.DISCARDED

    # -- voting

    def calibration_windows(self) -> Windows:
        """The windows of a path that started in the warm-up."""
        if self.windows is None:
            raise ProtocolError(f"the summary of path {self.number}, started in the warm-up, came without its windows")
        return self.windows

    def count(self, gate: Gate) -> Ballot | None:
        """Mark the path as counted; its vote, if it has one."""
        self.counted = True
        if self.answer is None or self.fate is not Fate.KEPT or (self.warmup and self.lowest < gate.floor):
            return None
        return Ballot(self.number, self.answer, self.lowest, self.tail, self.mean_peak, self.mean_conf)
