"""The HTTP engine against a server that can do anything: every shape of a reply, refusals, faults and secrets.

Servers that break the protocol cost one path an error: no traceback, no leak, no memory without bound.
Names such as 14.2 are those of the tracker's list of defects.
"""

from __future__ import annotations

import asyncio
import base64
import logging
import socket
import threading
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any

import httpx
import pytest

from sureenough.api import ask
from sureenough.core.events import Token
from sureenough.engines.base import End, Engine, ExtendOptions, Part, Prompt, as_part
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.local.engine import LocalConnection
from sureenough.engines.openai import errors, http
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.engines.openai.errors import LONGEST_TEXT, ServerErrors, TransportError, parse_url
from sureenough.engines.openai.http import READ_PIECE, TURN_BYTES, Transport, Turns
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import request
from sureenough.errors import CannotExtend, EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError
from tests.engines.misbehaving import Manner, Server, idle, serving
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

PLAIN = Manner()


class Got:
    """A path as it arrived."""

    def __init__(self) -> None:
        self.chunks: list[Part] = []

    @property
    def text(self) -> str:
        return "".join(chunk.text for chunk in self.chunks)

    @property
    def signals(self) -> list[tuple[float, float]]:
        return [(token.peak, token.conf) for token in self.tokens]

    @property
    def tokens(self) -> list[Token]:
        return [token for chunk in self.chunks for token in chunk.tokens]

    @property
    def end(self) -> End:
        assert isinstance(self.chunks[-1], End)
        return self.chunks[-1]

    @property
    def unread(self) -> int:
        return sum(chunk.unread for chunk in self.chunks)


def asked(
    manner: Manner | Callable[[int, int], Manner],
    then: Callable[[Server, Got], None] = lambda server, got: None,
    *,
    seed: int = 5,
    signals: bool = True,
    **options: Any,
) -> Got:
    """One path from a server with these manners; `then` sees the server before it goes."""
    got = Got()

    async def ask() -> None:
        async with serving(manner) as server:
            engine = OpenAI(server.url, "tiny", **options)
            try:
                async with aclosing(engine.stream(Prompt.user("?", signals=signals), seed=seed)) as chunks:
                    async for chunk in chunks:
                        got.chunks.append(as_part(chunk))
            finally:
                then(server, got)
                await idle(server)

    asyncio.run(within(ask()))
    return got


async def within(task: Coroutine[Any, Any, None]) -> None:
    await asyncio.wait_for(task, timeout=30)


def test_a_plain_reply() -> None:
    def then(server: Server, got: Got) -> None:
        assert server.paths == ["/v1/chat/completions"]
        body = server.requests[0]
        assert body["messages"] == [{"role": "user", "content": "?"}]
        assert (body["seed"], body["logprobs"], body["top_logprobs"], body["stream"]) == (5, True, 20, True)
        assert (body["temperature"], body["top_p"], "max_tokens" in body) == (0.6, 0.95, False)

    got = asked(PLAIN, then)
    assert got.text.endswith("\\boxed{7}")
    assert len(got.signals) == 15
    assert all(0 < peak <= 1 and conf > 0 for peak, conf in got.signals)
    assert (got.end.finish, got.end.prompt_tokens, got.unread, got.end.estimated) == ("stop", 9, 0, False)


@pytest.mark.parametrize(
    "manner",
    [
        replace(PLAIN, per_chunk=5),
        replace(PLAIN, per_chunk=100),
        replace(PLAIN, bytes_a_write=7),
        replace(PLAIN, bytes_a_write=1, crlf=True, tokens=2),
        replace(PLAIN, merged=True),
        replace(PLAIN, merged=True, per_chunk=3),
        replace(PLAIN, comments=True),
        replace(PLAIN, comments=True, crlf=True, bytes_a_write=11),
        replace(PLAIN, role_first=False),
        replace(PLAIN, usage=False),
        replace(PLAIN, done=False),
        replace(PLAIN, keep_alive=False),
        replace(PLAIN, delay=0.002),
    ],
)
def test_the_same_path_however_it_is_sent(manner: Manner) -> None:
    usual, got = asked(replace(PLAIN, tokens=manner.tokens)), asked(manner)
    assert got.text == usual.text
    assert got.signals == usual.signals
    assert got.end.finish == "stop"
    assert got.unread == 0


def test_the_text_is_cut_at_tokens_where_their_strings_add_up() -> None:
    got = asked(replace(PLAIN, per_chunk=5))
    assert "".join(token.text for token in got.tokens) == got.text
    assert got.tokens[-1].text == "}"


def test_completions_give_the_same_signals() -> None:
    def then(server: Server, got: Got) -> None:
        assert server.paths == ["/v1/completions"]
        assert server.requests[0]["prompt"] == "?"
        assert server.requests[0]["return_tokens_as_token_ids"] is True

    usual, got = asked(PLAIN), asked(PLAIN, then, chat=False)
    assert (got.text, got.signals) == (usual.text, usual.signals)


def test_values_that_are_not_json() -> None:
    got = asked(replace(PLAIN, odd_values=True))
    assert len(got.signals) == 15
    assert all(conf >= 15.0 for _, conf in got.signals)  # three of twenty count as -100


def test_an_end_token_without_an_entry_is_counted() -> None:
    assert asked(replace(PLAIN, unseen_end=True)).unread == 1


def test_a_path_that_the_server_ends_at_its_limit() -> None:
    got = asked(replace(PLAIN, tokens=500), max_path_tokens=40)
    assert got.end == End("length", prompt_tokens=9)
    assert len(got.signals) == 40


@pytest.mark.parametrize("signals", [True, False])
@pytest.mark.parametrize("sent", [{}, {"per_chunk": 7}, {"merged": True}, {"per_chunk": 7, "merged": True}])
def test_a_path_is_cut_at_its_limit_to_the_token(sent: dict[str, Any], signals: bool) -> None:
    if not signals:
        sent = sent | {"per_chunk": 1}  # a chunk without log-probabilities counts as one
    usual = asked(replace(PLAIN, tokens=500))
    got = asked(replace(PLAIN, tokens=500, obeys=False, **sent), signals=signals, max_path_tokens=40)
    assert got.end.finish == "length"
    assert len(got.signals) + got.unread == 40
    assert got.signals == usual.signals[: 40 * signals]
    assert got.text == "".join([token.text for token in usual.tokens][:40])
    assert got.end.beyond >= (2 if "merged" in sent else 1)  # counted, not kept


def test_without_signals_no_candidates_are_asked_for() -> None:
    def then(server: Server, got: Got) -> None:
        assert "logprobs" not in server.requests[0]

    got = asked(PLAIN, then, signals=False)
    assert (got.signals, got.unread, got.end.estimated) == ([], 15, False)
    packed = asked(replace(PLAIN, per_chunk=5), signals=False)
    assert (packed.unread, packed.end.estimated) == (15, False)
    guess = asked(replace(PLAIN, per_chunk=5, usage=False), signals=False)
    assert (guess.unread, guess.end.estimated) == (3, True)


def test_a_model_whose_name_is_not_text() -> None:
    with pytest.raises(UsageError, match="not UTF-8 text"):
        request(Prompt.user("?"), 1, model="tiny\udcff", chat=True, k=20, sampling={})


@pytest.mark.parametrize(
    ("manner", "error", "says"),
    [
        (
            Manner(logprobs=False),
            MissingLogprobs,
            "no log-probabilities, and the request was for 20.*--max-logprobs 20",
        ),
        (Manner(logprobs=False, tokens=0, per_chunk=9), MissingLogprobs, "no log-probabilities"),
        (Manner(more_candidates=-15), MissingLogprobs, "only 5 candidates per token"),
        (Manner(more_candidates=-1, tokens=80), MissingLogprobs, "only 19 candidates per token"),
        (Manner(repeated=True, per_chunk=4), MissingLogprobs, "repeats one token's candidates"),
        (Manner(status=400, body='{"error": {"message": "logprobs > 5"}}'), MissingLogprobs, "logprobs > 5.*vLLM"),
        (Manner(status=400), EngineRejected, "answered 400: as you wished"),
        (Manner(error_after=0, error_code=400), EngineRejected, "answered 400: the engine died"),
        (Manner(status=401), EngineRejected, "SUREENOUGH_API_KEY"),
        (Manner(status=404, body="nothing here."), EngineRejected, "nothing here; check the model's name \\(tiny\\)"),
        (
            Manner(status=307, headers={"Location": "http://u:p@other/v1"}),
            EngineRejected,
            "to http://other/v1, and redirects are not followed",
        ),
        (Manner(status=302, headers={"Location": "http://x:abc/"}), EngineRejected, "redirects to another address"),
        (Manner(status=302, headers={"Location": "/login#token=sesame"}), EngineRejected, "redirects to /login, and"),
        (Manner(status=302, headers={"Location": "/" + "x" * 5_000}), EngineRejected, "redirects to /x{299}, and"),
        (Manner(status=400, body="[" * 60_000), EngineRejected, r"answered 400: \[\[\["),
        (Manner(status=200, kind="text/html"), EngineRejected, "answered with text/html"),
        (Manner(status=422, body='{"detail": [{"msg": "bad"}]}'), EngineRejected, "bad"),
    ],
)
def test_refusals_are_not_tried_again(manner: Manner, error: type[EngineError], says: str) -> None:
    def then(server: Server, got: Got) -> None:
        assert len(server.requests) == 1

    with pytest.raises(error, match=says):
        asked(manner, then)


@pytest.mark.parametrize(
    ("manner", "says"),
    [
        (Manner(cut_after=5), "broke off in the middle of a path"),
        (Manner(garbage_after=5), "not part of a reply: '<html>"),
        (Manner(tokens=1, finish="abort"), "the server ended it with finish_reason 'abort'"),
        (Manner(error_after=5), "broke off in the middle of a path \\(the engine died\\)"),
        (Manner(stall_after=5), "sent nothing for 0.1 s in the middle"),
    ],
)
def test_a_path_that_dies_after_its_first_token_is_lost(manner: Manner, says: str) -> None:
    def then(server: Server, got: Got) -> None:
        assert len(server.requests) == 1
        assert len(got.signals) == 4

    with pytest.raises(EngineError, match=says) as raised:
        asked(manner, then, timeouts=Timeouts(stall=0.1))
    assert type(raised.value) is EngineError


@pytest.mark.parametrize(
    "bad",
    [
        Manner(status=503, headers={"Retry-After": "0"}),
        Manner(status=429, headers={"Retry-After": "0", "X-Request-Id": "abc"}),
        Manner(status=429, headers={"Retry-After": "0.01"}),
        Manner(status=429, headers={"Retry-After": "Mon, 01 Jan 2001 00:00:00 GMT"}),
        Manner(error_after=0, error_code=503),
        Manner(cut_after=0),
        Manner(cut_after=1),
    ],
)
def test_before_the_first_token_it_is_tried_again(bad: Manner) -> None:
    def then(server: Server, got: Got) -> None:
        assert [body["seed"] for body in server.requests] == [5, 5]

    got = asked(lambda seed, nth: bad if nth == 0 else PLAIN, then)
    assert (len(got.signals), got.signals) == (15, asked(PLAIN).signals)


@pytest.mark.parametrize(
    ("manner", "says"),
    [
        (Manner(status=503, headers={"Retry-After": "0", "X-Request-Id": "abc"}), "answered 503"),
        (Manner(status=500, headers={"Retry-After": "3600"}), "answered 500"),
        (Manner(cut_after=0), "no response from"),
        (Manner(stall_after=0), "sent no token within 0.1 s"),
        (Manner(status=503, headers={"Retry-After": "3600"}), "a pause of 3,600 s, and the longest pause is 120 s"),
    ],
)
def test_a_server_that_stays_away(manner: Manner, says: str) -> None:
    with pytest.raises(EngineUnavailable, match=says):
        asked(manner, retries=1, timeouts=Timeouts(first_token=0.1))


def test_a_connection_that_fails() -> None:
    with socket.socket() as full, socket.socket() as one, socket.socket() as two:
        full.bind(("127.0.0.1", 0))
        full.listen(0)  # room for one who waits; the next ones are not even refused
        for waiting in (one, two):
            waiting.setblocking(False)
            waiting.connect_ex(full.getsockname())
        engine = OpenAI(
            f"http://127.0.0.1:{full.getsockname()[1]}/v1", "tiny", retries=0, timeouts=Timeouts(connect=0.2)
        )
        with pytest.raises(EngineUnavailable, match="no connection in time"):
            asyncio.run(anext(engine.stream(Prompt.user("?"), seed=1)))


@pytest.mark.parametrize(
    ("url", "cause"),
    [("http://127.0.0.1:9/v1", "refused"), ("http://a..b:8000/", "."), (f"http://{'a' * 70}.example/", ".")],
)
def test_addresses_that_cannot_be_connected_to(url: str, cause: str) -> None:
    engine = OpenAI(url, "tiny", retries=0, proxies=False)
    with pytest.raises(EngineUnavailable, match=rf"no response from {url} \(.*{cause}.*\); is the server running"):
        asyncio.run(anext(engine.stream(Prompt.user("?"), seed=1)))


# -- secrets


def test_the_key_is_sent_and_never_shown(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-1")
    caplog.set_level(logging.DEBUG)
    quoting = Manner(status=401, body='{"error": {"message": "Incorrect key: sk-secret-1"}}')

    def then(server: Server, got: Got) -> None:
        assert server.headers[0]["authorization"] == "Bearer sk-secret-1"

    with pytest.raises(EngineRejected, match="Incorrect key: \\*\\*\\*") as raised:
        asked(quoting, then)
    assert "secret" not in str(raised.value) + repr(raised.value) + caplog.text
    assert "secret" not in repr(OpenAI(base_url="http://localhost/v1", model="m", api_key="sk-secret-2"))


def test_user_and_password_in_a_url_are_used_and_never_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def ask() -> None:
        async with serving(Manner(status=400)) as server:
            url = server.url.replace("http://", "http://me:hush@")
            with pytest.raises(EngineRejected) as raised:
                await anext(OpenAI(url, "m").stream(Prompt.user("?"), seed=1))
            assert server.headers[0]["authorization"] == httpx.BasicAuth("me", "hush")._auth_header
            assert "hush" not in str(raised.value)

    asyncio.run(within(ask()))
    assert "hush" not in caplog.text
    assert "hush" not in repr(OpenAI("http://me:hush@localhost/v1", "m"))


@pytest.mark.parametrize("key", ["sk-\nsecret", "sk-sécret"])
def test_a_broken_key_is_refused_unseen(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    monkeypatch.setenv("SUREENOUGH_API_KEY", key)
    with pytest.raises(UsageError, match="characters that cannot be part of a key") as raised:
        asked(PLAIN)
    assert "cret" not in str(raised.value)


@pytest.mark.parametrize(
    ("url", "options", "says"),
    [
        ("localhost:8000", {}, "is not a URL of a server; it looks like"),
        ("ftp://host/v1", {}, "is not a URL of a server"),
        ("http://u:hush@h:port/v1", {}, "that is not a URL"),
        ("http://h/v1", {"temperature": -1}, "temperature is -1"),
        ("http://h/v1", {"temperature": float("nan")}, "temperature is nan"),
        ("http://h/v1", {"top_p": 0}, "top_p is 0"),
        ("http://h/v1", {"k": 0}, "k is 0"),
        ("http://h/v1", {"max_path_tokens": 0}, "max_path_tokens is 0"),
        ("http://h/v1", {"model": ""}, "model is empty"),
    ],
)
def test_bad_options(url: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        OpenAI(url, **({"model": "m"} | options))


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_bad_patience(seconds: float) -> None:
    with pytest.raises(UsageError, match=r"stall is .* seconds; it must be above 0"):
        Timeouts(stall=seconds)


@pytest.mark.parametrize(
    ("attempt", "requested", "least", "most"),
    [(0, None, 0.25, 0.5), (1, None, 0.5, 1.0), (4, None, 4.0, 8.0), (60, None, 4.0, 8.0), (4, 3.0, 3.0, 3.3)],
)
def test_waits_become_longer_up_to_a_limit(
    attempt: int, requested: float | None, least: float, most: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(errors, "FIRST_WAIT", 0.5)
    assert all(least <= errors.backoff(attempt, requested) <= most + 1e-9 for _ in range(50))


def test_events_however_they_are_cut() -> None:
    raw = b": hello\r\n\r\ndata: one\r\n\r\ndata:two\ndata: three\n\nevent: x\nid: 4\ndata: f\xc3\xa9\n\n\n\ndata: last"
    for size in range(1, len(raw) + 1):
        events = SSEParser()
        found = [data for at in range(0, len(raw), size) for data in events.feed(raw[at : at + size])]
        assert found + events.end() == [b"one", b"two\nthree", b"f\xc3\xa9", b"last"]


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


def test_a_healthy_connection_is_used_again_and_14_7_closed_when_it_is_idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "IDLE_SECONDS", 0.2)

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    async def use(server: RawServer) -> int:
        url = parse_url(server.url)
        async with Transport(url, {}, 4, 5.0) as transport:
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
            engine = OpenAI(url, "tiny", retries=0, timeouts=Timeouts(first_token=0.2))
            with pytest.raises(EngineUnavailable, match=r"sent no token within 0\.2 s"):
                await anext(engine.stream(Prompt.user("x" * 20_000_000), seed=1))

    asyncio.run(asyncio.wait_for(use(), 15))


# -- responses


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


@pytest.mark.parametrize(
    ("sent", "says"),
    [
        (b"", r"no response within 0\.05 s"),
        (b"HTTP/1.1 200 OK\r\nConte", r"no response within 0\.05 s"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell", r"no response within 0\.05 s"),
        (b"HTTP/1.1 200 OK\r\n\r\n" + b"x" * 2000, "more than 1,000 bytes, which is the limit"),
    ],
    ids=["nothing", "half a header", "half a body", "long"],
)
def test_a_response_that_is_read_whole_has_limits(sent: bytes, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "LARGEST_BODY", 1000)

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(sent)

    async def use(server: RawServer) -> None:
        async with OpenAI(server.url, "tiny").open(parallel=1) as connection:
            with pytest.raises(TransportError, match=says):
                await connection.transport.fetch("GET", connection.endpoint("models"), seconds=0.05)

    run(answer, use)


# -- secrets


def test_14_4_credentials_that_a_server_quotes_are_hidden() -> None:
    url = parse_url("http://me:hush-hush@h/v1?token=query-secret")
    proxy = parse_url("http://her:proxy-word@p:3128")
    errors = ServerErrors(url, "sk-secret", proxy)
    basic = base64.b64encode(b"me:hush-hush").decode()
    proxied = base64.b64encode(b"her:proxy-word").decode()
    text = errors.clean(f"Basic {basic}, {proxied}, hush-hush, proxy-word, query-secret, Bearer sk-secret, \ud83d end")
    assert text == "Basic ***, ***, ***, ***, ***, Bearer ***, ? end"
    body = b"x" * 290 + b" sk-secret"
    refusal = errors.refusal(400, body, {"x-request-id": "sk-secret"}, model="m", k=20)
    assert "sk-" not in str(refusal), "cut after it is cleaned"


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
            await path_text(OpenAI(server.url, "tiny", api_key=key))
        return str(raised.value)

    message = run(answer, use)
    assert "planted" not in message, "cut after it is cleaned"
    assert f"'{'x' * space} ***".replace("' ", "'") in message


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

    assert run(answer, use) == {}


FAULTS = {
    "no log-probabilities": (Manner(logprobs=False), MissingLogprobs),
    "candidates repeated": (Manner(repeated=True, per_chunk=4, tokens=80), MissingLogprobs),
    "log-probabilities refused": (Manner(status=400, body="logprobs are not allowed"), MissingLogprobs),
    "refused": (Manner(status=422), EngineRejected),
    "no stream": (Manner(kind="text/html"), EngineRejected),
    "an event that cannot be read": (Manner(garbage_after=3), EngineError),
    "an error in the stream": (Manner(error_after=3), EngineError),
    "an unknown end": (Manner(finish="abort"), EngineError),
    "broken off": (Manner(cut_after=3), EngineError),
    "silent in the middle": (Manner(stall_after=3), EngineError),
    "silent": (Manner(stall_after=0), EngineUnavailable),
    "busy": (Manner(status=503), EngineUnavailable),
    "a continuation refused": (Manner(extends="no"), CannotExtend),
    "a long pause": (Manner(status=429, headers={"Retry-After": "600"}), EngineUnavailable),
}


def client(server: Server) -> OpenAI:
    url = server.url.replace("://", "://me:hunter2@") + "?api_key=sesame"
    return OpenAI(url, "tiny", retries=0, timeouts=Timeouts(first_token=0.2, stall=0.2))


async def first_error(engine: Engine, kind: type[EngineError] = EngineError) -> EngineError:
    """That of a path, or of a continuation if only those can have such an error."""
    prompt = Prompt.user("?")
    async with engine.open(parallel=1) as ready:
        stream = ready.stream(prompt, seed=1)
        if kind is CannotExtend:
            stream = ready.extend(prompt, "so ", ExtendOptions(max_tokens=9), seed=1)
        with pytest.raises(EngineError) as raised:
            async for _ in stream:
                pass
    return raised.value


@pytest.mark.parametrize("fault", FAULTS)
def test_an_error_names_its_server_once(fault: str) -> None:
    manner, kind = FAULTS[fault]

    async def fail() -> None:
        async with serving(manner) as one, serving(manner) as other:
            error = await first_error(LoadBalancer([client(one), client(other)]), kind)
            asked = [server for server in (one, other) if server.requests]
            # What shows after the first token loses the path, since the other server may do without it.
            kinds: tuple[type[EngineError], ...] = (
                (kind, EngineError) if kind is MissingLogprobs and len(asked) == 1 else (kind,)
            )
            assert isinstance(error, kinds)
            assert str(error).count(asked[-1].url) == 1
            assert (asked[0].url in str(error)) == (len(asked) == 1), "of several, it names the last"
            assert "hunter2" not in str(error)
            assert "sesame" not in str(error)
            alone = await first_error(client(asked[-1]), kind)
            if kind is not EngineUnavailable:
                assert str(error).removeprefix(f"{asked[-1].url}: ") == str(alone)

    asyncio.run(asyncio.wait_for(fail(), 30))


class WithoutSampled(Engine):
    """Sends no log-probabilities of sampled tokens."""

    def __init__(self, address: str) -> None:
        self.address = address

    def server_address(self) -> str:
        return self.address

    async def extend(
        self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int
    ) -> AsyncGenerator[Sequence[Token], None]:
        yield [Token("a", 0.5, 10.0)]


def test_a_search_that_a_server_cannot_guide_names_it() -> None:
    with pytest.raises(MissingLogprobs, match=r"^http://(one|two)/v1: the engine sends no log-probabilities of the"):
        ask("?", LoadBalancer([WithoutSampled("http://one/v1"), WithoutSampled("http://two/v1")]), "predictive+sc",
            paths=8)  # fmt: skip
    with pytest.raises(MissingLogprobs, match=r"^the engine sends no log-probabilities.*by which a search is guided"):
        ask("?", WithoutSampled("http://one/v1"), "predictive+sc", paths=1)


class Failing(Engine):
    """An engine without an address."""

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        yield [Token("a", 0.5, 10.0)]
        raise EngineError("it broke")


def test_an_engine_without_an_address_is_named_by_its_number() -> None:
    assert str(asyncio.run(first_error(LoadBalancer([Failing(), Failing()])))) == "Failing 1: it broke"
    assert str(asyncio.run(first_error(LoadBalancer([Failing()])))) == "it broke"


@pytest.mark.parametrize(("value", "generated"), [("1e3", 1000), ("7.0", 7), ("9" * 400, None), ("nan", None)])
def test_counters_that_are_not_numbers_count_nothing(value: str, generated: int | None) -> None:
    metrics = f"vllm:generation_tokens_total {value}\nvllm:num_requests_running 0\n".encode()

    async def reply(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(metrics) + metrics)

    async def read() -> int | None:
        async with raw_server(reply) as server, OpenAI(server.url, "m").open(parallel=1) as connection:
            counters = await connection.counters()
            return None if counters is None else counters.generated

    assert asyncio.run(read()) == generated


def test_in_a_turn_of_the_event_loop_all_responses_of_a_server_are_parsed_up_to_a_limit() -> None:
    """Whatever they have to offer; and in turn, so that none has to wait for another's end."""

    async def use() -> None:
        turns, parsed = Turns(), [0] * 64

        async def stream(number: int) -> None:
            for _ in range(20):
                await turns.take(READ_PIECE)
                parsed[number] += 1

        streams = asyncio.gather(*map(stream, range(64)))
        before = 0
        while not streams.done():
            await asyncio.sleep(0)
            assert sum(parsed) - before <= TURN_BYTES // READ_PIECE
            assert max(parsed) - min(parsed) <= 1 + TURN_BYTES // READ_PIECE
            before = sum(parsed)
        assert before == 20 * 64

    asyncio.run(asyncio.wait_for(use(), 30))


def test_a_response_that_is_closed_while_it_waits_for_its_turn_holds_up_no_other() -> None:
    async def use() -> None:
        turns = Turns()
        streams = [asyncio.create_task(turns.take(TURN_BYTES)) for _ in range(4)]
        await asyncio.sleep(0)
        streams[1].cancel()
        await asyncio.gather(*streams, return_exceptions=True)
        assert [stream.cancelled() for stream in streams] == [False, True, False, False]

    asyncio.run(asyncio.wait_for(use(), 30))


def test_a_server_that_has_never_responded_is_not_tried_again_by_every_path(monkeypatch: pytest.MonkeyPatch) -> None:
    attempts: list[object] = []
    connect = Transport.request
    monkeypatch.setattr(Transport, "request", lambda *given: attempts.append(given) or connect(*given))  # type: ignore[func-returns-value]
    with pytest.raises(EngineUnavailable, match=r"no response from http://127.0.0.1:9/v1 .*is the server running"):
        ask("?", OpenAI("http://127.0.0.1:9/v1", "tiny"), "sc", paths=64, parallel=16)
    assert len(attempts) == 16
