"""What stands between a client and a server: a relay that cuts connections, and an HTTP proxy."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit


@asynccontextmanager
async def relay(host: str, port: int, *, cut_after: int | None = None) -> AsyncIterator[int]:
    """The port of a relay, which cuts each connection after so many bytes of the server's."""
    talks: set[asyncio.Task[None]] = set()

    async def both(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        talks.add(task)
        there, back = await asyncio.open_connection(host, port)
        try:
            await either(passed(reader, back, None), passed(there, writer, cut_after))
        finally:
            for side in (writer, back):
                side.transport.abort()
            talks.discard(task)

    listening = await asyncio.start_server(both, "127.0.0.1", 0)
    try:
        yield listening.sockets[0].getsockname()[1]
    finally:
        listening.close()
        for task in talks.copy():
            task.cancel()
        await asyncio.gather(*talks, return_exceptions=True)
        await asyncio.sleep(0)  # transports close their sockets in the loop's next turn


async def either(*works: Coroutine[Any, Any, None]) -> None:
    """Until one of these is over; no other goes on."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in tasks:
            task.cancel()


async def passed(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, most: int | None) -> None:
    """Pass on what comes, up to so many bytes."""
    try:
        while raw := await reader.read(4096):
            writer.write(raw if most is None else raw[:most])
            await writer.drain()
            if most is not None:
                most -= len(raw)
                if most <= 0:
                    return
    except ConnectionError:
        return


class Proxy:
    """Keeps the heads of requests. Plain ones are passed on, TLS goes through a tunnel."""

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
