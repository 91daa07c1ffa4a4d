"""An ordinary OpenAI-compatible server: lists models, speaks whole or in a stream, calls tools, counts what is open.

Paths are those of the misbehaving server, whose manners it takes; it can also be taken down and brought back.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route, Router

from sureenough.server import ServerSettings
from sureenough.server.consensus import ServerState
from tests.engines.misbehaving import Manner, events
from tests.engines.raw_server import RawServer, raw_server
from tests.in_thread import in_thread
from tests.server.serving import Listening, ours, serving_app

KEY = "sk-upstream-secret-0123456789"


class Upstream:
    """What it was asked, and what is open now."""

    listening: Listening

    def __init__(self, manner: Callable[[int], Manner]) -> None:
        self.manner = manner  # by seed
        self.bodies: list[bytes] = []
        self.headers: list[dict[str, str]] = []
        self.running = 0
        self.made = 0  # tokens
        self.url = ""
        self.models = ["tiny", "user@host"]

    def stop(self) -> None:
        """Die, as a process that is killed does."""
        self.listening.stop(hard=True)

    def app(self) -> Router:
        return Router(
            routes=[
                Route("/v1/chat/completions", self.complete, methods=["POST"]),
                Route("/v1/completions", self.complete, methods=["POST"]),
                Route("/v1/responses", self.respond, methods=["POST"]),
                Route("/v1/models", self.listed),
            ]
        )

    async def listed(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": name, "object": "model"} for name in self.models]})

    async def respond(self, request: Request) -> Response:
        """Of the Responses API, which is only passed through."""
        self.bodies.append(await request.body())
        part = {"type": "output_text", "text": "of the upstream", "annotations": []}
        message = {"id": "m", "type": "message", "role": "assistant", "status": "completed", "content": [part]}
        return JSONResponse({"id": "up-1", "object": "response", "output": [message]})

    async def complete(self, request: Request) -> Response:
        raw = await request.body()
        body = json.loads(raw)
        self.bodies.append(raw)
        self.headers.append(dict(request.headers))
        if request.headers.get("authorization") != f"Bearer {KEY}":
            return JSONResponse(wrong(f"wrong key; it is {KEY}", None), 401)
        if body["model"] not in self.models:
            return JSONResponse(wrong("no such model", "model_not_found"), 404)
        if body.get("temperature") == 1.5:
            return JSONResponse(wrong(f"too hot for {KEY}", "hot"), 400)
        if body.get("tools"):
            return JSONResponse(tool_call(body))
        if not body.get("stream"):
            return JSONResponse(whole(body))
        manner = self.manner(body.get("seed", 0))
        if manner.status != 200:
            return Response(manner.body, manner.status, media_type="application/json")
        return StreamingResponse(self.stream(body | {"seed": body.get("seed", 0)}, manner), media_type=manner.kind)

    async def stream(self, body: dict[str, Any], manner: Manner) -> AsyncIterator[str]:
        self.running += 1
        try:
            for at, data in enumerate(events(body, manner)):
                if at == manner.cut_after:
                    raise ConnectionError("as you wished")
                self.made += '"delta"' in data or '"text"' in data
                yield f"data: {data}\n\n"
                await asyncio.sleep(manner.delay)
        finally:
            self.running -= 1


def wrong(message: str, code: str | None) -> dict[str, Any]:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": code}}


def whole(body: dict[str, Any]) -> dict[str, Any]:
    """A reply in one piece."""
    messages = body.get("messages")
    count = len(messages) if isinstance(messages, list) else 0
    message = {"role": "assistant", "content": f"you said {count} things"}
    choice = {"index": 0, "message": message, "text": "plain", "finish_reason": "stop"}
    return {"id": "up-1", "object": "chat.completion", "created": 1, "model": body["model"], "choices": [choice],
            "usage": {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}, "of_upstream": True}  # fmt: skip


def tool_call(body: dict[str, Any]) -> dict[str, Any]:
    """A reply that calls the first tool."""
    name = body["tools"][0]["function"]["name"]
    call = {"id": "call_1", "type": "function", "function": {"name": name, "arguments": "{}"}}
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return whole(body) | {"choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}


class HasUrl(Protocol):
    url: str


def before(upstream: HasUrl, *others: HasUrl, **settings: Any) -> AbstractContextManager[tuple[str, ServerState]]:
    """Our own server before these upstreams."""
    more = tuple(other.url for other in others)
    return ours(ServerSettings(upstream=upstream.url, more_upstreams=more, upstream_key=KEY, **settings))


@contextmanager
def an_upstream(manner: Manner | Callable[[int], Manner], port: int = 0) -> Iterator[Upstream]:
    """One on a free port of this machine."""
    upstream = Upstream((lambda seed: manner) if isinstance(manner, Manner) else manner)
    with serving_app(upstream.app(), port) as upstream.listening:
        upstream.url = f"{upstream.listening.url}/v1"
        yield upstream


@contextmanager
def two_upstreams(manner: Manner, **settings: Any) -> Iterator[tuple[str, ServerState, Upstream, Upstream]]:
    """Our own server before two upstreams, all of them running."""
    with an_upstream(manner) as one, an_upstream(manner) as other, before(one, other, **settings) as (url, state):
        yield url, state, one, other


def raw_upstream(reply: bytes) -> AbstractContextManager[RawServer]:
    """A server that answers every request with these bytes."""

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        writer.write(reply)

    return in_thread(raw_server(answer))
