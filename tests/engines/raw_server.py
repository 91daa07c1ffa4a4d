"""A server that answers each request with bytes chosen by the test, for replies that no HTTP library would send."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

Answer = Callable[["RawServer", asyncio.StreamWriter, dict[str, Any]], Awaitable[None]]
STREAM_HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
CHUNKED_HEAD = STREAM_HEAD + b"Transfer-Encoding: chunked\r\n\r\n"


class RawServer:
    """Counts requests, and connections that are open."""

    def __init__(self, answer: Answer) -> None:
        self.answer = answer
        self.requests = self.connections = self.opened = 0
        self.overfed = False  # a client read an endless reply up to our own limit
        self.heads: deque[bytes] = deque(maxlen=100)
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self.opened += 1
        try:
            while True:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                head = self.heads[-1].lower()
                size = int(head.split(b"content-length:")[1].split(b"\r\n")[0]) if b"content-length:" in head else 0
                body = await reader.readexactly(size)
                self.requests += 1
                await self.answer(self, writer, json.loads(body) if body else {})
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            self.connections -= 1
            writer.transport.abort()

    async def flood(self, writer: asyncio.StreamWriter, piece: bytes, most: int = 1 << 30) -> None:
        """Send a piece again and again until the client goes away."""
        sent = 0
        while sent < most:
            writer.write(piece)
            await writer.drain()
            sent += len(piece)
        self.overfed = True
        raise ConnectionError(f"the client took {sent:,} bytes")


@asynccontextmanager
async def raw_server(answer: Answer) -> AsyncIterator[RawServer]:
    """A server on a free port of this machine; all its connections must be closed in the end."""
    server = RawServer(answer)
    listening = await asyncio.start_server(server.serve, "127.0.0.1", 0, limit=1 << 26)
    try:
        server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server
    finally:
        listening.close()


async def all_closed(server: RawServer) -> None:
    """Wait until the server has no connection; the test's time limit ends it."""
    while server.connections:
        await asyncio.sleep(0.002)


def token_event(text: str, *, values: list[float] | None = None, finish: str | None = None) -> str:
    """An event with one token and its candidates."""
    top = [{"token": "t", "logprob": value} for value in (values or [-0.5 - index for index in range(20)])]
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish}
    return json.dumps({"choices": [choice | {"logprobs": {"content": [{"token": text, "top_logprobs": top}]}}]})


def text_event(text: str, *, finish: str | None = None) -> str:
    """An event with text and no log-probabilities."""
    return json.dumps({"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": finish}]})


def stream_body(*events: str) -> bytes:
    """Events as they are sent."""
    return b"".join(f"data: {event}\n\n".encode() for event in events)


def chunked(body: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(body), body)
