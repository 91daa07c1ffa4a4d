"""How far all watched paths of a client are, in one request every half second.

The replies themselves stay silent, apart from a count every 15 seconds. So if the requests fail, counts come less
often, and nothing is lost.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final, Protocol

from sureenough.engines.vllm.path_record import Progress
from sureenough.engines.vllm.protocol import MAX_KEYS, MAX_REPORTS_PER_SECOND, PROGRESS_SECONDS

MAX_FAILURES: Final = 3
"""Requests in a row that may fail; after that, later replies have their own counts again."""


class SupportsRead(Protocol):
    """The body of a response."""

    async def read(self, n: int) -> bytes:
        """The next bytes; none at the end."""


class PolledReply:
    """The reply of one path: its bytes, and how far the path is, whichever comes first."""

    def __init__(self, content: SupportsRead) -> None:
        self._content = content
        self._reading: asyncio.Task[bytes] | None = None
        self._progress: Progress | None = None
        self._waiter: asyncio.Future[None] | None = None

    def add(self, progress: Progress) -> None:
        """The path has grown."""
        self._progress = progress
        self._wake()

    async def read(self, n: int) -> bytes | Progress:
        """The next bytes, none at the end, or the path's progress."""
        loop = asyncio.get_running_loop()
        if self._reading is None:
            self._reading = loop.create_task(self._content.read(n))
            self._reading.add_done_callback(self._wake)
        while not self._reading.done() and self._progress is None:
            self._waiter = loop.create_future()
            await self._waiter
        if self._reading.done():
            reading, self._reading = self._reading, None
            return reading.result()
        progress, self._progress = self._progress, None
        assert progress is not None
        return progress

    def _wake(self, _: object = None) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def close(self) -> None:
        """Read no further."""
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.wait({self._reading})
            if not self._reading.cancelled():
                self._reading.exception()  # the connection broke, but its reader has left


class ProgressPoller:
    """Asks one server for the progress of all paths whose replies are read."""

    def __init__(self, fetch: Callable[[Sequence[str]], Awaitable[Sequence[Progress | None] | None]]) -> None:
        self._fetch = fetch
        self.failed = False
        self._replies: dict[str, PolledReply] = {}
        self._polling: asyncio.Task[None] | None = None

    @asynccontextmanager
    async def following(self, key: str, content: SupportsRead) -> AsyncIterator[PolledReply]:
        """Ask for this path as long as the block runs."""
        reply = self._replies[key] = PolledReply(content)
        if self._polling is None and not self.failed:
            self._polling = asyncio.get_running_loop().create_task(self._poll(), name="progress")
        try:
            yield reply
        finally:
            del self._replies[key]
            if not self._replies and self._polling is not None:
                self._polling.cancel()
                self._polling = None
            await reply.close()

    async def _poll(self) -> None:
        failures = 0
        while failures < MAX_FAILURES:
            await asyncio.sleep(max(PROGRESS_SECONDS, len(self._replies) / MAX_REPORTS_PER_SECOND))
            keys = list(self._replies)
            for start in range(0, len(keys), MAX_KEYS):
                paths = await self._fetch(keys[start : start + MAX_KEYS])
                failures = 0 if any(paths or ()) else failures + 1  # a server that knows none of them is another one
                for key, progress in zip(keys[start:], paths or (), strict=False):
                    if progress is not None and key in self._replies:
                        self._replies[key].add(progress)
        self.failed = True
