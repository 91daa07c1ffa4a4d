"""Where the work of a recording or a benchmark is done: beside the engine of this process, or on other machines."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, NamedTuple, Protocol

from sureenough.engines.base import Engine, opened


class OpenExecutor(Protocol):
    """Calls functions, each with an open engine as its first argument."""

    @property
    def slots(self) -> int:
        """Calls that make sense at once."""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `await function(engine, *arguments)` returns; errors of ours are raised here, wherever they happened."""


class Executor(Protocol):
    """What opens engines and calls functions with them."""

    def open(self, *, parallel: int, calls: int) -> AbstractAsyncContextManager[OpenExecutor]:
        """Ready for so many calls at once with so many paths together, on every machine."""


class _OpenInProcess(NamedTuple):
    engine: Engine
    slots: int

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await function(self.engine, *arguments)


class InProcess:
    """One engine, used by this process."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    @asynccontextmanager
    async def open(self, *, parallel: int, calls: int) -> AsyncIterator[OpenExecutor]:
        async with opened(self.engine, parallel) as ready:
            yield _OpenInProcess(ready, calls)
