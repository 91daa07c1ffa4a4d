"""A request takes no longer than its sender allows, and an address that cannot be is an error of the network."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from sureenough.engines.openai.lanes import Lanes

HEAD = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n"


def got(said: bytes, **options: float | None) -> bytes:
    """What a server that says this, and then nothing more, is heard to say."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(said)
        await reader.read()  # until the client leaves
        writer.close()

    async def ask(client: httpx.AsyncClient, url: str) -> bytes:
        return (await client.get(url, timeout=httpx.Timeout(None, **options))).content

    return asyncio.run(asyncio.wait_for(_served(talk, ask), timeout=30))


async def _served(
    talk: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
    ask: Callable[[httpx.AsyncClient, str], Awaitable[bytes]],
) -> bytes:
    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    async with server, httpx.AsyncClient(transport=Lanes()) as client:
        return await ask(client, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/")


@pytest.mark.parametrize("said", [b"", HEAD[:20], HEAD, HEAD + b"hell"], ids=["nothing", "half a head", "head", "body"])
def test_a_server_that_falls_silent(said: bytes) -> None:
    with pytest.raises(httpx.ReadTimeout, match=r"no reply in 0\.05 s"):
        got(said, read=0.05)


def test_one_that_does_not() -> None:
    assert got(HEAD + b"hello", read=20.0) == got(HEAD + b"hello") == b"hello"


@pytest.mark.parametrize("url", ["http://127.0.0.1:99999/", "http://a..b:8000/", f"http://{'a' * 70}.example/"])
def test_an_address_that_cannot_be(url: str) -> None:
    async def ask() -> None:
        async with httpx.AsyncClient(transport=Lanes()) as client:
            await client.get(url)

    with pytest.raises(httpx.ConnectError):
        asyncio.run(ask())
