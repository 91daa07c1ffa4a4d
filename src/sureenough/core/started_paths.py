"""All paths that a session has started: how many may run, and what they have generated."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import inf

from sureenough.core.events import (
    Action,
    Cancel,
    Computed,
    Extended,
    Fate,
    Sampled,
    Start,
    Summary,
    Token,
    path_seed,
)
from sureenough.core.path import PathState
from sureenough.core.path_search import PathSearch
from sureenough.core.search import Growth
from sureenough.core.vote_count import VoteCount
from sureenough.errors import ProtocolError


class StartedPaths:
    """Starts paths as budget, width and votes allow. All that paths generate is counted here."""

    def __init__(self, votes: VoteCount, changed: Callable[[int], None]) -> None:
        """`changed` is called with the number of a path that an event is about."""
        self.all, self._votes, self._changed = votes.paths, votes, changed
        self.running = 0
        self.generated = 0  # all tokens
        self.steps = 0  # the longest chain of tokens generated one after another
        self._budget = votes.options.paths or 1
        self._max_tokens = inf if votes.options.max_tokens is None else votes.options.max_tokens
        self._reads = votes.strategy.reads_confidence

    @property
    def room(self) -> float:
        """What is left of the cap on tokens."""
        return self._max_tokens - self.generated

    def get(self, number: int) -> PathState:
        """The path of an event."""
        if not 0 <= number < len(self.all):
            raise ProtocolError(f"path {number} was never started; {len(self.all)} paths were")
        self._changed(number)
        return self.all[number]

    # -- starting and ending

    def start_more(self) -> list[Action]:
        """Start as many paths as may run now."""
        votes, warmup = self._votes, not self._votes.sampling
        running = self.running + (votes.classifying and not warmup)  # a path keeps its place until it is counted
        wanted = self._budget - len(self.all)
        if warmup:
            wanted = min(wanted, votes.strategy.warmup - votes.warmed_up - running)
        elif wanted and votes.options.hurry is not None:
            # Votes that wait for the class of an answer may settle it: their paths are not replaced before.
            planned = self._planned_width(votes.options.hurry)
            wanted = min(wanted, planned - self.running - votes.awaiting_class())
        starts: list[Action] = []
        for _ in range(min(wanted, votes.options.parallel - running)):
            starts += self._start(warmup)
        return starts

    def _planned_width(self, hurry: float) -> int:
        """Twice what could settle the vote, and more as paths end without settling it."""
        ended = len(self.all) - self.running
        need = self._votes.strategy.stop.need(self._votes.poll, self._votes.options.parallel)
        return max(1, 2 * need, int(hurry * ended))

    def _start(self, warmup: bool) -> list[Action]:
        votes, number = self._votes, len(self.all)
        method, seed = votes.strategy.search, path_seed(votes.options.seed, number)
        path = PathState(number, self.steps, warmup, warmup or votes.window is None)
        self.all.append(path)
        self.running += 1
        start = Start(number, seed, warmup, votes.gate)
        if method is None:
            return [start]
        path.search = PathSearch(method, number, seed, partial(self._adopt, path))
        return [start, *path.search.begin(self.room)]

    def end(self, path: PathState, fate: Fate) -> None:
        path.end(fate)
        self.running -= 1
        self._votes.end_path(path)

    def discard(self) -> list[Action]:
        """The run is over: cancel the paths that run."""
        cancels: list[Action] = [Cancel(path.number, Fate.DISCARDED) for path in self.all if path.fate is None]
        for path in self.all:
            path.discard()
        self.running = 0
        return cancels

    # -- tokens

    def grow(self, path: PathState, tokens: Sequence[Token], unread: int = 0) -> None:
        """A path grew; its gate may have closed."""
        path.grow(tokens, unread, self._max_tokens - self.generated, self._votes.gate, self._votes.window, self._reads)
        self.generated += len(tokens) + unread
        if path.chain + path.tokens > self.steps:  # for every token: a call of max() takes longer
            self.steps = path.chain + path.tokens

    def reconcile(self, path: PathState, summary: Summary) -> None:
        """Take over the count of an engine that watched the path."""
        self.generated += path.reconcile(summary, self.room)
        self.steps = max(self.steps, path.chain + path.tokens)

    def search(self, path: PathState, event: Sampled | Extended | Computed) -> list[Action]:
        """What the search for a path needs next."""
        if isinstance(event, Sampled):
            path.sample(event.branch, event.tokens)
            self.generated += event.tokens
            if path.search is not None:
                self.steps = max(self.steps, path.chain + path.search.depth)
            return []
        if path.fate is not None or path.search is None:
            return []
        if isinstance(event, Computed):
            return path.search.computed(event.result, self.room)
        return path.search.receive(event.branch, event.continuation, self.room)

    def _adopt(self, path: PathState, growth: Growth) -> int:
        return path.adopt(growth, self._votes.window, self._reads)
