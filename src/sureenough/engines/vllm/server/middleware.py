"""A middleware of vLLM's own server: has paths watched whose requests ask for it in a header, and hands out records.

    vllm serve MODEL --logits-processors sureenough.engines.vllm.server.logits_processor:WatchProcessor \\
        --middleware sureenough.engines.vllm.server.middleware.RecordsMiddleware

Records are at GET .../sureenough/paths/KEY?tokens=N, what the monitor can do at GET .../sureenough.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

from sureenough.engines.vllm.protocol import PROTOCOL, SOCKET, WATCH, WATCHED, longest_window, watchable
from sureenough.engines.vllm.server.records_socket import offer, request_record

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]
Receive = Callable[[], Awaitable[Scope]]
HEARD: Final = (WATCHED.encode(), str(PROTOCOL).encode())


class RecordsMiddleware:
    """Answers for us, passes everything else on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """One request."""
        if scope["type"] == "http":
            if scope["method"] == "GET" and scope.get("path", "").removeprefix("/v1").startswith("/sureenough"):
                await _tell(scope, send)
                return
            wish = _wish(scope) if scope["method"] == "POST" and SOCKET in os.environ else None
            if wish is not None:
                receive, send = await _watched(wish, receive, send)
        await self.app(scope, receive, send)


def _wish(scope: Scope) -> dict[str, Any] | None:
    """The arguments of a request that wants to be watched and that this monitor can watch."""
    said = next((value for name, value in scope["headers"] if name == WATCH.encode()), b"")
    try:
        wish = json.loads(said)
        can = wish["protocol"] == PROTOCOL and wish["arguments"]["sure_window"] <= longest_window()
        return dict(wish["arguments"]) if can else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


async def _watched(wish: dict[str, Any], receive: Receive, send: Send) -> tuple[Receive, Send]:
    """The same request with the wish in its body and without log-probabilities; its reply says so in its head."""
    body, more = b"", True
    while more:
        part = await receive()
        body, more = body + part.get("body", b""), part.get("more_body", False)
    changed = _changed(body, wish)
    parts = [{"type": "http.request", "body": body if changed is None else changed, "more_body": False}]

    async def again() -> Scope:
        return parts.pop() if parts else await receive()

    async def saying(message: Scope) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message = {**message, "headers": [*message.get("headers", ()), HEARD]}
        await send(message)

    return again, send if changed is None else saying


def _changed(body: bytes, wish: dict[str, Any]) -> bytes | None:
    try:
        asked = json.loads(body)
        arguments = {**(asked.get("vllm_xargs") or {}), **wish}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None  # vLLM itself says what is wrong with it
    if not watchable(asked, wish):
        return None
    for name in ("logprobs", "top_logprobs"):
        asked.pop(name, None)
    return json.dumps({**asked, "vllm_xargs": arguments}).encode()


async def _tell(scope: Scope, send: Send) -> None:
    path = scope["path"].removeprefix("/v1")
    place = os.environ.get(SOCKET)
    if place is None:
        await _reply(send, 503, {"error": f"set {SOCKET} to a path before starting the server"})
    elif path == "/sureenough":
        await _reply(send, 200, offer())
    elif path.startswith("/sureenough/paths/"):
        asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tokens", [""])[0]
        tokens = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None
        found = await request_record(place, path.removeprefix("/sureenough/paths/"), tokens)
        await _reply(send, 404 if "lost" in found else 200, found)
    else:
        await _reply(send, 404, {"error": "there is /sureenough and /sureenough/paths/KEY"})


async def _reply(send: Send, status: int, said: dict[str, Any]) -> None:
    body = json.dumps(said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
