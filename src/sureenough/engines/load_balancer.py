"""Several engines with the same model as one: a path goes where the fewest run.

An engine where nobody answers is passed over for a while, and its path goes to another; a path that has begun is never
moved.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final

from sureenough.core.events import Token
from sureenough.engines.base import Engine, Prompt, opened, stops_at_once, suggested_window
from sureenough.errors import EngineUnavailable, UsageError

REST: Final = 30.0
"""Seconds for which an engine that did not answer is passed over."""


class LoadBalancer:
    """Runs share it: the loads are those of all of them together."""

    def __init__(self, engines: Sequence[Engine]) -> None:
        if not engines:
            raise UsageError("name at least one engine")
        self.engines = tuple(engines)
        self.running = [0] * len(self.engines)
        self._rests = [0.0] * len(self.engines)  # until when
        first: Any = self.engines[0]
        self.model, self.k = getattr(first, "model", None), getattr(first, "k", 20)
        self.chat = getattr(first, "chat", True)
        self.window = suggested_window(first)
        self.stops_at_once = all(map(stops_at_once, self.engines))

    def sampling(self) -> dict[str, Any]:
        """How tokens are drawn; all engines draw alike."""
        first: Any = self.engines[0]
        said: dict[str, Any] = first.sampling() if hasattr(first, "sampling") else {}
        return said

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        """All of them."""
        async with AsyncExitStack() as stack:
            yield _OpenLoadBalancer(
                self, [await stack.enter_async_context(opened(one, parallel)) for one in self.engines]
            )

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path; a run opens the engines once for all its paths."""
        async with self.open(parallel=1) as ready, aclosing(ready.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    def least_loaded(self, tried: set[int]) -> int:
        """Where the next path goes: first those that answer, among them the one with the fewest paths."""
        now = time.monotonic()
        left = [at for at in range(len(self.engines)) if at not in tried]
        return min(left, key=lambda at: (self._rests[at] > now, self.running[at], at))

    def rest(self, at: int) -> None:
        """Nobody answered there."""
        self._rests[at] = time.monotonic() + REST


class _OpenLoadBalancer:
    def __init__(self, spread: LoadBalancer, ready: list[Engine]) -> None:
        self.spread, self.ready = spread, ready
        self.window, self.stops_at_once = spread.window, spread.stops_at_once

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        tried: set[int] = set()
        while True:
            at, begun = self.spread.least_loaded(tried), False
            self.spread.running[at] += 1
            try:
                async with aclosing(self.ready[at].stream(prompt, seed=seed)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except EngineUnavailable:
                self.spread.rest(at)
                tried.add(at)
                if begun or len(tried) == len(self.ready):
                    raise
            finally:
                self.spread.running[at] -= 1
