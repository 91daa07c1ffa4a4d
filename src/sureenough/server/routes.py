"""The endpoints: OpenAI's, health and metrics; the page, its form, the runs that it starts, and their events.

One table lists them all; the routes, the OpenAPI document and the metrics' labels derive from it.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib.resources import files
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from prometheus_client import generate_latest
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough import __version__
from sureenough.answers.kinds import REGISTRY as KINDS
from sureenough.core.options import RunOptions
from sureenough.reasoner import LIMITS, NAME
from sureenough.server.consensus import ServerState
from sureenough.server.metrics import CONTENT_TYPE, learned_signals
from sureenough.server.replies import respond
from sureenough.server.requests import PAGE_STRATEGIES, asks_for_consensus, names_with_strategies, parse_body
from sureenough.server.responses import JSON, ApiError, ErrorBody, json_response, send_events, unknown_model
from sureenough.spec import options as strategy_options

EVENTS: Final = "text/event-stream"
REF: Final = "#/components/schemas/{name}"
UPLOAD_SECONDS: Final = 60  # seconds that the body of a request may take to arrive
PAGE: Final = files("sureenough.server") / "page"
NOT_KEPT: Final = {"Cache-Control": "no-cache"}
MEDIA_TYPES: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
REPORT_POLICY: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
REPLICATED: Final = (
    "Several processes serve this address, and the next request of a page may reach one that does not have its run. "
    "Start runs from the page of a server that is a single process; /v1 works here."
)


class Endpoint(NamedTuple):
    """A row of the table of endpoints, from which the routes, the OpenAPI document and the metrics' labels derive."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[ASGIApp]]
    summary: str = ""  # empty: a part of the page, which the document leaves out
    status: int = 200
    media_types: tuple[str, ...] = (JSON,)
    body: type[Struct] | None = None


class Routes:
    def __init__(self, state: ServerState, prefix: str = "") -> None:
        """Take the path below which another server has these routes, if one has."""
        self.state, self._prefix = state, prefix
        types = state.reader.types
        chat, completion = types.chat, types.completion
        self.endpoints = [
            Endpoint("POST", "/v1/chat/completions", self.complete, "Chat, by vote or passed through.",
                     media_types=(JSON, EVENTS), body=chat),
            Endpoint("POST", "/v1/completions", self.complete, "Completion of a text, by vote or passed through.",
                     media_types=(JSON, EVENTS), body=completion),
            Endpoint("POST", "/v1/responses", self.complete, "A response, by vote or passed through.",
                     media_types=(JSON, EVENTS), body=types.response),
            Endpoint("GET", "/v1/models", self.models, "Every model, plain and with each strategy."),
            Endpoint("GET", "/v1/models/{name:path}", self.model, "One model by its name."),
            Endpoint("GET", "/healthz", self.live, "Whether this process works, whatever the upstream does."),
            Endpoint("GET", "/readyz", self.ready, "Whether requests can be served now."),
            Endpoint("GET", "/metrics", self.metrics, "Metrics for Prometheus.", media_types=("text/plain",)),
            Endpoint("GET", "/openapi.json", self.openapi, "This document."),
            Endpoint("GET", "/api/options", self.options, "Models, strategies and run options of this server."),
            Endpoint("GET", "/api/learned", self.learned, "What was learned of each model's confidence, and latency."),
            Endpoint("POST", "/api/runs", self.start_run, "Start a run that a page watches.", 201, body=chat),
            Endpoint("GET", "/api/runs", self.list_runs, "The runs that were kept."),
            Endpoint("DELETE", "/api/runs/{id}", self.stop_run, "End a run with the vote so far.", 204, ()),
            Endpoint("GET", "/api/runs/{id}/events", self.events, "The changes of a run as they happen.",
                     media_types=(EVENTS,)),
            Endpoint("GET", "/api/runs/{id}/paths/{number}", self.path_text, "The text of one path."),
            Endpoint("GET", "/api/runs/{id}/agrees-with/{other}", self.agreement,
                     "Whether two runs have the same answer."),
            Endpoint("GET", "/", self.page),
            Endpoint("GET", "/runs", self.page),
            Endpoint("GET", "/settings", self.page),
            Endpoint("GET", "/runs/{id}", self.page),
            Endpoint("GET", "/compare/{id}/{other}", self.page),
            Endpoint("GET", "/reports/{name:path}", self.report),
            Endpoint("GET", "/page/{file}", self.file),
        ]  # fmt: skip

    async def complete(self, request: Request) -> ASGIApp:
        """A consensus, or the upstream's own response; it holds a slot until its last byte."""
        api: Any = str(request.scope["path"]).removeprefix("/v1/")
        with self.state.slot() as slot:
            raw, body = await self._read_body(request)
            if asks_for_consensus(body):
                return await respond(self.state, api, body, slot)
            await self.state.backend.check_model(body["model"])
            self.state.reader.check_plain(body)
            return self.state.backend.passthrough(api, raw, slot.pop_all())

    async def _read_body(self, request: Request) -> tuple[bytes, dict[str, Any]]:
        if self.state.settings.view_only:
            raise ApiError(503, "This server only shows runs that were kept.", code="view_only")
        raw = await self._read(request)
        return raw, parse_body(raw)

    async def _read(self, request: Request) -> bytes:
        """The bytes of a body. One that is too large is read and dropped, so that the client gets the response."""
        limit = self.state.settings.limits.body
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

    async def models(self, request: Request) -> Response:
        return json_response({"object": "list", "data": await self._listed()})

    async def model(self, request: Request) -> Response:
        name = request.path_params["name"]
        entry = next((model for model in await self._listed() if model["id"] == name), None)
        if entry is None:
            raise unknown_model(name)
        return json_response(entry)

    async def _listed(self) -> list[dict[str, Any]]:
        entry = {"object": "model", "created": int(time.time()), "owned_by": "sureenough"}
        return [{"id": name, **entry} for name in names_with_strategies(await self.state.backend.models())]

    async def live(self, request: Request) -> Response:
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        if self.state.shutting_down:
            return json_response({"status": "stopping"}, 503)
        ready = await self.state.backend.ready()
        return json_response({"status": "ok" if ready else "upstream unreachable"}, 200 if ready else 503)

    async def openapi(self, request: Request) -> Response:
        return json_response(document(self.endpoints, names_with_strategies(self.state.backend.offered)))

    async def metrics(self, request: Request) -> Response:
        return Response(generate_latest(self.state.metrics), media_type=CONTENT_TYPE)

    async def page(self, request: Request) -> Response:
        """The page, which chooses by its address what to show."""
        page = (PAGE / "index.html").read_text("utf-8").replace('="/', f'="{self._prefix}/')
        return Response(page, media_type="text/html", headers=NOT_KEPT)

    async def file(self, request: Request) -> Response:
        name = request.path_params["file"]
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not (PAGE / name).is_file():
            raise ApiError(404, "This file does not exist.")
        media_type = MEDIA_TYPES.get(name.rpartition(".")[2], "text/plain")
        return Response((PAGE / name).read_bytes(), media_type=media_type, headers=NOT_KEPT)

    async def options(self, request: Request) -> Response:
        settings, models = self.state.settings, await self.state.backend.models()
        defaults, caps = settings.run_options(), settings.limits.caps()
        strategies = [
            {"name": one.name, "help": one.summary,
             "options": {name: option.read(one) for name, option in strategy_options(one).items()}}
            for one in PAGE_STRATEGIES
        ]  # fmt: skip
        options = [
            {"name": name, "help": option.metadata["help"], "default": getattr(defaults, name),
             "minimum": option.metadata["minimum"], "maximum": caps.get(name),
             "fractional": option.metadata["number"] is float}
            for name, option in RunOptions.fields().items()
        ]  # fmt: skip
        return json_response(
            {"view_only": settings.view_only, "models": models, "strategy": settings.strategy,
             "strategies": strategies, "options": options, "kind": settings.kind,
             "kinds": list(dict.fromkeys([settings.kind, *KINDS.names()])),
             "refusal": REPLICATED if settings.replica else None, "notes": [LIMITS] if models == [NAME] else []}
        )  # fmt: skip

    async def learned(self, request: Request) -> Response:
        """How far each model's signals go with agreement, their weights, and the questions behind them."""
        return json_response({"learned": learned_signals(self.state.learned), "latency": self.state.metrics.latency()})

    async def start_run(self, request: Request) -> Response:
        if self.state.settings.replica:
            raise ApiError(501, REPLICATED, code="replicated")
        with self.state.slot() as slot:
            _, body = await self._read_body(request)
            run = self.state.start(await self.state.read(body), slot.pop_all(), watched=True)
        return json_response({"id": run.id}, 201)

    async def list_runs(self, request: Request) -> Response:
        kept = self.state.kept
        runs, reports = await asyncio.to_thread(lambda: (kept.listed(), kept.reports()))
        return json_response({"runs": runs, "reports": reports, "keeping": kept.folder is not None})

    async def agreement(self, request: Request) -> Response:
        agree = await self.state.agree(request.path_params["id"], request.path_params["other"])
        return json_response({"agree": agree})

    async def stop_run(self, request: Request) -> Response:
        (await self.state.find(request.path_params["id"])).stop()
        return Response(status_code=204)

    async def path_text(self, request: Request) -> Response:
        run, number = await self.state.find(request.path_params["id"]), request.path_params["number"]
        text = await run.text(int(number)) if re.fullmatch(r"[0-9]{1,9}", number) else None
        if text is None:
            raise ApiError(404, "This path does not exist, or has no text yet.")
        return json_response(text)

    async def report(self, request: Request) -> Response:
        """A bench report: a page of its own, in a sandbox without access to this one."""
        file = self.state.kept.report(request.path_params["name"])
        return Response(file.read_bytes(), media_type="text/html", headers={"Content-Security-Policy": REPORT_POLICY})

    async def events(self, request: Request) -> ASGIApp:
        parts = (await self.state.find(request.path_params["id"])).events()

        async def until_closed(scope: Scope, receive: Receive, send: Send) -> None:
            with suppress(ClientDisconnect):  # a page leaves whenever it likes
                await send_events(parts, receive, send)

        return until_closed


def document(endpoints: Sequence[Endpoint], models: Sequence[str] = ()) -> dict[str, Any]:
    """The document, with the names of the models if they are known."""
    documented = [endpoint for endpoint in endpoints if endpoint.summary]
    bodies = list(dict.fromkeys(endpoint.body for endpoint in documented if endpoint.body is not None))
    _, schemas = msgspec.json.schema_components([ErrorBody, *bodies], ref_template=REF)
    for body in bodies if models else ():
        model = schemas[body.__name__]["properties"]["model"]
        schemas[body.__name__]["properties"]["model"] = {"anyOf": [{"enum": list(models)}, model]}
    paths: dict[str, dict[str, Any]] = {}
    for endpoint in documented:
        path = re.sub(r":\w+}", "}", endpoint.path)
        paths.setdefault(path, {})[endpoint.method.lower()] = _operation(endpoint, path)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "sureenough",
            "version": __version__,
            "description": "A strategy is part of the model's name (NAME@ddc:tau=0.99) or of the sureenough object; "
            "requests with a plain name are passed through.",
        },
        "components": {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}, "schemas": schemas},
        "security": [{"key": []}, {}],
        "paths": paths,
    }


def _operation(endpoint: Endpoint, path: str) -> dict[str, Any]:
    error = {"description": "An error.", "content": {JSON: {"schema": _reference(ErrorBody)}}}
    success: dict[str, Any] = {"description": endpoint.summary}
    if endpoint.media_types:
        success["content"] = {media_type: {} for media_type in endpoint.media_types}
    operation: dict[str, Any] = {
        "summary": endpoint.summary,
        "responses": {str(endpoint.status): success, "4XX": error, "5XX": error},
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ],
    }
    if endpoint.body is not None:
        operation["requestBody"] = {"required": True, "content": {JSON: {"schema": _reference(endpoint.body)}}}
    return operation


def _reference(type: type[Struct]) -> dict[str, str]:
    return {"$ref": REF.format(name=type.__name__)}
