"""Handlers for clients and operators: each reads its request and says who answers it."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp

from sureenough.server.consensus import ConsensusResponse
from sureenough.server.errors import ApiError
from sureenough.server.metrics import KIND
from sureenough.server.model_names import listed, split_model_name
from sureenough.server.openapi import document
from sureenough.server.passthrough import PassthroughResponse
from sureenough.server.runs import RunRegistry
from sureenough.server.schema import ConsensusRequest, parse_body, read_consensus_request
from sureenough.server.state import ServerState

SLOWEST: Final = 60
"""Seconds that a request may take to come whole."""


class ApiRoutes:
    """The handlers."""

    def __init__(self, house: ServerState, runs: RunRegistry) -> None:
        self.house, self.runs = house, runs

    # -- as OpenAI's

    async def chat(self, request: Request) -> ASGIApp:
        """Chat: a consensus, or passed through."""
        return await self._complete(request, "chat/completions", chat=True)

    async def completions(self, request: Request) -> ASGIApp:
        """Plain completions, in the same two ways."""
        return await self._complete(request, "completions", chat=False)

    async def _complete(self, request: Request, verb: str, *, chat: bool) -> ASGIApp:
        raw = await read_body(request, self.house.settings.limits.body)
        body = parse_body(raw)
        named = split_model_name(body["model"])
        self.house.asked.admit(named.model)
        if named.strategy is None and body.get("sureenough") is None:
            return PassthroughResponse(self.house, verb, raw)
        return ConsensusResponse(self.runs, self.read_consensus_request(body, chat))

    def read_consensus_request(self, body: dict[str, Any], chat: bool) -> ConsensusRequest:
        """A request for a consensus."""
        house = self.house
        return read_consensus_request(
            body, split_model_name(body["model"]), house.settings, chat=chat, template=house.asked.template
        )

    async def models(self, request: Request) -> Response:
        """Every model, plain and with every strategy."""
        names = [] if self.house.settings.showing else await self.house.asked.models()
        return json_response({"object": "list", "data": listed(names, int(time.time()))})

    async def model(self, request: Request) -> Response:
        """One of them."""
        name = request.path_params["name"]
        found = [one for one in listed(await self.house.asked.models(), int(time.time())) if one["id"] == name]
        if not found:
            raise ApiError(404, f"The model '{name}' does not exist.", code="model_not_found", param="model")
        return json_response(found[0])

    # -- for operators

    async def health(self, request: Request) -> Response:
        """Whether requests can be answered now."""
        if self.house.draining:
            return json_response({"status": "stopping"}, 503)
        ready = self.house.settings.showing or await self.house.asked.ready()
        return json_response({"status": "ok" if ready else "upstream unreachable"}, 200 if ready else 503)

    async def metrics(self, request: Request) -> Response:
        """For Prometheus."""
        text = self.house.counters.text(self.house.busy, len(self.house.running), len(asyncio.all_tasks()))
        return Response(text, media_type=KIND)

    async def openapi(self, request: Request) -> Response:
        """What can be asked, for programs."""
        offered = () if self.house.settings.showing else self.house.asked.offered
        names = [str(one["id"]) for one in listed(list(offered), 0)]
        return json_response(document(names))


async def read_body(request: Request, most: int) -> bytes:
    """The body, as long as it is not too long; what is too much is read and dropped, so that the reply is heard."""
    parts, size = [], 0
    try:
        async with asyncio.timeout(SLOWEST):
            async for part in request.stream():
                size += len(part)
                if size <= most:
                    parts.append(part)
                elif size > 16 * most:
                    break
    except TimeoutError:
        raise ApiError(408, f"The request did not come whole in {SLOWEST} s.", code="request_timeout") from None
    if size > most:
        raise ApiError(413, f"The request is larger than {most:,} bytes.", code="request_too_large")
    return b"".join(parts)


def json_response(data: Any, status: int = 200) -> Response:
    """A reply in JSON."""
    return Response(msgspec.json.encode(data), status, media_type="application/json")
