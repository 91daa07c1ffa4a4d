"""A watched path's stream: counts while it grows, then its text and its record in one event."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sureenough.core.pruning import Gate
from sureenough.engines.base import Report
from sureenough.engines.openai.errors import StreamError
from sureenough.engines.openai.reply import ReplyParser
from sureenough.engines.openai.wire import InvalidReply
from sureenough.engines.watch.client import WatchedPath, Watcher
from sureenough.engines.watch.protocol import SOCKET_ENV, WATCH_HEADER, WatchRequest
from sureenough.vllm import middleware
from sureenough.vllm.kernels.steps import RESULT_COLUMNS, RESULT_LOWEST, RESULT_TAIL
from sureenough.vllm.middleware import RecordsMiddleware
from sureenough.vllm.records import (
    MonitorReader,
    PathRecords,
    serve_records,
)

KEY = "the-path-key"
REQUEST = WatchRequest(KEY, 4, Gate(drop=2.5))
BODY = {"model": "tiny", "stream": True, "stream_options": {"include_usage": True}, "logprobs": True}
MESSAGE = {"role": "assistant", "content": "It is 7.", "reasoning_content": "3 + 4", "refusal": None}
WHOLE = {
    "id": "chatcmpl-1",
    "choices": [{"index": 0, "message": MESSAGE, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 9, "completion_tokens": 6},
}
App = Callable[[Any, Any, Any], Awaitable[None]]


@pytest.fixture
def records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PathRecords:
    records = PathRecords(4)
    serve_records(records, str(tmp_path / "records.sock"))
    monkeypatch.setenv(SOCKET_ENV, str(tmp_path / "records.sock"))
    monkeypatch.setattr("sureenough.vllm.records.PROGRESS_SECONDS", 0.02)
    return records


def grow(records: PathRecords, *, start: int, end: int) -> None:
    if start == 0:
        records.start_path(1, KEY, trace=False)
    for before in range(start, end):
        results = np.zeros((1, RESULT_COLUMNS))
        results[0, [RESULT_LOWEST, RESULT_TAIL]] = 3.0, 4.0
        records.add_step(np.array([1]), np.array([before], dtype=np.int32), results)


def vllm(records: PathRecords, status: int = 200, reply: Any = WHOLE, sampled: int = 6) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        body = json.loads((await receive())["body"])
        assert not {"stream", "stream_options", "logprobs"} & body.keys()
        assert body["vllm_xargs"]["sure_key"] == KEY
        grow(records, start=0, end=4)
        await asyncio.sleep(0.3)
        grow(records, start=4, end=sampled)
        await send({"type": "http.response.start", "status": status, "headers": [(b"theirs", b"1")]})
        await send({"type": "http.response.body", "body": json.dumps(reply).encode()})

    return app


def post(
    app: App, body: dict[str, Any], request: WatchRequest = REQUEST, sent: list[Any] | None = None
) -> tuple[dict[str, Any], bytes]:
    """The head and the bytes of a reply."""
    sent = [] if sent is None else sent

    async def receive() -> Any:
        return {"type": "http.request", "body": json.dumps(body).encode(), "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    head = [(WATCH_HEADER.encode(), request.to_header()[WATCH_HEADER].encode())]
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": head}
    asyncio.run(asyncio.wait_for(RecordsMiddleware(app)(scope, receive, send), 30))
    return sent[0], b"".join(message["body"] for message in sent[1:])


async def no_response(*_: Any, **__: Any) -> None:
    """No request beside that for the path reaches the server."""


def read(raw: bytes, request: WatchRequest = REQUEST) -> tuple[ReplyParser, list[Report]]:
    parser = ReplyParser(20, True)
    parser.leave_to(WatchedPath(Watcher(no_response), request))
    reports = [parser.feed(line + b"\n\n") for line in raw.split(b"\n\n")]
    return parser, [report for report in reports if isinstance(report, Report)]


def test_counts_come_while_the_path_grows_and_everything_else_at_its_end(records: PathRecords) -> None:
    head, raw = post(vllm(records), BODY)
    assert (head["status"], dict(head["headers"])[b"content-type"][:17]) == (200, b"text/event-stream")
    parser, chunks = read(raw)
    last = parser.last()
    assert chunks[0].unread == 3  # while it grew: the fourth token may be one after the last
    assert sum(chunk.unread for chunk in chunks) + last.unread == 6
    assert (last.prompt_tokens, last.finish, last.estimated) == (9, "stop", False)
    assert [chunk.text for chunk in chunks if chunk.text] == ["<think>\n3 + 4\n</think>\n\nIt is 7."]
    assert parser.done
    assert last.summary is not None
    assert last.summary.tokens == 6


COUNTED = WatchRequest(KEY, 1, record=False)


def test_a_path_that_is_only_counted_has_no_record(records: PathRecords) -> None:
    parser, chunks = read(post(vllm(records), BODY, COUNTED)[1], COUNTED)
    last = parser.last()
    assert chunks[0].unread == 3
    assert sum(chunk.unread for chunk in chunks) + last.unread == 6
    assert (last.prompt_tokens, last.finish, last.estimated) == (9, "stop", False)
    assert chunks[-1].text.endswith("It is 7.")
    assert last.summary is None


def test_a_token_that_the_engine_samples_ahead_is_not_counted(records: PathRecords) -> None:
    """An engine that schedules ahead learns of a path's end one token later."""
    shorter = WHOLE | {"usage": {"prompt_tokens": 9, "completion_tokens": 3}}
    parser, chunks = read(post(vllm(records, reply=shorter, sampled=4), BODY, COUNTED)[1], COUNTED)
    assert sum(chunk.unread for chunk in chunks) + parser.last().unread == 3


@pytest.mark.parametrize("request_", [REQUEST, COUNTED], ids=["with a record", "counted"])
def test_a_path_that_the_monitor_lost_goes_on_if_it_is_only_counted(
    records: PathRecords, request_: WatchRequest
) -> None:
    async def lose(scope: Any, receive: Any, send: Any) -> None:
        await receive()
        grow(records, start=0, end=4)
        while len(sent) < 2:  # the head and a count
            await asyncio.sleep(0.01)
        records.lose_path(KEY, "it was preempted and its slot given away")
        while len(sent) < 3 and request_ is COUNTED:
            await asyncio.sleep(0.01)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": json.dumps(WHOLE).encode()})

    sent: list[Any] = []
    parser, chunks = read(post(lose, BODY, request_, sent)[1], request_)
    signs_of_life = [chunk for chunk in chunks if not chunk.unread and not chunk.text]
    assert bool(signs_of_life) is (request_ is COUNTED)
    assert chunks[-1].text.endswith("It is 7.")
    if request_ is COUNTED:
        assert sum(chunk.unread for chunk in chunks) + parser.last().unread == 6
    else:
        with pytest.raises(InvalidReply, match="its record could not be read"):
            parser.last()


def test_a_refusal_that_comes_at_once_keeps_its_status(records: PathRecords) -> None:
    async def refuse(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 400, "headers": [(b"theirs", b"1")]})
        await send({"type": "http.response.body", "body": b'{"error": {"message": "no"}}'})

    head, raw = post(refuse, BODY)
    assert (head["status"], head["headers"], json.loads(raw)["error"]["message"]) == (400, [(b"theirs", b"1")], "no")


@pytest.mark.parametrize(
    ("status", "reply", "words"),
    [
        (500, {"error": {"message": "out of memory"}}, "out of memory"),
        (503, {"message": "busy"}, "busy"),
        (200, None, "not a completion"),  # vLLM's reply to a client that left
        (200, {"choices": []}, "not a completion"),
        (200, [1], "not a completion"),
    ],
)
def test_an_error_after_the_start_becomes_an_event(records: PathRecords, status: int, reply: Any, words: str) -> None:
    parser, _ = read(post(vllm(records, status, reply), BODY)[1])
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


def test_the_record_of_a_path_is_found_in_whichever_engine_ran_it(tmp_path: Path, records: PathRecords) -> None:
    socket_path, other = str(tmp_path / "records.sock"), PathRecords(4)
    serve_records(other, socket_path, engine=1)
    grow(other, start=0, end=3)

    async def use() -> None:
        record = await MonitorReader(socket_path).record(KEY, 3)
        assert (record["tokens"], record["engine"]) == (3, 1)
        known, unknown = await MonitorReader(socket_path).request_progress([KEY, "another-path"])
        assert (known, unknown) == ((3, 4.0), None)
        reader = MonitorReader(socket_path)
        with reader.following(KEY):
            assert await reader.progress(KEY) == (3, 4.0)
        assert await MonitorReader(str(tmp_path / "nothing.sock")).progress(KEY) is None

    asyncio.run(use())
