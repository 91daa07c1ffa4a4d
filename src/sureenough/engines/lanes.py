"""A connection a path, straight on asyncio: a transport for httpx whose cost is by the read, not by the chunk.

httpx's own transport walks a pool of all connections whenever one moves, and parses each chunk of a body apart; with
hundreds of streams of one-token chunks that is most of the client's work. Closing here is a single call that cannot be
interrupted, so a cancelled path never leaves its socket open.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from typing import Final

import httpx

from sureenough.engines.http1 import Body, Head, head_of, request_bytes

READ: Final = 1 << 16
"""Bytes that are taken from a socket at once, at most."""


class Lanes(httpx.AsyncBaseTransport):
    """As many connections as there are requests at a time; those that are free are used again, the latest first."""

    def __init__(self) -> None:
        self._trust: ssl.SSLContext | None = None  # slow to make: once for all
        self._free: dict[tuple[str, int], list[Lane]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request down a free lane, which is its own until the response is closed."""
        url = request.url
        secure = url.scheme == "https"
        place = (url.host, url.port or (443 if secure else 80))
        free = self._free.setdefault(place, [])
        lane = free.pop() if free else await self._new(place, secure, request.extensions.get("timeout", {}))
        try:
            head = await lane.ask(request)
        except BaseException:
            lane.close()
            raise
        return httpx.Response(head.status, headers=head.headers, stream=_Stream(lane, Body(head), free))

    async def _new(self, place: tuple[str, int], secure: bool, times: dict[str, float | None]) -> Lane:
        if secure and self._trust is None:
            self._trust = httpx.create_ssl_context()
        try:
            async with asyncio.timeout(times.get("connect")):
                reader, writer = await asyncio.open_connection(*place, ssl=self._trust if secure else None, limit=READ)
        except TimeoutError:
            raise httpx.ConnectTimeout("no connection in time") from None
        except OSError as error:
            raise httpx.ConnectError(error.strerror or str(error)) from None
        return Lane(reader, writer)

    async def aclose(self) -> None:
        """Close every connection."""
        for lanes in self._free.values():
            for lane in lanes:
                lane.close()
        self._free.clear()


class Lane:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def ask(self, request: httpx.Request) -> Head:
        """Send a request; the head of the reply."""
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        try:
            self._writer.write(request_bytes(request, body))
            await self._writer.drain()
            while True:
                head = head_of(await self._reader.readuntil(b"\r\n\r\n"))
                if head.status >= 200:  # what comes before is only a promise
                    return head
        except asyncio.IncompleteReadError:
            raise httpx.RemoteProtocolError("Server disconnected without sending a response.") from None
        except asyncio.LimitOverrunError:
            raise httpx.RemoteProtocolError("the head of the reply has no end") from None
        except OSError as error:
            raise httpx.ReadError(error.strerror or str(error)) from None

    async def read(self) -> bytes:
        """What has come, at least one byte; nothing at the end."""
        try:
            return await self._reader.read(READ)
        except OSError as error:
            raise httpx.ReadError(error.strerror or str(error)) from None

    @property
    def open(self) -> bool:
        """Whether it can be used again."""
        return not (self._reader.at_eof() or self._writer.is_closing())

    def close(self) -> None:
        """Hang up, at once."""
        self._writer.transport.abort()


class _Stream(httpx.AsyncByteStream):
    """A reply's body; closing it frees the lane, or hangs up where the reply was not read to its end."""

    def __init__(self, lane: Lane, body: Body, free: list[Lane]) -> None:
        self._lane, self._body, self._free = lane, body, free
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._body.done:
            raw = await self._lane.read()
            part = self._body.feed(raw) if raw else self._body.end()
            if part:
                yield part

    async def aclose(self) -> None:
        """Free the lane or hang up; nothing here waits."""
        if not self._closed:
            self._closed = True
            if self._body.done and self._body.reusable and self._lane.open:
                self._free.append(self._lane)
            else:
                self._lane.close()
