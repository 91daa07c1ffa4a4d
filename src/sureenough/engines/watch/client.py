"""The client of a server that watches its own paths: the header of a request, and the record of a path.

vLLM with the monitor inside (docs/vllm.md) reads the header; every other server ignores it and sends the
log-probabilities that the same request asks for, or every token if it asks for none. No request is made to find out
which it is.
"""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from sureenough.core.events import Summary
from sureenough.engines.base import Prompt, WatchOptions
from sureenough.engines.openai.errors import TransportError
from sureenough.engines.openai.wire import InvalidReply
from sureenough.engines.watch.protocol import (
    MAX_KEYS,
    MAX_REPORTS_PER_SECOND,
    POLLED_HEADER,
    PROGRESS_SECONDS,
    PROTOCOL_VERSION,
    WATCHED_HEADER,
    K,
    WatchRequest,
    is_countable,
)
from sureenough.engines.watch.record import UNKNOWN_PATH, Progress, parse_summary

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from sureenough.engines.openai.http import Transport


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


LARGEST_COUNTS: Final = 1 << 20
"""Bytes of a response with the progress of paths."""
CANCEL_SECONDS: Final = 0.03
"""Time that a server gets to stop cancelled paths before their tokens are counted, and between two counts."""


def is_watched(headers: Mapping[str, str]) -> bool:
    """Whether a response's headers say that its path is watched."""
    return bool(headers.get(WATCHED_HEADER) == str(PROTOCOL_VERSION))


class MonitorClient:
    """The monitor of the server at this address, if it has one."""

    def __init__(self, transport: Transport, address: URL) -> None:
        self._transport, self._url = transport, _url(address)
        self.present = False  # it has watched a path
        self._unreadable = False  # its records do not reach us
        self._cancelled: list[str] = []  # keys of paths whose tokens are to be counted
        self._counting: asyncio.Future[dict[str, int | None]] | None = None
        self._poller = ProgressPoller(self._fetch_progress)

    def watch_request(self, prompt: Prompt, k: int, sampling: Mapping[str, Any]) -> WatchRequest | None:
        """How one path is to be watched, under a key that cannot be guessed; None if it cannot be."""
        watch = prompt.watch
        if self._unreadable or watch is None or not (k == K if prompt.signals else is_countable(sampling)):
            return None
        request = WatchRequest.of(secrets.token_urlsafe(18), watch, signals=prompt.signals)
        return replace(request, polled=not self._poller.failed)

    def reader(
        self, watch: WatchRequest | None, response: aiohttp.ClientResponse
    ) -> AbstractAsyncContextManager[SupportsRead | PolledReply]:
        """What to read the response with: one whose counts must be asked for brings these, too."""
        if watch is None or not watch.polled or POLLED_HEADER not in response.headers:
            return nullcontext(response.content)
        return self._poller.following(watch.key, response.content)

    def summary(self, watch: WatchRequest, record: Mapping[str, Any] | None) -> Summary:
        """The path as the server saw it, from the record that came with its last event.

        If the server watched a path but has no record of it, later paths are not watched there.
        """
        reason = "the reply came without it"
        try:
            if record is not None and "lost" not in record:
                return parse_summary(record, watch.window)
            if record is not None:
                reason = str(record["lost"])
        except ValueError as error:
            reason = str(error)
        self._unreadable |= record is None or reason == UNKNOWN_PATH
        raise InvalidReply("the server watched a path, but its record could not be read: ", reason)

    async def report_cancelled(self, watch: WatchRequest, options: WatchOptions, counted: int) -> None:
        """Count the tokens of a cancelled path that the server generated after the last that we heard of."""
        if options.report_unheard is None or self._unreadable or not self.present:
            return
        self._cancelled.append(watch.key)
        if self._counting is None:  # many paths are cancelled at once: one request for all
            self._counting = asyncio.ensure_future(self._count_cancelled())
        total = (await asyncio.shield(self._counting))[watch.key]
        if total is not None:
            options.report_unheard(max(0, total - counted))

    async def _count_cancelled(self) -> dict[str, int | None]:
        await asyncio.sleep(CANCEL_SECONDS)
        keys, self._cancelled, self._counting = self._cancelled, [], None
        return await settled_counts(self._fetch_counts, keys)

    async def _fetch_counts(self, keys: Sequence[str]) -> list[int | None]:
        paths = await self._fetch_progress(keys, seconds=1)
        return [None if path is None else path.tokens for path in paths or [None] * len(keys)]

    async def _fetch_progress(self, keys: Sequence[str], seconds: float = 5) -> list[Progress | None] | None:
        """How far these paths are; None for one that the server does not know, or for all if they cannot be read."""
        url, body = self._url.with_path(f"{self._url.path}/paths"), json.dumps({"keys": keys, "tails": True}).encode()
        try:
            response = await self._transport.fetch("POST", url, body, seconds=seconds, limit=LARGEST_COUNTS)
            counts = json.loads(response.body)
            tails = counts.get("tails") or [None] * len(keys)  # earlier versions send none
            paths = [_progress(*path) for path in zip(counts["tokens"], tails, strict=True)]
            return paths if len(paths) == len(keys) else None
        except (TransportError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return None


def _progress(tokens: object, tail: object) -> Progress | None:
    if tokens is None:
        return None
    if type(tokens) is not int:
        raise ValueError("malformed counts")
    return Progress(tokens, float(tail) if isinstance(tail, int | float) and isfinite(tail) else None)


async def settled_counts(
    fetch: Callable[[Sequence[str]], Awaitable[list[int | None]]], keys: Sequence[str]
) -> dict[str, int | None]:
    """Token counts of cancelled paths, once they no longer grow."""
    counts: list[int | None] = []
    for _ in range(10):
        previous, counts = counts, await fetch(keys)
        if counts == previous:
            break
        await asyncio.sleep(CANCEL_SECONDS)
    return dict(zip(keys, counts, strict=True))


class MonitorInfo(NamedTuple):
    """What a monitor reports about itself."""

    version: str  # of sureenough on the server
    window: int  # the longest that it can watch


async def fetch_monitor_info(transport: Transport, address: URL) -> MonitorInfo | None:
    """What the monitor of the server at this address offers, if it has one."""
    try:
        response = await transport.fetch("GET", _url(address), seconds=10)
        info = json.loads(response.body)
        return (
            MonitorInfo(str(info["sureenough"]), int(info["window"])) if info["protocol"] == PROTOCOL_VERSION else None
        )
    except (TransportError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _url(address: URL) -> URL:
    return address.with_path(f"{address.path.rstrip('/')}/sureenough")
