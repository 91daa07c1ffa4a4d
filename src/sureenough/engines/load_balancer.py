"""Several engines with the same model as one: the one with the fewest running paths gets the next.

A path or a continuation that an engine does not begin goes to another; one that has begun is never moved. An engine
that refuses what another accepts gets no path for a while, as one that does not respond.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Collection, Sequence
from contextlib import AsyncExitStack, aclosing, asynccontextmanager
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final, Literal

from sureenough.core.events import Token
from sureenough.engines.base import (
    End,
    Engine,
    ForwardingEngine,
    Part,
    Prompt,
    StartRequest,
    TokenStream,
    as_engine,
    as_part,
)
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError

CHECK_SECONDS: Final = 5.0  # between two checks of all engines
SKIP_SECONDS: Final = 30.0  # for which an engine that failed gets no path
MISSES: Final = 2  # checks in a row without a response after which a server gets no path; a busy one may miss one
FAILURES: Final = 2  # requests in a row that fail once sent: their server, idle again at once, would get all others
AFFINITY: Final = 1.25  # a server that has read the prompt may have so many times the least load, or one path more
MOST_PROMPTS: Final = 4096  # that are remembered of a server

Fate = Literal["finished", "refused", "failed", "gone"]
"""How a request ended: also one that was closed before its end is finished; one to a server that is gone was not
received. Whose fault a refusal is shows when another server begins the same request."""


def fate_of(error: EngineError) -> Fate:
    if isinstance(error, EngineUnavailable):
        return "gone"
    return "refused" if isinstance(error, EngineRejected | MissingLogprobs) else "failed"


@dataclass(slots=True, eq=False)
class ServerLoad:
    """What one server does and has done. Continuations and requests that are passed through count as paths."""

    server: str
    running: int = 0
    finished: int = 0
    failed: int = 0
    tokens: int = 0
    prompts: set[int] = field(default_factory=set)  # that it has read lately
    _skipped_until: float = 0.0
    _misses: int = 0  # checks without a response, the latest ones in a row
    _failures: int = 0  # requests that failed, the latest ones in a row

    @property
    def started(self) -> int:
        return self.running + self.finished + self.failed

    @property
    def available(self) -> bool:
        return self._misses < MISSES and self._skipped_until <= monotonic()

    def begin(self, prompt: int | None = None) -> None:
        self.running += 1
        if prompt is not None:
            if len(self.prompts) == MOST_PROMPTS:
                self.prompts.clear()
            self.prompts.add(prompt)

    def end(self, fate: Fate) -> None:
        self.running -= 1
        if fate == "finished":
            self.finished += 1
            self._failures = 0
            return
        self.failed += 1
        self._failures += fate != "refused"
        if fate == "gone" or (fate == "failed" and self._failures >= FAILURES):
            self.skip()

    def skip(self) -> None:
        self._skipped_until = monotonic() + SKIP_SECONDS
        self.prompts.clear()  # a server that has died has forgotten them

    def add_check(self, responds: bool) -> None:
        """A server that was gone and responds again is used at once; one that fails paths but passes checks is not."""
        if responds and self._misses:
            self._skipped_until = 0.0
        self._misses = 0 if responds else self._misses + 1

    def __str__(self) -> str:
        state = "" if self.available else ", does not respond"
        return f"{self.server}: {self.started:,} paths ({self.failed:,} failed), {self.tokens:,} tokens{state}"


def choose(loads: Sequence[ServerLoad], prompt: int | None = None, tried: Collection[int] = ()) -> int:
    """Of the available servers, or of all if none is, the least loaded; one that has read the prompt may have more."""
    untried = [index for index in range(len(loads)) if index not in tried]
    candidates = [index for index in untried if loads[index].available] or untried
    least = min(loads[index].running for index in candidates)
    limit = max(AFFINITY * least, least + 1) if least else 0  # an idle server comes first
    near = [index for index in candidates if prompt in loads[index].prompts and loads[index].running <= limit]
    return min(near or candidates, key=lambda index: loads[index].running)


class LoadBalancer(ForwardingEngine):
    """Distributes paths over engines. Several runs may share it; the load is that of all of them together."""

    def __init__(self, engines: Sequence[Engine], loads: Sequence[ServerLoad] = ()) -> None:
        if not engines:
            raise UsageError("engines is empty; give at least one engine")
        self.engines = list(map(as_engine, engines))
        names = (one.server_address() or f"{one.model_name()} {n}" for n, one in enumerate(self.engines, 1))
        self.loads = loads or list(map(ServerLoad, names))
        self._impatient = [engine.impatient() for engine in self.engines] if len(engines) > 1 else self.engines
        first = self.engines[0]
        self.servers, self.window, self.k, self.chat = len(engines), first.window, first.k, first.chat
        self.longest_window = min(engine.longest_window for engine in self.engines)
        self.stops_at_once = all(engine.stops_at_once for engine in self.engines)
        self.max_path_tokens = min(filter(None, (engine.max_path_tokens for engine in self.engines)), default=None)

    def prepare(self) -> None:
        for engine in self.engines:
            engine.prepare()

    def model_name(self) -> str:
        return self.engines[0].model_name()

    def sampling(self) -> dict[str, Any]:
        return self.engines[0].sampling()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[LoadBalancer]:
        async with AsyncExitStack() as stack:
            ready = [await stack.enter_async_context(engine.open(parallel=parallel)) for engine in self.engines]
            await stack.enter_async_context(checked(self.loads, ready))
            yield LoadBalancer(ready, self.loads)

    async def forward(self, prompt: Prompt, start: StartRequest) -> TokenStream:
        """A path or a continuation, on the first engine that begins it; if none does, the error is the last one's."""
        key, attempts = hash(repr(prompt.messages)), _Attempts(self.loads, self._impatient, self.engines)
        while True:
            index = choose(self.loads, key, attempts.tried)
            load, begun = self.loads[index], False
            fate: Fate = "finished"
            load.begin(key)
            try:
                async with aclosing(start(attempts.engines[index])) as chunks, aclosing(_with_tokens(chunks)) as parts:
                    async for chunk in parts:
                        part = as_part(chunk)
                        load.tokens += len(part.tokens) + part.unread
                        if not begun:
                            begun = True
                            attempts.skip_refusing()
                        yield chunk
                return
            except EngineError as error:
                fate = fate_of(error)
                if len(self.engines) > 1:
                    error.at_server(load.server)
                if begun and fate == "refused" and attempts.another(index):
                    fate = "failed"
                    raise EngineError(str(error)) from None  # which loses the path, not the run
                if begun or not attempts.add(index, fate):
                    raise
            finally:
                load.end(fate)


class _Attempts:
    """The engines that a path has tried. If none responds, all are tried once more, with the patience of busy ones."""

    def __init__(self, loads: Sequence[ServerLoad], impatient: Sequence[Engine], patient: Sequence[Engine]) -> None:
        self.engines = impatient
        self.tried = set[int]()
        self._loads, self._patient, self._began = loads, patient, monotonic()
        self._refused = set[int]()

    def another(self, index: int) -> bool:
        """Whether an engine is available that was not tried, beside this one."""
        return any(load.available for n, load in enumerate(self._loads) if n != index and n not in self.tried)

    def add(self, index: int, fate: Fate) -> bool:
        if fate != "gone" and not self.another(index):
            return False
        self.tried.add(index)
        if fate == "refused":
            self._refused.add(index)
        if len(self.tried) < len(self._loads):
            return True
        if self.engines == self._patient or monotonic() - self._began > SKIP_SECONDS:
            return False  # that took long already
        self.tried, self.engines = set(self._refused), self._patient
        return True

    def skip_refusing(self) -> None:
        """Another engine has begun what these refused."""
        for index in self._refused:
            self._loads[index].skip()


async def _with_tokens(chunks: TokenStream) -> TokenStream:
    """What an engine sends. Text before the first token is held back until that comes, or the end: none may come."""
    held: list[Part | Sequence[Token]] = []
    begun = False
    async for chunk in chunks:
        part = as_part(chunk)
        held.append(chunk)
        begun = begun or bool(part.tokens or part.unread or isinstance(part, End))
        while begun and held:
            yield held.pop(0)
    for chunk in held:
        yield chunk


@asynccontextmanager
async def checked(loads: Sequence[ServerLoad], engines: Sequence[Engine]) -> AsyncIterator[None]:
    """Check every few seconds whether each of several engines responds; some cannot tell."""

    async def check() -> None:
        while len(engines) > 1:
            await asyncio.sleep(CHECK_SECONDS)
            results = await asyncio.gather(*(engine.responds() for engine in engines), return_exceptions=True)
            for load, result in zip(loads, results, strict=True):
                if result is not None:
                    load.add_check(result is True)

    checks = asyncio.create_task(check())
    try:
        yield
    finally:
        checks.cancel()
        await asyncio.gather(checks, return_exceptions=True)
