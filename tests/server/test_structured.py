"""Replies that programs read, through the official openai client: JSON that validates, and tool calls by vote."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route, Router

from sureenough.server import ServerSettings, requests, structured
from sureenough.server.consensus import Backend, ServerState
from tests.server.openai_client import ASK, client, extra
from tests.server.sending import counters
from tests.server.serving import ours, serving_app

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {"total": {"type": "number"}, "currency": {"enum": ["EUR", "USD"]}},
    "required": ["total", "currency"],
    "additionalProperties": False,
}
FORMAT: Any = {"type": "json_schema", "json_schema": {"name": "price", "schema": SCHEMA, "strict": True}}
TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}} for name in ("look", "buy")
]
Reply = str | list[tuple[str, str]]
"""A text, or calls of tools."""


class Script:
    """An upstream that gives one reply after the other, and keeps the requests."""

    def __init__(self, replies: list[Reply]) -> None:
        self.replies, self.bodies = replies, list[dict[str, Any]]()

    async def complete(self, request: Request) -> Response:
        self.bodies.append(await request.json())
        reply = self.replies[(len(self.bodies) - 1) % len(self.replies)]
        return StreamingResponse(self.events(reply), media_type="text/event-stream")

    async def events(self, reply: Reply) -> Any:
        for delta in deltas(reply):
            yield f"data: {json.dumps({'choices': [{'index': 0, 'delta': delta}]})}\n\n"
        finish = {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}
        yield f"data: {json.dumps(finish)}\n\ndata: [DONE]\n\n"


def deltas(reply: Reply) -> Iterator[dict[str, Any]]:
    if isinstance(reply, str):
        yield {"content": reply[:5]}
        yield {"content": reply[5:]}
        return
    for index, (name, arguments) in enumerate(reply):
        yield {"tool_calls": [{"index": index, "id": "x", "function": {"name": name, "arguments": ""}}]}
        for part in (arguments[:4], arguments[4:]):
            yield {"tool_calls": [{"index": index, "function": {"arguments": part}}]}


@contextmanager
def serving(replies: list[Reply], **settings: Any) -> Iterator[tuple[openai.OpenAI, Script]]:
    script = Script(replies)
    app = Router(routes=[Route("/v1/chat/completions", script.complete, methods=["POST"])])
    with serving_app(app) as upstream:
        chosen = ServerSettings(upstream=f"{upstream.url}/v1", models=("tiny",), parallel=1, **settings)
        with ours(chosen) as (url, _):
            yield client(url), script


def ask(client: openai.OpenAI, **more: Any) -> Any:
    options = more.pop("sureenough", {}) | {"paths": more.pop("paths", 5)}
    body = {"sureenough": options} | more.pop("extra_body", {})
    return client.chat.completions.create(model="tiny@sc", messages=ASK, extra_body=body, **more)


PRICES: list[Reply] = [
    '{"total": 5, "currency": "EUR"}',
    '<think>Six?</think>It is {"total": 6, "currency": "EUR"}',
    '```json\n{"currency": "EUR", "total": 5.0}\n```',
    '{"total": "five", "currency": "EUR"}',
    '{"total": 7, "currency": "GBP"}',
]


@pytest.mark.parametrize("stream", [False, True])
def test_a_json_schema_is_voted_on_and_validates(stream: bool) -> None:
    with serving(PRICES) as (own, script):
        if stream:
            chunks = list(ask(own, response_format=FORMAT, stream=True))
            content = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
        else:
            reply = ask(own, response_format=FORMAT)
            content = reply.choices[0].message.content
            assert list(extra(reply)["votes"].values()) == [2.0, 1.0]
            assert extra(reply)["abstained"] == 2
        assert content == '{"total": 5, "currency": "EUR"}'
        body = script.bodies[0]
        assert body["response_format"] == FORMAT
        assert body["messages"] == ASK, "the client's own instructions, and nothing about boxes"


class Price(BaseModel):
    total: float
    currency: str


@pytest.mark.parametrize(
    ("api", "fields"),
    [
        ("chat/completions", {"messages": [{"role": "user", "content": "?"}], "response_format": FORMAT}),
        ("responses", {"input": "?", "text": {"format": {"type": "json_schema", "name": "price", "schema": SCHEMA}}}),
    ],
)
def test_schemas_are_prepared_off_the_event_loop(
    api: Any, fields: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    threads = list[threading.Thread]()
    prepare = structured.structured_judge

    def seen(*args: Any, **options: Any) -> Any:
        threads.append(threading.current_thread())
        return prepare(*args, **options)

    monkeypatch.setattr(requests, "structured_judge", seen)
    state = ServerState(ServerSettings(), Backend())
    asyncio.run(state.read({"model": "m@sc", **fields}, api))
    assert [thread is threading.main_thread() for thread in threads] == [False]


def test_the_client_parses_the_winner() -> None:
    with serving(PRICES) as (own, _):
        reply = own.chat.completions.parse(
            model="tiny@sc", messages=ASK, response_format=Price, extra_body={"sureenough": {"paths": 3}}
        )
        assert reply.choices[0].message.parsed == Price(total=5, currency="EUR")


def test_json_objects_and_fields() -> None:
    with serving(['{"a": 1, "note": "x"}', "[1]", '{"note": "y", "a": 1.0}']) as (own, _):
        reply = ask(own, response_format={"type": "json_object"}, sureenough={"kind": "json:fields=a"}, paths=3)
        assert extra(reply)["votes"] == {'{"a": 1, "note": "x"}': 2.0}


def test_without_valid_json_the_client_reads_a_refusal() -> None:
    with serving(["no", '{"total": 5}']) as (own, _):
        message = ask(own, response_format=FORMAT).choices[0].message
        assert message.content in (None, "")
        assert "none of" in message.refusal
        assert "JSON" in message.refusal


@pytest.mark.parametrize(
    ("format", "named"),
    [
        ({"type": "yaml"}, "known: text, json_object, json_schema"),
        ({"type": "json_schema"}, "schema must be an object"),
        ({"type": "json_schema", "json_schema": {"schema": {"if": {}}}}, "keyword if"),
        ("json", "known: text"),
    ],
)  # fmt: skip
def test_formats_that_cannot_be_voted_on_are_refused(format: Any, named: str) -> None:
    with serving(["x"]) as (own, script):
        with pytest.raises(openai.BadRequestError, match=named):
            ask(own, response_format=format)
        with pytest.raises(openai.BadRequestError, match="leave one out"):
            ask(own, response_format={"type": "json_object"}, sureenough={"kind": "date"})
        assert script.bodies == []


@pytest.mark.parametrize("stream", [False, True])
def test_tool_calls_are_voted_on_by_their_arguments(stream: bool) -> None:
    paris, rome = '{"city": "Paris", "days": 2}', '{"city": "Rome"}'
    replies: list[Reply] = [[("look", rome)], [("look", paris)], [("look", '{"days": 2.0, "city": "Paris"}')]]
    with serving(replies) as (own, script):
        if stream:
            chunks = list(ask(own, tools=TOOLS, paths=3, stream=True))
            calls = [call for chunk in chunks if chunk.choices for call in chunk.choices[0].delta.tool_calls or ()]
            finish = [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1]
        else:
            choice = ask(own, tools=TOOLS, paths=3).choices[0]
            calls, finish = choice.message.tool_calls, choice.finish_reason
            assert choice.message.content is None
        assert [(call.function.name, call.function.arguments) for call in calls] == [("look", paris)]
        assert finish == "tool_calls"
        assert script.bodies[0]["tools"] == TOOLS


@pytest.mark.parametrize(
    ("replies", "named"),
    [
        ([[("look", "{}")], [("buy", "{}")]], "buy, look"),
        ([[("look", "{}")], "I need no tool"], "look, no tool"),
        (["I need no tool"], "no tool"),
        ([[("look", "{}"), ("buy", "{}")], [("look", "{}")]], "look, look and buy"),
    ],
)
def test_paths_that_disagree_on_the_tool_are_refused(replies: list[Reply], named: str) -> None:
    with serving(replies) as (own, script):
        with pytest.raises(openai.BadRequestError, match=f"do not agree on a tool: they call {named}"):
            ask(own, tools=TOOLS, paths=50)
        assert len(script.bodies) < 10, "the rest of the budget is not spent"
        counted = counters(str(own.base_url).removesuffix("/v1/"))
        assert counted['runs_total{reason="interrupted"}'] == 1
        assert counted['tokens_total{bucket="kept"}'] > 0, "what was spent is counted"


def test_arguments_that_are_not_json_abstain() -> None:
    with serving([[("look", '{"city": ')], [("look", '{"city": "Rome"}')]]) as (own, _):
        reply = ask(own, tools=TOOLS, paths=4)
        assert extra(reply)["abstained"] == 2
        assert reply.choices[0].message.tool_calls[0].function.arguments == '{"city": "Rome"}'


def test_kinds_in_requests_and_of_the_operator() -> None:
    with serving(["Answer: 2 January 2024", "Answer: 2024-01-02"], kind="regex:Answer: (.*)") as (own, script):
        assert extra(ask(own, sureenough={"kind": "date"}))["votes"] == {"2 January 2024": 5.0}
        assert "YYYY-MM-DD" in script.bodies[0]["messages"][-1]["content"]
        assert len(extra(ask(own))["votes"]) == 2, "the operator's kind"
        assert len(extra(ask(own, sureenough={"kind": "regex:Answer: (.*)"}))["votes"]) == 2
        for kind in ("regex:(.*)", "tests.answers.test_kinds:Sql", "dates", "number:tolerance=1"):
            with pytest.raises(openai.BadRequestError, match="known: "):
                ask(own, sureenough={"kind": kind})


def test_langchain_reads_the_vote() -> None:
    langchain = pytest.importorskip("langchain_openai")
    with serving(PRICES) as (own, _):
        model = langchain.ChatOpenAI(
            model="tiny@sc", base_url=str(own.base_url), api_key="none", extra_body={"sureenough": {"paths": 3}}
        )
        assert model.with_structured_output(Price).invoke("How much?") == Price(total=5, currency="EUR")


@pytest.mark.parametrize("arguments", ["{", "null", "5", "[]", '{"a": 1, "a": 2}', '{}, "x": 1', "{} }", "[" * 3000])
def test_calls_with_arguments_that_are_not_an_object_are_not_returned(arguments: str) -> None:
    with serving([[("look", arguments)]]) as (asked, _):
        message = ask(asked, tools=TOOLS).choices[0].message
    assert not message.tool_calls
    assert "none of 5 paths has a call of one of the tools, with JSON arguments" in message.refusal


@pytest.mark.parametrize("tools", [5, {}, "look", [5], [{"type": "web_search"}]])
def test_tools_that_are_not_functions_are_refused(tools: Any) -> None:
    with serving(["5"]) as (asked, _), pytest.raises(openai.BadRequestError, match="must be a list of functions"):
        ask(asked, extra_body={"tools": tools, "sureenough": {"paths": 2}})


def test_thinking_that_the_chat_template_opened_is_not_in_the_content_of_a_reply() -> None:
    """The vote reads what the client receives as content: the box inside the thinking plays no part."""
    with serving(["Perhaps \\boxed{4}?\n</think>\n\nIt is \\boxed{5}."]) as (client, _):
        reply = ask(client)
    message = reply.choices[0].message
    assert message.content == "It is \\boxed{5}."
    assert message.model_extra["reasoning_content"] == "Perhaps \\boxed{4}?"
    assert extra(reply)["votes"] == {"5": 5.0}
