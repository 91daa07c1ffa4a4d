"""The ASGI application: its endpoints, their OpenAPI document, and the outermost layer, which admits requests.

Checks come before any handler: host name, origin of a browser's request, type of the body, key.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hashlib
import hmac
import ipaddress
import logging
import re
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sureenough import __version__
from sureenough.server.requests import names_with_strategies
from sureenough.server.responses import ApiError, ErrorBody, json_response, shutting_down
from sureenough.server.routes import Routes
from sureenough.server.settings import ServerSettings
from sureenough.server.state import ServerState

REF: Final = "#/components/schemas/{name}"
JSON: Final = "application/json"
log: Final = logging.getLogger("sureenough.server")
WITHOUT_KEY: Final = frozenset({"/healthz"})
HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^][:@/\s]+))(?::\d+)?")
"""A Host header with an address or a name, and perhaps a port."""
CLIENT_CLOSED: Final = 499  # the status in logs and metrics of a request whose client disconnected before its response
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
EVENTS = "text/event-stream"


class Endpoint(NamedTuple):
    """A row of the table of endpoints, from which the routes, the OpenAPI document and the metrics' labels derive."""

    method: str
    path: str
    handler: Callable[[Request], Awaitable[ASGIApp]]
    summary: str = ""  # empty: a part of the page, which the document leaves out
    status: int = 200
    media_types: tuple[str, ...] = (JSON,)
    body: type[Struct] | None = None


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


class RequestMiddleware:
    """The outermost ASGI application."""

    def __init__(self, app: ASGIApp, state: ServerState, routes: Sequence[Route]) -> None:
        self.app, self.state, self.routes = app, state, routes
        settings = state.settings
        self._keys = [hashlib.sha256(key.encode()).digest() for key in settings.keys]
        self._hosts = [name.lower() for name in ("localhost", settings.host, socket.gethostname(), *settings.hosts)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check the request, handle it, and turn errors into responses."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        tracked = _TrackedSend(send)
        began = time.monotonic()
        try:
            self.check(scope)
            scope["app"] = self  # with this the router raises if no route matches
            await self.app(scope, receive, tracked)
        except HTTPException as error:
            await self._send_error(_no_route(scope, error), scope, receive, tracked)
        except ClientDisconnect:
            self.state.metrics.disconnects.inc()
        except asyncio.CancelledError:
            if not self.state.shutting_down:
                raise
            await self._send_error(shutting_down(), scope, receive, tracked)
        except Exception as error:
            await self._send_error(error, scope, receive, tracked)
        finally:
            self._record(scope, tracked.status or CLIENT_CLOSED, time.monotonic() - began)

    def check(self, scope: Scope) -> None:
        """Raise an ApiError if this request is not admitted."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        if "transfer-encoding" in headers and "content-length" in headers:  # a second request may hide in the first
            message = "A request has a Content-Length or a Transfer-Encoding, not both."
            raise ApiError(400, message, headers={"Connection": "close"})
        if not self._knows(headers.get("host", "")):
            text = "This server does not have that host name; its operator can add it with --allow-host."
            raise ApiError(421, text, code="unknown_host")
        origin = headers.get("origin")
        other_origin = origin is not None and origin.partition("://")[2] != headers.get("host")
        other_site = headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["method"] != "GET"
        if other_origin or other_site:
            raise ApiError(403, "Requests from pages of other sites are not allowed.", code="cross_origin")
        if self._keys and scope["path"] not in WITHOUT_KEY and not self._has_key(headers.get("authorization", "")):
            raise _unauthorized(scope["path"])
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != JSON:
            message = "Send JSON, with the header Content-Type: application/json."
            raise ApiError(415, message, code="unsupported_media_type")

    def _knows(self, host: str) -> bool:
        """Whether this server has the name; an address needs no check: a page of another site can only send a name."""
        parts = HOST.fullmatch(host.strip().lower())
        if parts is None:
            return False
        name = parts[1] or parts[2]
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return any(name == known or (known.startswith("*") and name.endswith(known[1:])) for known in self._hosts)

    def _has_key(self, header: str) -> bool:
        """Whether the header has a key, as a bearer token or as the password of a browser; in constant time."""
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "basic":
            try:
                credentials = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return False
        elif scheme.lower() != "bearer":
            return False
        digest = hashlib.sha256(credentials.strip().encode()).digest()
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0  # a sum: all are compared

    async def _send_error(self, error: Exception, scope: Scope, receive: Receive, tracked: _TrackedSend) -> None:
        response = self.state.error_response(error)
        if tracked.status:
            return  # the head is sent already: the connection is closed, because the response is not complete
        await json_response(response.body(), response.status, response.headers)(scope, receive, tracked)

    def _record(self, scope: Scope, status: int, seconds: float) -> None:
        route = next((route.path for route in self.routes if route.matches(scope)[0] is not Match.NONE), "other")
        self.state.metrics.count_response(route, status, seconds)
        log.info("%s %s %s %.3f s", scope["method"], route, status, seconds)


def _unauthorized(path: str) -> ApiError:
    scheme = "Bearer" if path.startswith("/v1/") else 'Basic realm="sureenough", charset="UTF-8"'
    return ApiError(401, "Incorrect API key provided.", code="invalid_api_key", headers={"WWW-Authenticate": scheme})


def _no_route(scope: Scope, error: HTTPException) -> ApiError:
    messages = {404: f"Not found: {scope['path'][:200]}", 405: f"{scope['method'][:20]} is not allowed here."}
    message = messages.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, message, headers=dict(error.headers or {}))


class _TrackedSend:
    """Adds the security headers to a response, and remembers its status once the head is sent."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            names = {name for name, _ in message["headers"]}
            added = [(name, value) for name, value in SECURITY_HEADERS.items() if name not in names]
            message = {**message, "headers": [*message["headers"], *added]}
        await self._send(message)


def endpoint_table(routes: Routes) -> list[Endpoint]:
    """Every endpoint: the one list of routes."""

    async def openapi(request: Request) -> Response:
        offered = () if routes.state.settings.view_only else routes.state.upstream.offered
        return json_response(document(table, names_with_strategies(list(offered))))

    chat, completion = routes.reader.types.chat, routes.reader.types.completion
    table = [
        Endpoint("POST", "/v1/chat/completions", routes.complete, "Chat, by vote or passed through.",
                 media_types=(JSON, EVENTS), body=chat),
        Endpoint("POST", "/v1/completions", routes.complete, "Completion of a text, by vote or passed through.",
                 media_types=(JSON, EVENTS), body=completion),
        Endpoint("GET", "/v1/models", routes.models, "Every model, plain and with each strategy."),
        Endpoint("GET", "/v1/models/{name:path}", routes.model, "One model by its name."),
        Endpoint("GET", "/healthz", routes.health, "Whether requests can be served now."),
        Endpoint("GET", "/metrics", routes.metrics, "Metrics for Prometheus.", media_types=("text/plain",)),
        Endpoint("GET", "/openapi.json", openapi, "This document."),
        Endpoint("GET", "/api/options", routes.options, "Models, strategies and run options of this server."),
        Endpoint("GET", "/api/learned", routes.learned, "What was learned of each model's confidence."),
        Endpoint("POST", "/api/runs", routes.start_run, "Start a run that a page watches.", 201, body=chat),
        Endpoint("GET", "/api/runs", routes.list_runs, "The runs that were kept."),
        Endpoint("DELETE", "/api/runs/{id}", routes.stop_run, "End a run with the vote so far.", 204, ()),
        Endpoint("GET", "/api/runs/{id}/events", routes.events, "The changes of a run as they happen.",
                 media_types=(EVENTS,)),
        Endpoint("GET", "/api/runs/{id}/paths/{number}", routes.path_text, "The text of one path."),
        Endpoint("GET", "/api/runs/{id}/agrees-with/{other}", routes.agreement,
                 "Whether two runs have the same answer."),
        Endpoint("GET", "/", routes.page),
        Endpoint("GET", "/runs", routes.page),
        Endpoint("GET", "/runs/{id}", routes.page),
        Endpoint("GET", "/compare/{id}/{other}", routes.page),
        Endpoint("GET", "/reports/{name:path}", routes.report),
        Endpoint("GET", "/page/{file}", routes.file),
    ]  # fmt: skip
    return table


def create(settings: ServerSettings) -> tuple[ASGIApp, ServerState]:
    """The application, and the state of its requests, which its lifespan opens, or `state.opened()` without one."""
    state = ServerState(settings)

    @asynccontextmanager
    async def lifespan(app: object) -> AsyncIterator[None]:
        async with state.opened():
            yield

    routes = [Route(row.path, row.handler, methods=[row.method]) for row in endpoint_table(Routes(state))]
    # A bare router: every error becomes a response in the middleware.
    return RequestMiddleware(Router(routes=routes, lifespan=lifespan), state, routes), state
