"""Servers that break the protocol cost one path an error: no traceback, no leak, no memory without bound.

Names such as 14.2 are those of the tracker's list of defects.
"""

from __future__ import annotations

import asyncio
import base64
import gc
import os
import threading
import time
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any

import pytest

import sureenough as se
from sureenough.engines import Prompt
from sureenough.engines.local.engine import LocalConnection
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.engines.openai.errors import LONGEST_TEXT, ConnectError, ServerErrors, TransportError, parse_url
from sureenough.engines.openai.http import Transport
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable
from sureenough.server.passthrough import _headers
from tests.engines.raw_server import (
    CHUNKED_HEAD,
    STREAM_HEAD,
    Answer,
    RawServer,
    all_closed,
    chunked,
    raw_server,
    stream_body,
    token_event,
)

PROMPT = Prompt.user("?")


def run(answer: Answer, use: Callable[[RawServer], Awaitable[Any]]) -> Any:
    """Use a server, within a time that only a hang would need; no connection may be left."""

    async def all_of_it() -> Any:
        async with raw_server(answer) as server:
            result = await use(server)
            await all_closed(server)
            return result

    return asyncio.run(asyncio.wait_for(all_of_it(), timeout=30))


async def path_text(connection: Any, seed: int = 1) -> str:
    async with aclosing(connection.stream(PROMPT, seed=seed)) as chunks:
        return "".join([chunk.text async for chunk in chunks])


async def one_path(server: RawServer) -> str:
    return await path_text(OpenAI(server.url, "tiny", retries=0))


def whole_reply(body: dict[str, Any]) -> bytes:
    content = stream_body(token_event(f"seed {body['seed']}", finish="stop"), "[DONE]")
    return STREAM_HEAD + b"Content-Length: %d\r\n\r\n" % len(content) + content


# -- connections


@pytest.mark.parametrize("when", ["with the response", "later", "half of one"])
def test_14_2_stale_bytes_never_reach_the_next_request(when: str) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        unsolicited = whole_reply({"seed": 666})
        if when == "with the response":
            writer.write(whole_reply(body) + unsolicited)
            return
        writer.write(whole_reply(body))
        await asyncio.sleep(0.02)
        writer.write(unsolicited if when == "later" else unsolicited[:30])

    async def use(server: RawServer) -> list[str]:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            texts = []
            for seed in range(4):
                texts.append(await path_text(connection, seed))
                await asyncio.sleep(0.05)
            return texts

    assert run(answer, use) == [f"seed {seed}" for seed in range(4)]


def test_14_2_bytes_that_the_event_loop_has_not_read_yet_count_too() -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(whole_reply(body))
        # A thread, because the client does not let the loop run between its two requests.
        loop, again = asyncio.get_running_loop(), writer.get_extra_info("socket").dup()

        def send_later() -> None:
            time.sleep(0.05)
            again.send(whole_reply({"seed": 666}))
            again.close()
            sent.set()

        await loop.run_in_executor(None, send_later)

    async def use(server: RawServer) -> tuple[str, str]:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            first = await path_text(connection, 1)
            assert sent.wait(20)
            return first, await path_text(connection, 2)

    sent = threading.Event()
    assert run(answer, use) == ("seed 1", "seed 2")


def test_a_healthy_connection_is_used_again_and_14_7_closed_when_it_is_idle() -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def use(server: RawServer) -> int:
        url = parse_url(server.url)
        async with Transport(
            url, parallel=4, connect_seconds=5, write_seconds=5, headers={}, idle_seconds=0.2
        ) as transport:
            for _ in range(3):
                assert (await transport.fetch("GET", url, seconds=5)).body == b"ok"
            assert (server.opened, server.connections) == (1, 1)
            await all_closed(server)
            return server.opened

    assert run(answer, use) == 1


def test_a_server_that_does_not_read_the_request_has_a_time_limit() -> None:
    async def use() -> None:
        async def never(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await asyncio.sleep(20)
            finally:
                writer.transport.abort()

        listening = await asyncio.start_server(never, "127.0.0.1", 0, limit=1)
        async with listening:
            url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
            engine = OpenAI(url, "tiny", retries=0, timeouts=Timeouts(stall=0.2))
            with pytest.raises(EngineUnavailable, match=r"did not read the request within 0\.2 s"):
                await anext(engine.stream(Prompt.user("x" * 20_000_000), seed=1))

    asyncio.run(asyncio.wait_for(use(), 15))


# -- responses


def test_14_16_done_ends_a_path_although_the_connection_stays_open() -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(CHUNKED_HEAD + chunked(stream_body(token_event("42", finish="stop"), "[DONE]")))
        await asyncio.sleep(0.01)
        writer.write(chunked(stream_body(token_event("no, 666"))))

    start = time.monotonic()
    assert run(answer, one_path) == "42"
    assert time.monotonic() - start < 5, "the stall limit is 60 s"


@pytest.mark.parametrize("end", ["stall", "cut"])
def test_14_16_a_path_with_its_finish_reason_is_whole(end: str) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(CHUNKED_HEAD + chunked(stream_body(token_event("42", finish="stop"))))
        await writer.drain()
        if end == "cut":
            writer.transport.abort()

    async def use(server: RawServer) -> str:
        return await path_text(OpenAI(server.url, "tiny", retries=0, timeouts=Timeouts(stall=0.1)))

    assert run(answer, use) == "42"


@pytest.mark.parametrize(
    "length", [b"abc", "²".encode(), b"9" * 5000, b"-1", b"1, 2", b"0x10"], ids=lambda length: length[:4].decode()
)
def test_14_17_lengths_that_are_not_numbers_cost_one_path(length: bytes) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(STREAM_HEAD + b"Content-Length: " + length + b"\r\n\r\n" + stream_body(token_event("42")))

    gc.collect()
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(3):
        with pytest.raises(EngineError, match=r"not valid HTTP|broke off"):
            run(answer, one_path)
    gc.collect()
    assert len(os.listdir("/proc/self/fd")) <= before


@pytest.mark.parametrize(
    "raw",
    [
        b"SSH-2.0-x\r\n\r\n",
        b"HTTP/1.1 two\r\n\r\n",
        b"HTTP/1.1 200 x\r\nno colon\r\n\r\n",
        CHUNKED_HEAD + b"zz\r\n",
        CHUNKED_HEAD + b"-1\r\n",
        STREAM_HEAD + b"X-Request-Id: a\nb\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n" + b"X: x\r\n" * 100_000 + b"\r\n",
        CHUNKED_HEAD + chunked(b"data: " + b"[" * 200_000 + b"\n\n"),
    ],
    ids=["ssh", "status", "header", "chunk", "negative", "line feed", "long header", "many headers", "nested"],
)
def test_14_17_what_is_not_http_costs_one_path(raw: bytes) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(raw)

    with pytest.raises(EngineError):
        run(answer, one_path)


@pytest.mark.parametrize(
    ("head", "piece", "says"),
    [
        (b"HTTP/1.1 400 Bad\r\n\r\n", b"x" * 65_536, "answered 400: xxx"),
        (b"HTTP/1.1 400 Bad\r\nTransfer-Encoding: chunked\r\n\r\n", chunked(b"x" * 65_536), "answered 400: xxx"),
        (STREAM_HEAD + b"\r\n", b"x" * 65_536, "more than 2,097,152 bytes, which is the limit"),
        (STREAM_HEAD + b"\r\n", b"data: " + b"x" * 65_530 + b"\n", "more than 2,097,152 bytes, which is the limit"),
        (STREAM_HEAD + b"Content-Encoding: gzip\r\n\r\n", b"x" * 65_536, "compressed .'gzip'., which the request"),
        (CHUNKED_HEAD + b"0\r\n", b"X-Trailer: x\r\n" * 1000, "not valid HTTP"),
        (b"HTTP/1.1 200 OK\r\n", b"X-Header: x\r\n" * 1000, "not valid HTTP"),
    ],
    ids=["error", "chunked error", "line", "data lines", "gzip", "trailers", "headers"],
)
def test_14_5_nothing_that_a_server_sends_grows_without_bound(head: bytes, piece: bytes, says: str) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(head)
        await server.flood(writer, piece, most=64 << 20)

    with pytest.raises(EngineError, match=says):
        run(answer, one_path)


def test_14_5_a_response_that_is_read_whole_has_a_limit() -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await server.flood(writer, b"x" * 65_536, most=64 << 20)

    async def use(server: RawServer) -> None:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            url = connection.endpoint("models")
            with pytest.raises(TransportError, match="more than 1,000 bytes, which is the limit"):
                await connection.transport.fetch("GET", url, seconds=10, limit=1000)

    run(answer, use)


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("http://127.0.0.1:9/", "Connection refused|refused"),
        ("http://a..b:8000/", "."),
        (f"http://{'a' * 70}.example/", "."),
    ],
)
def test_addresses_that_cannot_be_connected_to(url: str, error: str) -> None:
    async def use() -> None:
        async with OpenAI(url, "m", proxies=False).open(parallel=1) as connection:
            with pytest.raises(ConnectError, match=error):
                await connection.transport.fetch("GET", parse_url(url), seconds=20)

    asyncio.run(use())


@pytest.mark.parametrize(
    "sent", [b"", b"HTTP/1.1 200 OK\r\nConte", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell"]
)
def test_a_server_that_falls_silent(sent: bytes) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(sent)

    async def use(server: RawServer) -> None:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            with pytest.raises(TransportError, match=r"no response within 0\.05 s"):
                await connection.transport.fetch("GET", connection.endpoint("models"), seconds=0.05)

    run(answer, use)


# -- secrets


def test_14_4_credentials_that_a_server_quotes_are_hidden() -> None:
    url = parse_url("http://me:hush-hush@h/v1?token=query-secret")
    proxy = parse_url("http://her:proxy-word@p:3128")
    errors = ServerErrors(url, "m", "sk-secret", proxy)
    basic = base64.b64encode(b"me:hush-hush").decode()
    proxied = base64.b64encode(b"her:proxy-word").decode()
    text = errors.clean(f"Basic {basic}, {proxied}, hush-hush, proxy-word, query-secret, Bearer sk-secret, \ud83d end")
    assert text == "Basic ***, ***, ***, ***, ***, Bearer ***, ? end"
    body = b"x" * 290 + b" sk-secret"
    assert "sk-" not in str(errors.refused(400, body, {"x-request-id": "sk-secret"}, 20)), "cut after it is cleaned"


def test_14_4_a_basic_header_that_is_echoed_is_hidden() -> None:
    basic = base64.b64encode(b"me:hush").decode()

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        content = f"you sent Authorization: Basic {basic}".encode()
        writer.write(b"HTTP/1.1 400 Bad\r\nContent-Length: %d\r\n\r\n%s" % (len(content), content))

    async def use(server: RawServer) -> str:
        with pytest.raises(EngineRejected) as raised:
            await path_text(OpenAI(server.url.replace("http://", "http://me:hush@"), "tiny"))
        return str(raised.value)

    message = run(answer, use)
    assert "Basic ***" in message
    assert basic not in message


@pytest.mark.parametrize("space", [0, LONGEST_TEXT - 40, LONGEST_TEXT - 8])
@pytest.mark.parametrize("quoting", ["event", "finish_reason"])
def test_a_reply_that_cannot_be_read_is_quoted_without_the_key(quoting: str, space: int) -> None:
    key = "planted-key-0123456789"
    text = f"{'x' * space} {key} end"

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        wrong = text if quoting == "event" else token_event("b", finish=text)
        writer.write(CHUNKED_HEAD + chunked(stream_body(token_event("a"), wrong)))

    async def use(server: RawServer) -> str:
        with pytest.raises(EngineError) as raised:
            await path_text(OpenAI(server.url, "tiny", key=key))
        return str(raised.value)

    message = run(answer, use)
    assert "planted" not in message, "cut after it is cleaned"
    assert f"'{'x' * space} ***".replace("' ", "'") in message


@pytest.mark.parametrize("raw", [None, b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n"])
def test_errors_never_quote_the_query_of_a_url(raw: bytes | None) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        if raw is None:
            writer.transport.abort()
        else:
            writer.write(raw)

    async def use(server: RawServer) -> str:
        with pytest.raises(EngineUnavailable) as raised:
            await path_text(OpenAI(f"{server.url}?token=query-secret", "tiny", retries=0))
        return str(raised.value)

    assert "secret" not in run(answer, use)


# -- engines


class LocalServer:
    """As much of llama.cpp's server as a connection looks at."""

    users = visits = 1


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\n[1]", b"HTTP/1.1 200 x\r\nContent-Length: 1\r\n\r\n{"]
)
def test_14_20_a_local_server_that_fails_raises_only_our_errors(reply: bytes) -> None:
    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(reply)
        if not reply:
            writer.transport.abort()

    async def use(server: RawServer) -> dict[str, Any]:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            assert isinstance(connection, OpenAIConnection)
            return await LocalConnection(connection, LocalServer())._post("tokenize", {})  # type: ignore[arg-type]

    if reply:
        assert run(answer, use) == {}
    else:
        with pytest.raises(EngineUnavailable):
            run(answer, use)


def test_an_object_with_nothing_but_stream_is_an_engine() -> None:
    class Plain:
        async def stream(self, prompt: Prompt, *, seed: int) -> Any:
            yield [se.Token(r"\boxed{7}", 0.5, 9.0)]

    assert se.ask("3 + 4?", Plain(), "sc", paths=4).answer == "7"


@pytest.mark.parametrize(
    ("value", "sent"),
    [("a\nb", b"a b"), ("a\r\nSet-Cookie: x", b"a Set-Cookie: x"), ("\udcff", b"?"), ("\x00", None)],
)
def test_14_9_control_characters_in_an_upstreams_header_do_not_break_our_own(value: str, sent: bytes | None) -> None:
    headers = dict(_headers({"content-type": "text/event-stream", "x-request-id": value}))
    assert headers.get(b"x-request-id") == sent
    assert headers[b"content-type"] == b"text/event-stream"
