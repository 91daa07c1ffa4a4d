"""Which of several servers gets the next path: by load, measured speed, health, and what its prompt cache holds.

Only counts and clock times are used, so that every rule can be tested without a server.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from math import exp, log
from typing import Final, NamedTuple

SKIP_SECONDS: Final = 30.0
"""How long an engine that failed and cannot be checked is skipped."""
MISSES: Final = 2
"""Checks in a row without a response after which a server gets no path; a busy one may miss a single check."""
FAILURES: Final = 2
"""Requests in a row that fail after they were sent, after which a server is skipped: it would be idle again at once,
and so get every further path."""
LATEST: Final = 0.2
"""Share of the latest path in the mean speed of a server's paths."""
GAIN: Final = 0.3
"""How far all running paths of a server, as they end, move its weight towards equal speeds; more would overshoot."""
MOST_WEIGHT: Final = 8.0
"""A server never gets more than so many times its equal share, nor less than that part of it."""
FEWEST_TOKENS: Final = 8
"""Shorter paths say more about latency than about speed."""
AFFINITY: Final = 1.25
"""A server that has read the prompt may have so much more load than the least loaded one, or one path more."""
MOST_PROMPTS: Final = 4096
"""Prompts whose servers are remembered; the one used least recently is forgotten first."""


class ServerCounts(NamedTuple):
    """What one server has done so far. Continuations and requests that are passed through count as paths."""

    server: str
    available: bool
    running: int
    started: int
    finished: int  # also paths that were closed before their end
    failed: int
    tokens: int
    tokens_per_second: float  # of one path, mean over the latest
    weight: float
    cached: int  # paths that were sent where their prompt had been read before

    def __str__(self) -> str:
        state = "" if self.available else ", does not respond"
        return (
            f"{self.server}: {self.started:,} paths ({self.failed:,} failed, {self.cached:,} with a prompt it had "
            f"read), {self.tokens:,} tokens, {self.tokens_per_second:,.0f} tokens/s per path, "
            f"weight {self.weight:.2f}{state}"
        )


@dataclass(slots=True)
class _ServerLoad:
    running: int = 0
    started: int = 0
    finished: int = 0
    failed: int = 0
    tokens: int = 0
    cached: int = 0
    speed: float | None = None  # tokens/s of a path
    weight: float = 1.0
    skipped_until: float = 0.0
    misses: int = 0  # checks without a response, the latest ones in a row
    failures: int = 0  # requests that failed, the latest ones in a row


class ServerLoads:
    """The load of every server, over all runs that share them."""

    def __init__(self, names: Sequence[str], clock: Callable[[], float] = time.monotonic) -> None:
        self.names, self.clock = tuple(names), clock
        self._loads = [_ServerLoad() for _ in names]
        self._readers: OrderedDict[int, set[int]] = OrderedDict()  # servers that have read a prompt

    @property
    def running(self) -> list[int]:
        return [load.running for load in self._loads]

    def counts(self) -> list[ServerCounts]:
        return [
            ServerCounts(name, self.is_available(index), load.running, load.started, load.finished, load.failed,
                         load.tokens, load.speed or 0.0, load.weight, load.cached)
            for index, (name, load) in enumerate(zip(self.names, self._loads, strict=True))
        ]  # fmt: skip

    def is_available(self, index: int) -> bool:
        load = self._loads[index]
        return load.misses < MISSES and load.skipped_until <= self.clock()

    def choose(self, prompt: int | None, tried: Collection[int] = ()) -> int:
        """The server for a path with this prompt; None if the prompt is not known.

        Of those that respond: one with nothing to do, else one that has read the prompt if its load is close to the
        least, else the one with the least load for its weight. If none responds, that rule holds for all.
        """
        untried = [index for index in range(len(self._loads)) if index not in tried]
        candidates = [index for index in untried if self.is_available(index)] or untried
        best = min(candidates, key=lambda index: (self._relative(index), index))
        if not self._loads[best].running:
            return best
        readers = set[int]() if prompt is None else self._readers.get(prompt, set())
        limit = max(AFFINITY * self._relative(best), self._relative(best) + 1.0)
        near = [index for index in candidates if index in readers and self._relative(index) <= limit]
        return min(near, key=lambda index: (self._relative(index), index), default=best)

    def _relative(self, index: int) -> float:
        load = self._loads[index]
        return load.running / load.weight

    def begin(self, index: int, prompt: int | None) -> None:
        """A path starts, or another request."""
        load = self._loads[index]
        load.running += 1
        load.started += 1
        if prompt is None:
            return
        readers = self._readers.setdefault(prompt, set())
        load.cached += index in readers
        readers.add(index)
        self._readers.move_to_end(prompt)
        if len(self._readers) > MOST_PROMPTS:
            self._readers.popitem(last=False)

    def end(self, index: int, tokens: int, seconds: float, *, failed: bool = False) -> None:
        """A path has ended, after so many tokens; what a failed one says about speed is not counted."""
        load = self._loads[index]
        load.running -= 1
        load.tokens += tokens
        if failed:
            load.failed += 1
            return
        load.finished += 1
        load.failures = 0
        if tokens >= FEWEST_TOKENS and seconds > 0:
            speed = tokens / seconds
            load.speed = speed if load.speed is None else (1 - LATEST) * load.speed + LATEST * speed
            self._adjust(load)

    def _adjust(self, load: _ServerLoad) -> None:
        """Give a server whose paths are faster than the others' more of them.

        Weights change until all paths are equally fast: a weight in proportion to the rate itself would grow with the
        load that it caused.
        """
        speeds = [one.speed for one in self._loads if one.speed is not None]
        if load.speed is None or len(speeds) < len(self._loads):
            return
        mean = exp(sum(map(log, speeds)) / len(speeds))
        weight = load.weight * (load.speed / mean) ** (GAIN / (load.running + 1))
        load.weight = min(MOST_WEIGHT, max(1 / MOST_WEIGHT, weight))

    def skip(self, index: int) -> None:
        """Send no paths there for a while; a server that has died has forgotten what it had read."""
        self._loads[index].skipped_until = self.clock() + SKIP_SECONDS
        for readers in self._readers.values():
            readers.discard(index)

    def add_failure(self, index: int, *, gone: bool) -> None:
        """A request has failed, and not for what it asked; one to a server that is gone was not received."""
        self._loads[index].failures += 1
        if gone or self._loads[index].failures >= FAILURES:
            self.skip(index)

    def add_check(self, index: int, responds: bool) -> None:
        """Take the result of a check: a server that was gone and responds again is used at once.

        One that fails paths but passed every check stays skipped for its time.
        """
        load = self._loads[index]
        if responds and load.misses:
            load.skipped_until = 0.0
        load.misses = 0 if responds else load.misses + 1
