"""Several engines with the same model as one engine. `ServerLoads` says which of them gets a path.

A path or a continuation whose engine does not respond goes to another; one that has begun is never moved. Engines that
can be checked are checked while a run is open, so that a server that has died gets no path, and one that is back gets
some.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from operator import is_
from typing import Any, Final
from zlib import crc32

from sureenough.engines.base import ClosedEngine, Engine, StartRequest, SupportsStream, as_engine
from sureenough.engines.requests import ExtendOptions, Prompt, TokenStream
from sureenough.engines.server_loads import SKIP_SECONDS, ServerCounts, ServerLoads
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError

CHECK_SECONDS: Final = 5.0
"""Between two checks of all engines."""


class LoadBalancer(ClosedEngine):
    """Distributes paths over engines. Several runs may share it; the load is that of all of them together."""

    def __init__(self, engines: Sequence[SupportsStream]) -> None:
        if not engines:
            raise UsageError("engines is empty; give at least one engine")
        self.engines = tuple(map(as_engine, engines))
        self.servers = len(self.engines)
        self.loads = ServerLoads([_name(engine, number) for number, engine in enumerate(self.engines, 1)])
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

    def counts(self) -> list[ServerCounts]:
        """What every engine has done so far."""
        return self.loads.counts()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[OpenLoadBalancer]:
        async with AsyncExitStack() as stack:
            ready = [await stack.enter_async_context(engine.open(parallel=parallel)) for engine in self.engines]
            async with balanced(self.loads, ready) as opened:
                yield opened


@asynccontextmanager
async def balanced(loads: ServerLoads, ready: Sequence[Engine]) -> AsyncIterator[OpenLoadBalancer]:
    """Open engines as one, checked for as long as it is open."""
    opened = OpenLoadBalancer(loads, ready, asyncio.Event())
    if len(ready) == 1:
        yield opened
        return
    checks = asyncio.create_task(opened.keep_checking())
    try:
        yield opened
    finally:
        checks.cancel()
        with suppress(asyncio.CancelledError):
            await checks


@dataclass(slots=True)
class CountedRequest:
    """What a request to one engine has generated so far, and whether it has failed."""

    tokens: int = 0
    failed: bool = False


class OpenLoadBalancer(Engine):
    """Engines that are open, with the load that several runs share."""

    def __init__(self, loads: ServerLoads, ready: Sequence[Engine], suspicion: asyncio.Event) -> None:
        self.loads, self.ready = loads, ready
        self._impatient = [engine.impatient() for engine in ready] if len(ready) > 1 else list(ready)
        self.servers = len(ready)
        self.window, self.longest_window = ready[0].window, min(engine.longest_window for engine in ready)
        self.stops_at_once = all(engine.stops_at_once for engine in ready)
        self.max_path_tokens = min((e.max_path_tokens for e in ready if e.max_path_tokens is not None), default=None)
        self._suspicion = suspicion  # a request has failed: check now
        self._places: dict[int, int] = {}  # the engine of each running path, by seed

    def over(self, ready: Sequence[Engine]) -> OpenLoadBalancer:
        """The same servers for another model or other sampling."""
        return OpenLoadBalancer(self.loads, ready, self._suspicion)

    def model_name(self) -> str:
        return self.ready[0].model_name()

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        """Generate one path, on the first engine that responds."""
        return self._generate(prompt, lambda engine: engine.stream(prompt, seed=seed), seed, None)

    def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue a beginning; that of a running path first on the path's own engine, which has read it."""
        place = self._places.get(seed)
        return self._generate(prompt, lambda engine: engine.extend(prompt, beginning, options, seed=seed), None, place)

    def opens_thinking(self, prompt: Prompt) -> bool:
        return self.ready[0].opens_thinking(prompt)

    async def _generate(self, prompt: Prompt, start: StartRequest, seed: int | None, place: int | None) -> TokenStream:
        """A path or a continuation, on the engine at `place` or else on the first that responds.

        If none does, all are tried once more, and a busy one is given the time that it wants; unless that took long,
        because servers that are silent would be waited for twice.
        """
        tried, began = set[int](), self.loads.clock()
        engines, key = self._impatient, _prompt_key(prompt)
        while True:
            index = self.loads.choose(key, tried) if place is None or tried else place
            begun = False
            try:
                async with aclosing(self._generate_on(index, engines[index], key, start, seed)) as chunks:
                    async for chunk in chunks:
                        begun = True
                        yield chunk
                return
            except EngineError as error:
                if len(engines) > 1:
                    error.at_server(_name(self.ready[index], index + 1))
                if begun or not isinstance(error, EngineUnavailable):
                    raise
                tried.add(index)
                if len(tried) == len(engines):
                    if all(map(is_, engines, self.ready)) or self.loads.clock() - began > SKIP_SECONDS:
                        raise
                    tried, engines = set(), list(self.ready)

    async def _generate_on(
        self, index: int, engine: Engine, key: int, start: StartRequest, seed: int | None
    ) -> TokenStream:
        """A path or a continuation on one engine, counted; the place of a path is kept under its seed."""
        with self.counted(index, key) as request:
            if seed is not None:
                self._places[seed] = index
            try:
                async with aclosing(start(engine)) as chunks:
                    async for chunk in chunks:
                        request.tokens += len(chunk) + getattr(chunk, "unread", 0)
                        yield chunk
            except EngineError as error:
                request.failed = True
                if not isinstance(error, EngineRejected | MissingLogprobs):
                    self.suspect(index, gone=isinstance(error, EngineUnavailable))
                raise
            finally:
                if seed is not None:
                    self._places.pop(seed, None)

    @contextmanager
    def counted(self, index: int, prompt: int | None) -> Iterator[CountedRequest]:
        """Count a request to an engine as load for as long as it runs."""
        request, began = CountedRequest(), self.loads.clock()
        self.loads.begin(index, prompt)
        try:
            yield request
        finally:
            self.loads.end(index, request.tokens, self.loads.clock() - began, failed=request.failed)

    def suspect(self, index: int, *, gone: bool) -> None:
        """A request to this engine has failed: check all engines now, and skip this one if it does not respond."""
        self.loads.add_failure(index, gone=gone)
        self._suspicion.set()

    async def check(self) -> None:
        """Check whether every engine responds; some cannot tell, and one whose check fails does not."""
        results = await asyncio.gather(*(engine.responds() for engine in self.ready), return_exceptions=True)
        for index, result in enumerate(results):
            if result is not None:
                self.loads.add_check(index, bool(result) and not isinstance(result, BaseException))

    async def keep_checking(self) -> None:
        """Check every few seconds, and whenever a path has failed."""
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(CHECK_SECONDS):  # wait_for of Python 3.11 may swallow a cancel
                    await self._suspicion.wait()
            self._suspicion.clear()
            await self.check()


def _name(engine: Engine, number: int) -> str:
    """The engine's address without secrets, or its number."""
    shown = getattr(engine, "shown", None)
    return shown if isinstance(shown, str) else f"{engine.model_name()} {number}"


def _prompt_key(prompt: Prompt) -> int:
    return crc32(json.dumps(prompt.messages, default=str, sort_keys=True).encode())
