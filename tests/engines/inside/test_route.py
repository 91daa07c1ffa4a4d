"""A request that wishes to be watched is, where the monitor can; every other one reaches the server as it was sent."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import httpx
import pytest
from yarl import URL

from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt, WatchOptions
from sureenough.engines.openai.transport import FetchedResponse, Transport
from sureenough.engines.vllm.client import MonitorClient, is_watched
from sureenough.engines.vllm.protocol import LONGEST, PROTOCOL, SOCKET, WATCH, WATCHED, WatchRequest
from sureenough.engines.vllm.protocol import read as read_arguments
from sureenough.engines.vllm.server.middleware import RecordsMiddleware
from sureenough.engines.vllm.server.records import UNKNOWN
from sureenough.errors import EngineError


class FixedTransport(Transport):
    """Answers requests with the given responses, the last first."""

    def __init__(self, responses: list[FetchedResponse]) -> None:
        self.responses = responses

    async def fetch(self, *arguments: Any, **options: Any) -> FetchedResponse:
        return self.responses.pop()


ASKED = WatchRequest("some-path-key", 64, Gate(drop=2.5, trust=9.0))
BODY: dict[str, Any] = {"model": "tiny", "logprobs": True, "top_logprobs": 20, "vllm_xargs": {"theirs": 1}, "seed": 3}


@pytest.fixture(autouse=True)
def monitor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SOCKET, "/somewhere")
    monkeypatch.setenv(LONGEST, "64")


async def mirror(scope: Any, receive: Any, send: Any) -> None:
    """Sends back what it got."""
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part["body"], part["more_body"]
    status = 400 if b'"bad"' in body else 200
    await send({"type": "http.response.start", "status": status, "headers": [(b"theirs", b"kept")]})
    await send({"type": "http.response.body", "body": body})


def posted(content: bytes, headers: dict[str, str] | None = None) -> httpx.Response:
    async def ask() -> httpx.Response:
        transport = httpx.ASGITransport(app=RecordsMiddleware(mirror))
        async with httpx.AsyncClient(transport=transport, base_url="http://here") as client:
            return await client.post("/v1/chat/completions", content=content, headers=headers)

    return asyncio.run(ask())


def test_a_wish_goes_into_the_body_in_place_of_log_probabilities() -> None:
    reply = posted(json.dumps(BODY).encode(), ASKED.header())
    assert is_watched(reply.headers)
    assert reply.headers["theirs"] == "kept"
    got = reply.json()
    assert got.keys() == {"model", "seed", "vllm_xargs"}
    assert got["vllm_xargs"].pop("theirs") == 1
    assert read_arguments(got["vllm_xargs"]) == ASKED


WISH = {"protocol": PROTOCOL, "arguments": ASKED.written()}


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "watch!",
        "[]",
        "{}",
        json.dumps(WISH | {"protocol": PROTOCOL + 1}),
        json.dumps(WISH | {"arguments": ASKED.written() | {"sure_window": 65}}),
        json.dumps(WISH | {"arguments": ASKED.written() | {"sure_window": "64"}}),
        json.dumps(WISH | {"arguments": 3}),
    ],
)
def test_what_cannot_be_watched_reaches_the_server_untouched(header: str | None) -> None:
    content = json.dumps(BODY).encode()
    reply = posted(content, None if header is None else {WATCH: header})
    assert (reply.content, WATCHED in reply.headers) == (content, False)


def test_without_a_monitor_nothing_is_watched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(SOCKET)
    content = json.dumps(BODY).encode()
    reply = posted(content, ASKED.header())
    assert (reply.content, WATCHED in reply.headers) == (content, False)


@pytest.mark.parametrize("content", [b"", b"{", b"[1]", b'{"vllm_xargs": 3}'])
def test_a_body_that_is_no_request_is_left_to_the_server(content: bytes) -> None:
    reply = posted(content, ASKED.header())
    assert (reply.content, WATCHED in reply.headers) == (content, False)


def test_a_refusal_is_not_announced() -> None:
    reply = posted(json.dumps(BODY | {"bad": 1}).encode(), ASKED.header())
    assert (reply.status_code, WATCHED in reply.headers) == (400, False)


def test_a_client_that_leaves_is_noticed() -> None:
    """What comes after the body comes through: it is how a cancel reaches the engine."""
    heard: list[Any] = []

    async def listening(scope: Any, receive: Any, send: Any) -> None:
        heard.extend([await receive(), await receive()])

    coming = [
        {"type": "http.disconnect"},
        {"type": "http.request", "body": b"}", "more_body": False},
        {"type": "http.request", "body": b"{", "more_body": True},
    ]

    async def receive() -> Any:
        return coming.pop()

    head = [(WATCH.encode(), ASKED.header()[WATCH].encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": head}
    asyncio.run(RecordsMiddleware(listening)(scope, receive, receive))  # type: ignore[arg-type]
    assert read_arguments(json.loads(heard[0]["body"])["vllm_xargs"]) == ASKED
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
        ({"min_tokens": 3}, False),
        ({"ignore_eos": True}, False),
    ],
)
def test_a_request_that_could_not_be_watched_is_left_as_it_is(more: dict[str, Any], can: bool) -> None:
    content = json.dumps(BODY | more).encode()
    reply = posted(content, ASKED.header())
    assert (WATCHED in reply.headers, reply.content == content) == (can, not can)


def test_a_path_that_is_never_pruned_may_go_on_beyond_its_end() -> None:
    assert is_watched(
        posted(json.dumps(BODY | {"ignore_eos": True}).encode(), WatchRequest("warm-up-key", 8).header()).headers
    )


def test_brackets_without_end() -> None:
    deep = b"[" * 100_000
    assert posted(deep, ASKED.header()).content == deep
    assert posted(b"{}", {WATCH: "[" * 5_000}).content == b"{}"


@pytest.mark.parametrize(
    ("status", "said", "trusted"),
    [
        (404, {"lost": "it was preempted and its slot given away"}, True),
        (404, {"lost": UNKNOWN}, False),  # another server has it
        (404, {"detail": "Not Found"}, False),  # a gateway that lets only completions through
        (200, {"detail": "hello"}, False),
        (502, None, False),
    ],
)
def test_where_records_do_not_get_through_later_paths_are_not_watched(status: int, said: Any, trusted: bool) -> None:
    prompt = Prompt((), signals=True, guard=WatchOptions(8, None))
    body = b"?" if said is None else json.dumps(said).encode()

    async def use() -> None:
        monitor = MonitorClient(FixedTransport([FetchedResponse(status, {}, body)]), URL("http://here/v1"))
        watch = monitor.watch_request(prompt, 20)
        assert watch is not None
        with pytest.raises(EngineError, match=r"watched a path, and its record cannot be read: \w"):
            await monitor.fetch_summary(watch, 3)
        assert (monitor.watch_request(prompt, 20) is not None) is trusted

    asyncio.run(use())


def test_records_that_once_did_not_get_through_are_not_asked_for_again() -> None:
    """Paths that were under way when it showed may still be told of."""
    said = [{"lost": "it was preempted and its slot given away"}, {"lost": UNKNOWN}]
    replies = [FetchedResponse(404, {}, json.dumps(record).encode()) for record in said]

    async def use() -> None:
        monitor = MonitorClient(FixedTransport(replies), URL("http://here/v1"))
        for _ in range(2):
            with pytest.raises(EngineError):
                await monitor.fetch_summary(ASKED, 3)
        assert monitor.watch_request(Prompt((), signals=True, guard=WatchOptions(8, None)), 20) is None

    asyncio.run(use())


@pytest.mark.parametrize(
    ("prompt", "k", "wishes"),
    [
        (Prompt.user("?"), 20, False),
        (Prompt((), signals=True, guard=WatchOptions(8, None)), 20, True),
        (Prompt((), signals=True, guard=WatchOptions(8, Gate(drop=1.0))), 20, True),
        (Prompt((), signals=True, guard=WatchOptions(8, None)), 5, False),
        (Prompt((), signals=False, guard=WatchOptions(8, None)), 20, False),
    ],
)  # fmt: skip
def test_only_paths_that_are_read_wish_to_be_watched(prompt: Prompt, k: int, wishes: bool) -> None:
    monitor = MonitorClient(FixedTransport([]), URL("http://here/v1"))
    asked = monitor.watch_request(prompt, k)
    assert (asked is not None) is wishes
    if asked is not None and prompt.guard is not None:
        assert asked.trace is (prompt.guard.gate is None)
        assert asked.gate == (prompt.guard.gate or Gate())
        assert asked.key != getattr(monitor.watch_request(prompt, k), "key", None)
