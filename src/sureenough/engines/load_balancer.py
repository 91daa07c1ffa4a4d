"""Several engines with the same model as one engine: each path goes to the engine with the fewest running paths.

An engine that does not respond is skipped for a while, and its path goes to another. A path that has begun is never
moved.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from typing import Any, Final

from sureenough.core.events import Token
from sureenough.engines.base import Engine, ExtendOptions, Prompt, SupportsStream, as_engine, extend_once
from sureenough.errors import EngineUnavailable, UsageError

SKIP_SECONDS: Final = 30.0  # how long an engine that did not respond is skipped


class LoadBalancer(Engine):
    """Distributes paths over engines. Several runs may share it; the load is that of all of them together."""

    def __init__(self, engines: Sequence[SupportsStream]) -> None:
        if not engines:
            raise UsageError("engines is empty; give at least one engine")
        self.engines = tuple(map(as_engine, engines))
        self.running = [0] * len(self.engines)
        self._skipped_until = [0.0] * len(self.engines)
        first: Any = self.engines[0]
        self.model, self.k = getattr(first, "model", None), getattr(first, "k", 20)
        self.chat = getattr(first, "chat", True)
        self.window = first.window
        self.stops_at_once = all(engine.stops_at_once for engine in self.engines)

    def prepare(self) -> None:
        for engine in self.engines:
            engine.prepare()

    def model_name(self) -> str:
        return self.engines[0].model_name()

    def sampling(self) -> dict[str, Any]:
        """The first engine's parameters, which all engines share."""
        return self.engines[0].sampling()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        async with AsyncExitStack() as stack:
            ready = [await stack.enter_async_context(engine.open(parallel=parallel)) for engine in self.engines]
            yield _OpenLoadBalancer(self, ready)

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Generate one path; a run opens the engines once for all its paths."""
        async with self.open(parallel=1) as ready, aclosing(ready.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    extend = extend_once

    def least_loaded(self, tried: set[int]) -> int:
        """The engine for the next path: of those that are not skipped, the one with the fewest paths."""
        now = time.monotonic()
        untried = [index for index in range(len(self.engines)) if index not in tried]
        return min(untried, key=lambda index: (self._skipped_until[index] > now, self.running[index], index))

    def skip(self, index: int) -> None:
        self._skipped_until[index] = time.monotonic() + SKIP_SECONDS


class _OpenLoadBalancer(Engine):
    def __init__(self, balancer: LoadBalancer, ready: list[Engine]) -> None:
        self.balancer, self.ready = balancer, ready
        self.window, self.stops_at_once = balancer.window, balancer.stops_at_once
        self.latest: dict[int, int] = {}  # the engine of each running path, by seed

    def model_name(self) -> str:
        return self.balancer.model_name()

    def extend(
        self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int
    ) -> AsyncGenerator[Sequence[Token], None]:
        """Continue a beginning where the path with this seed runs, since its server has read the beginning."""
        index = self.latest.get(seed)
        engine = self.ready[self.balancer.least_loaded(set()) if index is None else index]
        return engine.extend(prompt, beginning, options, seed=seed)

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        balancer, tried = self.balancer, set[int]()
        while True:
            index, begun = balancer.least_loaded(tried), False
            balancer.running[index] += 1
            self.latest[seed] = index
            try:
                async with aclosing(self.ready[index].stream(prompt, seed=seed)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except EngineUnavailable:
                balancer.skip(index)
                tried.add(index)
                if begun or len(tried) == len(self.ready):
                    raise
            finally:
                balancer.running[index] -= 1
                self.latest.pop(seed, None)
