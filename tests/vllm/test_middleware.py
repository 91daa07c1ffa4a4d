"""Requests with our header are watched if the monitor can, and replied to with few events; all others are unchanged."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt, Report, WatchOptions
from sureenough.engines.openai.errors import StreamError
from sureenough.engines.openai.reply import ReplyParser
from sureenough.engines.openai.wire import InvalidReply
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
from sureenough.vllm.records import PathRecords, serve_records
from tests.vllm.stored import add_token

KEY = "some-path-key"
REQUEST = WatchRequest(KEY, 64, Gate(drop=2.5, trust=9.0))
HEADER = REQUEST.to_header()[WATCH_HEADER]
MESSAGE = {"protocol": PROTOCOL_VERSION, "arguments": REQUEST.to_arguments()}
BODY: dict[str, Any] = {
    "model": "tiny", "stream": True, "stream_options": {"include_usage": True}, "logprobs": True, "top_logprobs": 20,
    "vllm_xargs": {"theirs": 1}, "seed": 3,
}  # fmt: skip
CONTENT = json.dumps(BODY).encode()


def watching(*bodies: bytes | None) -> Watcher:
    """A client whose requests beside those for paths are answered with these bodies."""
    remaining = iter(bodies)

    async def fetch(*_: Any, **__: Any) -> bytes | None:
        return next(remaining)

    return Watcher(fetch)


@pytest.fixture(autouse=True)
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PathRecords:
    """Of the monitor that is served here."""
    records = PathRecords(4)
    serve_records(records, str(tmp_path / "records.sock"))
    monkeypatch.setenv(SOCKET_ENV, str(tmp_path / "records.sock"))
    monkeypatch.setenv(WINDOW_ENV, "64")
    monkeypatch.setattr("sureenough.vllm.records.PROGRESS_SECONDS", 0.02)
    return records


def send(app: ASGIApp, content: bytes, header: str | None) -> httpx.Response:
    """The reply to a request, and that it says that the path is watched only if it is."""

    async def use() -> httpx.Response:
        transport = httpx.ASGITransport(app=RecordsMiddleware(app))
        headers = None if header is None else {WATCH_HEADER: header}
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/chat/completions", content=content, headers=headers)

    return asyncio.run(asyncio.wait_for(use(), 30))


# -- what vLLM receives


def post(content: bytes, header: str | None) -> tuple[bytes, bool]:
    """The body that vLLM gets, and whether the client is told that its path is watched."""
    received = b""

    async def vllm(scope: Any, receive: Any, send: Any) -> None:
        nonlocal received
        received = await Request(scope, receive).body()
        await Response(b"{}", headers={"theirs": "kept"})(scope, receive, send)

    reply = send(vllm, content, header)
    watched = WatchedPath(watching(), REQUEST).accepted(reply.headers)
    assert watched is not ("theirs" in reply.headers)
    return received, watched


def test_arguments_replace_log_probabilities_in_the_body() -> None:
    received, watched = post(CONTENT, HEADER)
    assert watched
    got = json.loads(received)
    assert got.keys() == {"model", "seed", "vllm_xargs"}
    assert got["vllm_xargs"].pop("theirs") == 1
    assert parse_watch_arguments(got["vllm_xargs"]) == REQUEST


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
    (tmp_path / "records.sock").rename(tmp_path / "records.sock.1")  # that of the second of several engines
    assert post(CONTENT, HEADER)[1]
    (tmp_path / "records.sock.1").unlink()
    assert post(CONTENT, HEADER) == (CONTENT, False)
    monkeypatch.delenv(SOCKET_ENV)
    assert post(CONTENT, HEADER) == (CONTENT, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"vllm_xargs": 3}', b"[" * 100_000])
def test_a_body_that_is_not_a_request_is_left_to_the_server(content: bytes) -> None:
    assert post(content, HEADER) == (content, False)


def test_a_disconnect_is_passed_on() -> None:
    """Messages after the body are passed on: this is how a cancel reaches the engine."""
    received: list[Any] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        received.extend([await receive(), await receive()])

    coming = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": CONTENT[1:], "more_body": False},
        {"type": "http.request", "body": CONTENT[:1], "more_body": True},
    ]

    async def receive() -> Any:
        return coming.pop()

    headers = [(WATCH_HEADER.encode(), HEADER.encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": headers}
    asyncio.run(RecordsMiddleware(listening)(scope, receive, AsyncMock()))
    assert parse_watch_arguments(json.loads(received[0]["body"])["vllm_xargs"]) == REQUEST
    assert received[1] == {"type": "http.disconnect"}


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


def test_only_a_server_that_watches_paths_decodes_texts_our_way(monkeypatch: pytest.MonkeyPatch) -> None:
    changed: list[bool] = []
    monkeypatch.setattr(middleware, "decode_whole_texts", lambda: changed.append(True))
    RecordsMiddleware(JSONResponse({}))
    assert changed == [True]
    monkeypatch.delenv(SOCKET_ENV)
    RecordsMiddleware(JSONResponse({}))
    assert changed == [True]


# -- what the client receives: counts while a path grows, then its text and its record in one event

MESSAGE_OF_REPLY = {"role": "assistant", "content": "It is 7.", "reasoning_content": "3 + 4", "refusal": None}
WHOLE = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": MESSAGE_OF_REPLY, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 6},
}
COUNTED = WatchRequest(KEY, 1, record=False)


def grow(records: PathRecords, *, start: int, end: int) -> None:
    if start == 0:
        records.start_path(1, KEY, trace=False)
    for before in range(start, end):
        add_token(records, 1, before, 3.0)


def vllm(records: PathRecords, status: int = 200, reply: Any = WHOLE, sampled: int = 6) -> ASGIApp:
    """Four tokens at once, and the rest with the reply a moment later."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        grow(records, start=0, end=4)
        await asyncio.sleep(0.3)
        grow(records, start=4, end=sampled)
        await JSONResponse(reply, status)(scope, receive, send)

    return app


def read(app: ASGIApp, request: WatchRequest = REQUEST) -> tuple[ReplyParser, list[Report]]:
    """What a client makes of a reply."""
    reply = send(app, CONTENT, request.to_header()[WATCH_HEADER])
    assert (reply.status_code, reply.headers["content-type"][:17]) == (200, "text/event-stream")
    parser = ReplyParser(20, True)
    parser.leave_to(WatchedPath(watching(), request))
    reports = [parser.feed(line + b"\n\n") for line in reply.content.split(b"\n\n")]
    return parser, [report for report in reports if isinstance(report, Report)]


@pytest.mark.parametrize("request_", [REQUEST, COUNTED], ids=["with a record", "counted"])
def test_counts_come_while_the_path_grows_and_everything_else_at_its_end(
    records: PathRecords, request_: WatchRequest
) -> None:
    parser, reports = read(vllm(records), request_)
    last = parser.last()
    assert reports[0].unread == 3  # while it grew: the fourth token may be one after the last
    assert sum(report.unread for report in reports) + last.unread == 6
    assert (last.prompt_tokens, last.finish, last.estimated) == (9, "stop", False)
    assert [report.text for report in reports if report.text] == ["<think>\n3 + 4\n</think>\n\nIt is 7."]
    assert parser.done
    assert (last.summary and last.summary.tokens) == (6 if request_.record else None)


def test_a_token_that_the_engine_samples_ahead_is_not_counted(records: PathRecords) -> None:
    """An engine that schedules ahead learns of a path's end one token later."""
    shorter = WHOLE | {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    parser, reports = read(vllm(records, reply=shorter, sampled=4), COUNTED)
    assert sum(report.unread for report in reports) + parser.last().unread == 3


@pytest.mark.parametrize("request_", [REQUEST, COUNTED], ids=["with a record", "counted"])
def test_a_path_that_the_monitor_lost_goes_on_if_it_is_only_counted(
    records: PathRecords, request_: WatchRequest
) -> None:
    async def lose(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        grow(records, start=0, end=4)
        await asyncio.sleep(0.2)
        records.lose_path(KEY, "it was preempted and its slot given away")
        await asyncio.sleep(0.2)
        await JSONResponse(WHOLE)(scope, receive, send)

    parser, reports = read(lose, request_)
    signs_of_life = [report for report in reports if not report.unread and not report.text]
    assert bool(signs_of_life) is (request_ is COUNTED)
    assert reports[-1].text.endswith("It is 7.")
    if request_ is COUNTED:
        assert sum(report.unread for report in reports) + parser.last().unread == 6
    else:
        with pytest.raises(InvalidReply, match="its record could not be read"):
            parser.last()


def test_a_refusal_that_comes_at_once_keeps_its_status_and_is_not_marked_as_watched() -> None:
    refusal = JSONResponse({"error": {"message": "no"}}, 400, {"theirs": "1"})
    reply = send(refusal, CONTENT, HEADER)
    assert (reply.status_code, reply.headers["theirs"], reply.json()["error"]["message"]) == (400, "1", "no")
    assert not WatchedPath(watching(), REQUEST).accepted(reply.headers)


@pytest.mark.parametrize(
    ("status", "reply", "words"),
    [
        (500, {"error": {"message": "out of memory"}}, "out of memory"),
        (503, {"message": "busy"}, "busy"),
        (503, {"error": "not ready"}, "not ready"),
        (200, None, "not a completion"),  # vLLM's reply to a client that left
        (200, {"choices": []}, "not a completion"),
        (200, [1], "not a completion"),
    ],
)
def test_an_error_after_the_start_becomes_an_event(records: PathRecords, status: int, reply: Any, words: str) -> None:
    parser, _ = read(vllm(records, status, reply))
    assert isinstance(parser.error, StreamError)
    assert words in str(parser.error)
    assert parser.error.status == max(status, 500)


def test_plain_completions_and_tool_calls() -> None:
    text = middleware.as_event({"choices": [{"text": "abc", "finish_reason": "length"}]})
    assert text["choices"] == [{"index": 0, "finish_reason": "length", "text": "abc"}]
    call = {"id": "1", "function": {"name": "f", "arguments": "{}"}}
    message = {"message": {"tool_calls": [call], "content": None}, "finish_reason": "tool_calls"}
    event = middleware.as_event({"choices": [message]})
    assert event["choices"][0]["delta"] == {"tool_calls": [{"index": 0, **call}]}


# -- what a client makes of its server's records and counts


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
