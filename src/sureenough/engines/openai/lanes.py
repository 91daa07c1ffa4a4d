"""A connection a path, straight on asyncio: a transport for httpx whose cost is by the read, not by the chunk.

httpx's own transport walks a pool of all connections whenever one moves, and parses each chunk of a body apart; with
hundreds of streams of one-token chunks that is most of the client's work. Closing here is a single call that cannot be
interrupted, so a cancelled path never leaves its socket open.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Final

import httpx

from sureenough.engines.openai.http1 import Body, Head, head_of, request_bytes
from sureenough.engines.openai.sockets import AT_ONCE, Socket

LARGEST_HEAD: Final = 1 << 16
Times = Mapping[str, float | None]
"""Seconds that a request allows, as httpx says them."""


class Lanes(httpx.AsyncBaseTransport):
    """As many connections as there are requests at a time; those that are free are used again, the latest first."""

    def __init__(self) -> None:
        self._buffer = memoryview(bytearray(AT_ONCE))
        self._free: dict[tuple[str, int], list[Lane]] = {}

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send a request down a free lane, which is its own until the response is closed."""
        url = request.url
        place = (url.host, url.port or 80)
        free = self._free.setdefault(place, [])
        while free and not free[-1].open:  # the server hung up meanwhile, as llama.cpp does after five idle seconds
            free.pop().close()
        times: Times = request.extensions.get("timeout", {})
        lane = free.pop() if free else await self._new(place, times)
        try:
            async with _in_time(times.get("read")):
                head = await lane.ask(request)
        except BaseException:
            lane.close()
            raise
        body = Body(head)
        body.reusable &= request.headers.get("connection") != "close"
        return httpx.Response(head.status, headers=head.headers, stream=_Stream(lane, body, free, times.get("read")))

    async def _new(self, place: tuple[str, int], times: Times) -> Lane:
        try:
            async with asyncio.timeout(times.get("connect")):
                loop = asyncio.get_running_loop()
                _, socket = await loop.create_connection(lambda: Socket(self._buffer), *place)
        except TimeoutError:
            raise httpx.ConnectTimeout("no connection in time") from None
        except OSError as error:
            raise httpx.ConnectError(_why(error)) from None
        except (OverflowError, UnicodeError):  # a port or a name that cannot be
            raise httpx.ConnectError("there is no such address") from None
        return Lane(socket)

    async def aclose(self) -> None:
        """Close every connection."""
        for lanes in self._free.values():
            for lane in lanes:
                lane.close()
        self._free.clear()


@asynccontextmanager
async def _in_time(seconds: float | None) -> AsyncIterator[None]:
    """Streams are watched by their reader, and wait here for as long as it takes."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError:
        raise httpx.ReadTimeout(f"no reply in {seconds:g} s") from None


def _why(error: OSError) -> str:
    """In the system's words; a name with several addresses fails several times, mostly for one reason."""
    codes = dict.fromkeys(re.findall(r"\[Errno (\d+)\]", str(error)))
    return ", ".join(os.strerror(int(code)) for code in codes) or error.strerror or str(error)


class Lane:
    """One connection."""

    def __init__(self, socket: Socket) -> None:
        self._socket = socket
        self._rest = b""  # came with the head, and belongs to the body

    async def ask(self, request: httpx.Request) -> Head:
        """Send a request; the head of the reply."""
        body = b"".join([part async for part in request.stream])  # type: ignore[union-attr]
        self._socket.transport.write(request_bytes(request, body))
        while True:
            head = head_of(await self._head())
            if head.status >= 200:  # what comes before is only a promise
                return head

    async def _head(self) -> bytes:
        raw, self._rest = self._rest, b""
        while (end := raw.find(b"\r\n\r\n")) < 0:
            more = await self.read()
            if not more:
                raise httpx.RemoteProtocolError("Server disconnected without sending a response.")
            raw += more
            if len(raw) > LARGEST_HEAD and b"\r\n\r\n" not in raw:
                raise httpx.RemoteProtocolError("the head of the reply has no end")
        self._rest = raw[end + 4 :]
        return raw[: end + 4]

    async def read(self) -> bytes:
        """What has come, at least one byte; nothing at the end."""
        if self._rest:
            rest, self._rest = self._rest, b""
            return rest
        try:
            return await self._socket.read()
        except OSError as error:
            raise httpx.ReadError(error.strerror or str(error)) from None

    @property
    def open(self) -> bool:
        """Whether it can be used again."""
        return self._socket.open

    def close(self) -> None:
        """Hang up, at once."""
        self._socket.transport.abort()


class _Stream(httpx.AsyncByteStream):
    """A reply's body; closing it frees the lane, or hangs up where the reply was not read to its end."""

    def __init__(self, lane: Lane, body: Body, free: list[Lane], seconds: float | None) -> None:
        self._lane, self._body, self._free, self._seconds = lane, body, free, seconds
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while not self._body.done:
            raw = await (self._lane.read() if self._seconds is None else self._read())
            part = self._body.feed(raw) if raw else self._body.end()
            if part:
                yield part

    async def _read(self) -> bytes:
        async with _in_time(self._seconds):
            return await self._lane.read()

    async def aclose(self) -> None:
        """Free the lane or hang up; nothing here waits."""
        if not self._closed:
            self._closed = True
            if self._body.done and self._body.reusable and self._lane.open:
                self._free.append(self._lane)
            else:
                self._lane.close()
