"""Requests with our header are watched if the monitor can; all others reach the server unchanged."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.responses import JSONResponse

from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt, WatchOptions
from sureenough.engines.watch.client import WatchedPath, Watcher
from sureenough.engines.watch.protocol import (
    PROTOCOL_VERSION,
    SOCKET_ENV,
    UNKNOWN_PATH,
    WATCH_HEADER,
    WINDOW_ENV,
    WatchRequest,
    parse_watch_arguments,
)
from sureenough.vllm import middleware
from sureenough.vllm.middleware import RecordsMiddleware


def watching(*bodies: bytes | None) -> Watcher:
    """A client whose requests beside those for paths are answered with these bodies."""
    remaining = iter(bodies)

    async def fetch(*_: Any, **__: Any) -> bytes | None:
        return next(remaining)

    return Watcher(fetch)


def is_watched(headers: Mapping[str, str]) -> bool:
    return WatchedPath(watching(), REQUEST).accepted(headers)


REQUEST = WatchRequest("some-path-key", 64, Gate(drop=2.5, trust=9.0))
BODY: dict[str, Any] = {
    "model": "tiny",
    "stream": True,
    "logprobs": True,
    "top_logprobs": 20,
    "vllm_xargs": {"theirs": 1},
    "seed": 3,
}


@pytest.fixture(autouse=True)
def monitor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET_ENV, str(tmp_path / "records.sock"))
    (tmp_path / "records.sock").touch()
    monkeypatch.setenv(WINDOW_ENV, "64")


def post(content: bytes, header: str | None) -> tuple[bytes, bool]:
    """The body that vLLM gets, and whether the client is told that its path is watched."""
    received = b""

    async def vllm(scope: Any, receive: Any, send: Any) -> None:
        nonlocal received
        more = True
        while more:
            part = await receive()
            received, more = received + part["body"], part["more_body"]
        status = 400 if b'"bad"' in received else 200
        await send({"type": "http.response.start", "status": status, "headers": [(b"theirs", b"kept")]})
        await send({"type": "http.response.body", "body": b"{}"})

    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=RecordsMiddleware(vllm))
        headers = None if header is None else {WATCH_HEADER: header}
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/chat/completions", content=content, headers=headers)

    reply = asyncio.run(ask())
    assert is_watched(reply.headers) is not ("theirs" in reply.headers)
    return received, is_watched(reply.headers)


HEADER = REQUEST.to_header()[WATCH_HEADER]
CONTENT = json.dumps(BODY).encode()


def test_arguments_replace_log_probabilities_in_the_body() -> None:
    received, watched = post(CONTENT, HEADER)
    assert watched
    got = json.loads(received)
    assert got.keys() == {"model", "seed", "vllm_xargs"}
    assert got["vllm_xargs"].pop("theirs") == 1
    assert parse_watch_arguments(got["vllm_xargs"]) == REQUEST


MESSAGE = {"protocol": PROTOCOL_VERSION, "arguments": REQUEST.to_arguments()}


@pytest.mark.parametrize(
    "header",
    [
        None, "", "watch!", "[]", "{}", "[" * 5_000,
        json.dumps(MESSAGE | {"protocol": PROTOCOL_VERSION + 1}),
        json.dumps(MESSAGE | {"arguments": REQUEST.to_arguments() | {"sure_window": 65}}),
        json.dumps(MESSAGE | {"arguments": REQUEST.to_arguments() | {"sure_window": "64"}}),
        json.dumps(MESSAGE | {"arguments": 3}),
    ],
)  # fmt: skip
def test_what_cannot_be_watched_reaches_the_server_unchanged(header: str | None) -> None:
    assert post(CONTENT, header) == (CONTENT, False)


def test_without_a_monitor_nothing_is_watched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "records.sock").rename(tmp_path / "records.sock.1")  # which may be the second of several engines
    assert post(CONTENT, HEADER)[1]
    (tmp_path / "records.sock.1").unlink()
    assert post(CONTENT, HEADER) == (CONTENT, False)
    monkeypatch.delenv(SOCKET_ENV)
    assert post(CONTENT, HEADER) == (CONTENT, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"vllm_xargs": 3}', b"[" * 100_000])
def test_a_body_that_is_not_a_request_is_left_to_the_server(content: bytes) -> None:
    assert post(content, HEADER) == (content, False)


def test_a_refused_request_is_not_marked_as_watched() -> None:
    assert not post(json.dumps(BODY | {"bad": 1}).encode(), HEADER)[1]


def test_a_disconnect_is_passed_on() -> None:
    """Messages after the body are passed on: this is how a cancel reaches the engine."""
    heard: list[Any] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        heard.extend([await receive(), await receive()])

    coming = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": CONTENT[1:], "more_body": False},
        {"type": "http.request", "body": CONTENT[:1], "more_body": True},
    ]

    async def receive() -> Any:
        return coming.pop()

    async def send(message: Any) -> None:
        pass

    scope = {
        "type": "http", "method": "POST", "path": "/v1/chat/completions",
        "headers": [(WATCH_HEADER.encode(), HEADER.encode())],
    }  # fmt: skip
    asyncio.run(RecordsMiddleware(listening)(scope, receive, send))
    assert parse_watch_arguments(json.loads(heard[0]["body"])["vllm_xargs"]) == REQUEST
    assert heard[1] == {"type": "http.disconnect"}


@pytest.mark.parametrize(
    ("more", "can"),
    [
        ({}, True),
        ({"response_format": {"type": "text"}, "n": 1, "logit_bias": {}, "ignore_eos": False}, True),
        ({"response_format": {"type": "json_object"}}, False),
        ({"response_format": "json"}, False),
        ({"structured_outputs": {"regex": "a"}}, False),
        ({"guided_regex": "a"}, False),
        ({"logit_bias": {"5": 1.0}}, False),
        ({"bad_words": ["no"]}, False),
        ({"n": 2}, False),
        ({"tool_choice": "auto"}, True),
        ({"tool_choice": "required"}, False),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, False),
        ({"min_tokens": 3}, False),
        ({"ignore_eos": True}, False),
        ({"stream": False}, False),
    ],
)
def test_a_request_that_could_not_be_watched_is_unchanged(more: dict[str, Any], can: bool) -> None:
    content = json.dumps(BODY | more).encode()
    received, watched = post(content, HEADER)
    assert (watched, received == content) == (can, not can)


def test_a_path_that_is_never_pruned_may_go_on_beyond_its_end() -> None:
    header = WatchRequest("warm-up-key", 8).to_header()[WATCH_HEADER]
    assert post(json.dumps(BODY | {"ignore_eos": True}).encode(), header)[1]


@pytest.mark.parametrize(
    ("record", "trusted"),
    [
        ({"lost": "it was preempted and its slot given away"}, True),
        ({"lost": UNKNOWN_PATH}, False),  # another server has it
        (None, False),  # a gateway that rewrites replies
        ({"tokens": -1, "tier": 0, "lowest": 1.0, "tail": 1.0}, True),
        ({"hello": 1}, True),
    ],
)
def test_without_records_later_paths_are_not_watched(record: Any, trusted: bool) -> None:
    prompt = Prompt((), signals=True, watch=WatchOptions(8, None))
    client = watching()
    path = client.path(prompt, 20, {})
    assert path is not None
    path.receive({"record": record})
    with pytest.raises(ValueError, match=r"."):
        path.summary()
    assert (client.path(prompt, 20, {}) is not None) is trusted


def counts(*tokens: Any) -> bytes:
    return json.dumps({"tokens": list(tokens), "tails": [1.5] * len(tokens)}).encode()


@pytest.mark.parametrize(
    ("replies", "unheard"),
    [
        ([counts(40), counts(40)], [30]),
        ([counts(40), counts(44), counts(44)], [34]),  # it still ran at the first count
        ([counts(10), counts(10)], [0]),
        ([counts(None), counts(None)], []),
        ([counts("x"), counts("x")], []),
        ([counts(1, 2), counts(1, 2)], []),
        ([b"{}"] * 2, []),
        ([None] * 2, []),
    ],
)
def test_tokens_after_a_cancel_are_counted_once_the_path_has_stopped(replies: list[Any], unheard: list[int]) -> None:
    reported: list[int] = []

    async def use() -> None:
        client = watching(*replies)
        path = WatchedPath(client, REQUEST, reported.append)
        path.receive({"tokens": 11, "tail": 1.5})
        await path.cancelled()  # no path was ever watched there: nothing is asked
        client.present = True
        await path.cancelled()

    asyncio.run(use())
    assert reported == unheard


@pytest.mark.parametrize(
    ("prompt", "k", "watched"),
    [
        (Prompt.user("?"), 20, False),
        (Prompt((), signals=True, watch=WatchOptions(8, None)), 20, True),
        (Prompt((), signals=True, watch=WatchOptions(8, Gate(drop=1.0))), 20, True),
        (Prompt((), signals=True, watch=WatchOptions(8, None)), 5, False),
    ],
)  # fmt: skip
def test_paths_are_watched_as_their_options_say(prompt: Prompt, k: int, watched: bool) -> None:
    client = watching()
    path = client.path(prompt, k, {"logit_bias": {"5": 1.0}})  # the server decides
    assert (path is not None) is watched
    if path is not None and prompt.watch is not None:
        request, other = path.request, client.path(prompt, k, {})
        assert request.trace is (prompt.watch.gate is None)
        assert request.gate == (prompt.watch.gate or Gate())
        assert request.record
        assert other is not None
        assert request.key != other.request.key


@pytest.mark.parametrize(
    ("sampling", "watched"),
    [
        ({"temperature": 1.0, "max_tokens": 9, "stop": ["."], "min_tokens": 2, "ignore_eos": True}, True),
        ({"logit_bias": {"5": 1.0}}, False),
        ({"response_format": {"type": "json_object"}}, False),
        ({"tools": [{"type": "function"}]}, False),
        ({"n": 2}, False),
    ],
)
def test_a_path_without_signals_is_only_counted(sampling: dict[str, Any], watched: bool) -> None:
    """Whatever its options say; and if a server could refuse to watch it, it is not asked to."""
    client = watching()
    for options, k in ((WatchOptions(None, Gate()), 20), (WatchOptions(8, None), 5)):
        path = client.path(Prompt((), signals=False, watch=options), k, sampling)
        assert (path is not None) is watched
        if path is not None:
            request = path.request
            assert (request.window, request.gate, request.trace, request.record) == (1, Gate(), False, False)
            assert parse_watch_arguments(request.to_arguments()) == replace(request, record=True, polled=False)


def test_only_a_server_that_watches_paths_decodes_texts_our_way(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[bool] = []
    monkeypatch.setattr(middleware, "decode_whole_texts", lambda: changed.append(True))
    RecordsMiddleware(JSONResponse({}))
    assert changed == [True]
    monkeypatch.delenv(SOCKET_ENV)
    RecordsMiddleware(JSONResponse({}))
    assert changed == [True]
