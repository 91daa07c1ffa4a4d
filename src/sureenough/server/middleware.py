"""The door: who may come in, what they may bring, and what goes out with every reply.

Checks come before any handler: the name that was called, the site that a browser comes from, the kind of body, the key.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import logging
import time
from typing import Final

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sureenough.server.errors import ApiError, api_error
from sureenough.server.replies import encode
from sureenough.server.settings import known_host
from sureenough.server.state import ServerState

log: Final = logging.getLogger("sureenough.server")
OPEN: Final = frozenset({"/healthz"})
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
GUARDS: Final = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
ROUTES: Final = frozenset({"/", "/healthz", "/metrics", "/openapi.json", "/v1/models", "/v1/completions",
                           "/v1/chat/completions", "/runs", "/api/runs"})  # fmt: skip


class RequestMiddleware:
    """The outermost ASGI application."""

    def __init__(self, app: ASGIApp, house: ServerState) -> None:
        self.app, self.house = app, house
        self._keys = [hashlib.sha256(key.encode()).digest() for key in house.settings.keys]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Check, hand on, and turn what was raised into a reply."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        going = _TrackedSend(send)
        began = time.monotonic()
        try:
            self.check(scope)
            scope["app"] = self  # then the router raises where it has no route
            await self.app(scope, receive, going)
        except HTTPException as error:
            await self._refuse(_no_route(scope, error), going)
        except ClientDisconnect:
            self.house.counters.left += 1
        except Exception as error:
            await self._refuse(error, going)
        finally:
            self._note(scope, going.status, time.monotonic() - began)

    def check(self, scope: Scope) -> None:
        """Raise a Problem where this request may not come in."""
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        if not known_host(headers.get("host", ""), self.house.settings):
            raise ApiError(421, "This server does not go by that name; --allow-host adds one.", code="unknown_host")
        origin = headers.get("origin")
        if origin is not None and origin.partition("://")[2] != headers.get("host"):
            raise ApiError(403, "Pages of other sites may not ask here.", code="cross_origin")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["method"] != "GET":
            raise ApiError(403, "Pages of other sites may not ask here.", code="cross_origin")
        if self._keys and scope["path"] not in OPEN and not self._knows(headers.get("authorization", "")):
            raise self._unauthorised(scope["path"])
        kind = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and kind != "application/json":
            raise ApiError(415, "Send JSON, with Content-Type: application/json.", code="unsupported_media_type")

    def _knows(self, header: str) -> bool:
        """Whether a key is in it, as a bearer token or as the password that a browser asks for; in constant time."""
        scheme, _, given = header.partition(" ")
        if scheme.lower() == "basic":
            try:
                given = base64.b64decode(given.strip(), validate=True).decode().partition(":")[2]
            except (binascii.Error, UnicodeDecodeError, ValueError):
                return False
        elif scheme.lower() != "bearer":
            return False
        shown = hashlib.sha256(given.strip().encode()).digest()
        return sum(hmac.compare_digest(shown, key) for key in self._keys) > 0  # a sum: all are compared

    @staticmethod
    def _unauthorised(path: str) -> ApiError:
        scheme = "Bearer" if path.startswith("/v1/") else 'Basic realm="sureenough", charset="UTF-8"'
        return ApiError(
            401, "Incorrect API key provided.", code="invalid_api_key", headers={"WWW-Authenticate": scheme}
        )

    async def _refuse(self, error: Exception, going: _TrackedSend) -> None:
        problem = api_error(error, "")
        if self.house.upstream is not None:
            problem.message = self.house.upstream.clean(problem.message)
        if problem.status == 500:
            log.error("a request failed", exc_info=error)
        if going.status:
            return  # the head has gone out already: the server hangs up on what is not complete
        body = encode(problem.body())
        head = {"content-type": "application/json", "content-length": str(len(body)), **problem.headers}
        pairs = [(name.lower().encode(), value.encode()) for name, value in head.items()]
        await going({"type": "http.response.start", "status": problem.status, "headers": pairs})
        await going({"type": "http.response.body", "body": body})

    def _note(self, scope: Scope, status: int, seconds: float) -> None:
        route = scope["path"] if scope["path"] in ROUTES else "other"
        self.house.counters.answered(route, status or 499, seconds)
        log.info("%s %s %s %.3f s", scope["method"], route, status or 499, seconds)


def _no_route(scope: Scope, error: HTTPException) -> ApiError:
    words = {404: f"There is nothing at {scope['path'][:200]}.", 405: f"{scope['method']} is not for this place."}
    said = words.get(error.status_code, str(error.detail))
    return ApiError(error.status_code, said, headers=dict(error.headers or {}))


class _TrackedSend:
    """Where replies go out: adds the guards to each, and remembers whether its head has gone."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            given = {name for name, _ in message["headers"]}
            extra = [(n.encode(), v.encode()) for n, v in GUARDS.items() if n.encode() not in given]
            message = {**message, "headers": [*message["headers"], *extra]}
        await self._send(message)
