"""A connection a path: requests go to whichever lane is free, so that their number does not slow each other down.

One pool for hundreds of streams looks at all its connections whenever one of them moves; here nobody looks.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from types import TracebackType
from typing import Any, Self

import httpx


class Lanes(httpx.AsyncBaseTransport):
    """As many connections as there are requests at a time; those that are free are used again, the latest first."""

    def __init__(self) -> None:
        self._trust: dict[str, ssl.SSLContext] = {}  # by scheme; slow to make, so once for all lanes
        self._free: list[httpx.AsyncHTTPTransport] = []
        self._all: list[httpx.AsyncHTTPTransport] = []
        self._closing: set[asyncio.Future[None]] = set()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request down a free lane, which is its own until the response is closed."""
        lane = self._free.pop() if self._free else self._new(request.url.scheme)
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            self.finish(lane.aclose())  # nobody knows in what state it is
            self._all.remove(lane)
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Held(response.stream, lambda stream: self._closed(stream, lane))
        return response

    def finish(self, closing: Coroutine[Any, Any, None]) -> asyncio.Future[None]:
        """Close something to the end, even where whoever wants it closed is cancelled twice."""
        task = asyncio.ensure_future(closing)
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)
        return task

    async def _closed(self, stream: httpx.AsyncByteStream, lane: httpx.AsyncHTTPTransport) -> None:
        await asyncio.shield(self.finish(stream.aclose()))
        self._free.append(lane)

    def _new(self, scheme: str) -> httpx.AsyncHTTPTransport:
        if scheme not in self._trust:
            bare = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # plain HTTP never looks at it
            self._trust[scheme] = httpx.create_ssl_context() if scheme == "https" else bare
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        lane = httpx.AsyncHTTPTransport(verify=self._trust[scheme], limits=limits)
        self._all.append(lane)
        return lane

    async def aclose(self) -> None:
        """Close every connection."""
        if self._closing:
            await asyncio.wait(self._closing)
        for lane in self._all:
            await lane.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None = None,
        error: BaseException | None = None,
        trace: TracebackType | None = None,
    ) -> None:
        await self.aclose()


class _Held(httpx.AsyncByteStream):
    """A response's bytes; closing it frees the lane."""

    def __init__(
        self, stream: httpx.AsyncByteStream, close: Callable[[httpx.AsyncByteStream], Awaitable[None]]
    ) -> None:
        self._stream, self._close = stream, close

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._stream.__aiter__()

    async def aclose(self) -> None:
        """Close the stream and free its lane."""
        await self._close(self._stream)
