"""Handlers for clients and operators: OpenAI's endpoints, health and metrics."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough.server.consensus import ConsensusResponse
from sureenough.server.engine_upstream import EngineUpstream
from sureenough.server.errors import ApiError, unknown_model
from sureenough.server.metrics import CONTENT_TYPE
from sureenough.server.model_names import names_with_strategies, split_model_name
from sureenough.server.passthrough import PassthroughResponse
from sureenough.server.request_reader import ConsensusRequest, RequestReader, check_plain_request, parse_body
from sureenough.server.responses import json_response
from sureenough.server.runs import RunRegistry
from sureenough.server.state import ServerState
from sureenough.server.upstream import Upstream

UPLOAD_SECONDS: Final = 60  # seconds that the body of a request may take to arrive


class ApiRoutes:
    """The handlers of one server."""

    def __init__(self, state: ServerState, runs: RunRegistry) -> None:
        self.state, self.runs = state, runs
        self.reader = RequestReader(state.settings)

    async def chat(self, request: Request) -> ASGIApp:
        return CompletionEndpoint(self, "chat/completions", chat=True)

    async def completions(self, request: Request) -> ASGIApp:
        return CompletionEndpoint(self, "completions", chat=False)

    def read(self, body: dict[str, Any], chat: bool) -> ConsensusRequest:
        upstream = self.state.upstream
        if isinstance(upstream, EngineUpstream):
            upstream.check_request(body, self.state.settings.strategy)
        return self.reader.read(body, chat=chat, template=upstream.template)

    async def models(self, request: Request) -> Response:
        return json_response({"object": "list", "data": await self._listed()})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        entry = next((model for model in await self._listed() if model["id"] == name), None)
        if entry is None:
            raise unknown_model(name)
        return json_response(entry)

    async def _listed(self) -> list[dict[str, Any]]:
        models = [] if self.state.settings.view_only else await self.state.upstream.models()
        created = int(time.time())
        return [
            {"id": name, "object": "model", "created": created, "owned_by": "sureenough"}
            for name in names_with_strategies(models)
        ]

    async def health(self, request: Request) -> Response:
        if self.state.shutting_down:
            return json_response({"status": "stopping"}, 503)
        ready = self.state.settings.view_only or await self.state.upstream.ready()
        return json_response({"status": "ok" if ready else "upstream unreachable"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        return Response(self.state.metrics.text(), media_type=CONTENT_TYPE)


class CompletionEndpoint:
    """An ASGI application for one completion request, which holds a slot from its first byte to its last."""

    def __init__(self, api: ApiRoutes, endpoint: str, *, chat: bool) -> None:
        self.api, self.endpoint, self.chat = api, endpoint, chat

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the request, and send a consensus or the upstream's response."""
        state = self.api.state
        with state.slot() as slot:
            raw = await read_body(Request(scope, receive), state.settings.limits.body)
            body = parse_body(raw)
            name = split_model_name(body["model"])
            upstream = state.upstream
            await upstream.check_model(name.model)
            response: ASGIApp
            if isinstance(upstream, Upstream) and name.strategy is None and body.get("sureenough") is None:
                if state.settings.limits.plain:
                    check_plain_request(body, state.settings.limits)
                response = PassthroughResponse(state, upstream, self.endpoint, raw, slot)
            else:
                response = ConsensusResponse(self.api.runs, self.api.read(body, self.chat), slot)
            await response(scope, receive, send)


async def read_body(request: Request, limit: int) -> bytes:
    """The body. One that is too large is read and dropped, so that the client receives the response."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(UPLOAD_SECONDS):
            async for part in request.stream():
                size += len(part)
                if size <= limit:
                    parts.append(part)
                elif size > 16 * limit:
                    break
    except TimeoutError:
        raise ApiError(408, f"The body did not arrive within {UPLOAD_SECONDS} s.", code="request_timeout") from None
    if size > limit:
        raise ApiError(413, f"The body is larger than {limit:,} bytes.", code="request_too_large")
    return b"".join(parts)
