"""The HTTP engine against a server that can do anything: refusals, faults, secrets and bad options."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import aclosing
from typing import Any

import httpx
import pytest

from sureenough.engines import Prompt
from sureenough.engines.openai import errors
from sureenough.engines.openai.client import OpenAI, Timeouts
from sureenough.engines.openai.sse import SSEParser
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError
from tests.engines.asking import PLAIN, Got, asked, within
from tests.engines.misbehaving import Manner, Server, idle, serving


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
        (Manner(tokens=1, finish="abort"), "finish_reason 'abort'; its text is incomplete"),
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


def test_a_server_that_does_not_exist() -> None:
    engine = OpenAI("http://127.0.0.1:9/v1", "tiny", retries=0)
    with pytest.raises(EngineUnavailable, match=r"no response from http://127.0.0.1:9/v1.*is the server running"):
        asyncio.run(anext(engine.stream(Prompt.user("?"), seed=1)))


def test_closing_the_stream_closes_the_request() -> None:
    async def close_early() -> None:
        async with serving(Manner(tokens=100_000)) as server:
            engine = OpenAI(server.url, "tiny")
            async with engine.open(parallel=2) as connected:
                for _ in range(4):
                    async with aclosing(connected.stream(Prompt.user("?"), seed=1)) as chunks:
                        async for _chunk in chunks:
                            break
                await idle(server)
                assert server.closed_early == 4

    asyncio.run(within(close_early()))


def test_a_kept_alive_connection_that_the_server_closed() -> None:
    async def twice() -> None:
        async with serving(Manner(keep_alive=False)) as server:
            engine = OpenAI(server.url, "tiny", retries=1)
            async with engine.open(parallel=1) as connected:
                for seed in range(5):
                    async with aclosing(connected.stream(Prompt.user("?"), seed=seed)) as chunks:
                        assert [chunk async for chunk in chunks]

    asyncio.run(within(twice()))


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
    assert "secret" not in repr(OpenAI("http://localhost/v1", "m", key="sk-secret-2"))


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
    ("manner", "says"),
    [
        (Manner(status=302, headers={"Location": "http://x:abc/"}), "redirects to another address"),
        (Manner(status=302, headers={"Location": "/login#token=sesame"}), "redirects to /login, and"),
        (Manner(status=302, headers={"Location": "/" + "x" * 5_000}), "redirects to /x{299}, and"),
        (Manner(status=400, body="[" * 60_000), r"answered 400: \[\[\["),
        (Manner(headers={"Content-Encoding": "gzip"}), "compressed .'gzip'., which the request did not allow"),
    ],
)
def test_replies_that_are_made_to_break_readers(manner: Manner, says: str) -> None:
    with pytest.raises(EngineError, match=says):
        asked(manner, retries=0)


def test_a_pause_that_is_not_worth_waiting_for_is_named() -> None:
    with pytest.raises(EngineUnavailable, match="wants a pause of 3,600 s, and the longest pause is 120 s"):
        asked(Manner(status=503, headers={"Retry-After": "3600"}))


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
