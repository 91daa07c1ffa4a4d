"""One path in a session: its tokens, its confidence and its fate. The session decides, the path changes its state."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf, isnan
from typing import Any

import numpy as np

from sureenough.core.confidence import Monitor, Windows
from sureenough.core.events import Action, Adopt, Answer, Compute, Extend, Fate, Summary, Token, path_seed
from sureenough.core.pruning import Gate, Tier
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


class SignalTrace:
    """Keeps the signals of a growing path to its end: for the calibration, or since the window is not known yet."""

    def __init__(self) -> None:
        self.complete = True  # whether every token came with its signals
        self._signals: list[tuple[float, float]] = []

    def read(self, tokens: Sequence[Token]) -> tuple[int, None]:
        self._signals += [(peak, conf) for _, peak, conf in tokens]
        return len(tokens), None

    def summary(self) -> Summary:
        signals = np.array(self._signals, dtype=np.float64).reshape(-1, 2)
        self.complete &= not np.isnan(signals[:, 1]).any()
        return Summary(len(signals), signals=signals)


class GatedMonitor:
    """Follows a growing path token by token, and tests its gate at every full window."""

    def __init__(self, window: int, gate: Gate) -> None:
        self.complete = True  # whether every token came with its signals
        self._monitor, self._test = Monitor(window), gate.tier

    def read(self, tokens: Sequence[Token]) -> tuple[int, Tier | None]:
        """Take tokens until the gate closes: how many, and by which test."""
        monitor = self._monitor
        push, test = monitor.push, self._test  # looked up once: this loop is most of what a live token costs here
        for taken, (_, peak, conf) in enumerate(tokens, 1):
            if isnan(conf):
                self.complete = False
            elif push(peak, conf) and (tier := test(monitor)) is not None:
                return taken, tier
        return len(tokens), None

    def summary(self) -> Summary:
        return Summary.of(self._monitor)


class PathState:
    """A path of a session. It runs until `end`, which drops what only a running path needs: its reader and its search.

    One that ran to its end has a summary of its confidence, and votes when it is counted.
    """

    # Defaults live on the class: sweeps over recorded paths create millions of these.
    tokens = overrun = 0
    search_tokens = 0  # sampled in its search, and not part of it
    fate: Fate | None = None  # None while it runs
    tier: Tier | None = None
    answer: Answer | None = None
    summary = Summary(0, 0.0, 0.0, mean_peak=0.0, mean_conf=0.0)
    counted = False
    ended_uncounted = False  # it ended by itself, but was not counted before the run was over
    search: PathSearch | None = None
    _reader: SignalTrace | GatedMonitor | None = None  # from its first token on

    def __init__(
        self, number: int, chain: int, warmup: bool, make_reader: Callable[[], SignalTrace | GatedMonitor] | None
    ) -> None:
        self.number = number
        self.chain = chain  # the run's longest chain of tokens when this path was started
        self.warmup = warmup
        self._make_reader = make_reader  # None: confidence is not read

    # -- growing

    def grow(self, tokens: Sequence[Token], unread: int, room: float) -> None:
        """Take tokens until the gate closes or `room` is used up; all further ones are overrun."""
        generated = len(tokens) + unread
        taken = 0
        if self.fate is None:
            taken = int(min(generated, room))
            if self._make_reader is not None:
                if self._reader is None:
                    self._reader = self._make_reader()
                    # An end token may come without signals after all the others had theirs: it is only counted.
                    self._reader.complete = bool(tokens) or not unread
                read, self.tier = self._reader.read(tokens[:taken])
                taken = read if self.tier is not None else taken
        self.tokens += taken
        self.overrun += generated - taken

    def sample(self, branch: int, tokens: int) -> None:
        """A branch of its search grew; after the decision on the path this is overrun."""
        if self.search is None:
            self.overrun += tokens
        else:
            self.search.sampled(branch, tokens)
            self.search_tokens += tokens

    def adopt(self, growth: Growth) -> int:
        """Tokens of its search become part of it; how many it has then."""
        unread = growth.unread if growth.tokens else 0
        self.search_tokens -= len(growth.tokens) + unread
        self.grow(growth.tokens, unread, inf)
        return self.tokens

    def reconcile(self, tokens: int, room: float) -> int:
        """Take over the count of an engine that watched the path; returns how many of its own tokens are new.

        Tokens that it places after the decision, or that exceed `room`, are overrun.
        """
        new = tokens - self.tokens
        if new < 0:
            self.overrun -= new
            self.tokens += new
            return 0
        beyond = int(new - room) if self.fate is None and new > room else 0
        self.overrun += beyond
        self.tokens += new - beyond
        return new

    # -- ending

    def summarise(self, summary: Summary | None, window: int | None) -> None:
        """The confidence of a path that runs to its end: what an engine that watched it knows, or its own reader."""
        if summary is None:
            reader = self._reader or SignalTrace()
            summary = reader.summary()
            if not reader.complete:
                raise ProtocolError(f"path {self.number} ended with neither signals nor a summary")
        self.summary = summary if window is None else summary.over(window)

    def end(self, fate: Fate) -> None:
        self.fate = fate
        self._reader = self.search = None

    def discard(self) -> None:
        """The run is over. If the path was not counted before, its tokens are discarded."""
        self.ended_uncounted = self.fate is Fate.KEPT and not self.counted
        if self.fate is None or self.ended_uncounted:
            self.end(Fate.DISCARDED)

    # -- voting

    def calibration_windows(self) -> Windows:
        """The windows of a path that started in the warm-up."""
        if self.summary.windows is None:
            raise ProtocolError(f"the summary of path {self.number}, started in the warm-up, came without its windows")
        return self.summary.windows

    def count(self, gate: Gate) -> Ballot | None:
        """Mark the path as counted; its vote, or None if it abstains."""
        self.counted = True
        seen = self.summary
        if self.answer is None or self.fate is not Fate.KEPT or (self.warmup and seen.lowest < gate.floor):
            return None
        return Ballot(self.number, self.answer, seen.lowest, seen.tail, seen.mean_peak, seen.mean_conf)
