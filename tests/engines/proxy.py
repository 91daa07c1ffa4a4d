"""An HTTP proxy in a few lines: plain requests are passed on, TLS goes through a tunnel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

from tests.engines.relay import either, passed


class Proxy:
    """Keeps the first line and the headers of what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.url = ""

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection to one server."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            self.asked.append(head)
            verb, target, _ = head.split(" ", 2)
            tunnel = verb == "CONNECT"
            place = urlsplit(f"//{target}" if tunnel else target)
            there, back = await asyncio.open_connection(place.hostname, place.port)
            if tunnel:
                writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")
            else:
                back.write(head.replace(target, place.path, 1).encode())
            try:
                await either(passed(reader, back, None), passed(there, writer, None))
            finally:
                back.transport.abort()
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            writer.transport.abort()


@asynccontextmanager
async def proxying() -> AsyncIterator[Proxy]:
    """A proxy on a free port of this machine."""
    proxy = Proxy()
    listening = await asyncio.start_server(proxy.talk, "127.0.0.1", 0)
    try:
        proxy.url = f"http://me:hush@127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        yield proxy
    finally:
        listening.close()
