"""A middleware of vLLM's own server: marks requests to be watched if their header says so, and serves records.

    vllm serve MODEL --logits-processors sureenough.engines.vllm.server.logits_processor:WatchProcessor \\
        --middleware sureenough.engines.vllm.server.middleware.RecordsMiddleware

Records are at GET .../sureenough/paths/KEY?tokens=N, what the monitor can do is at GET .../sureenough.
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final
from urllib.parse import parse_qs

from sureenough.engines.vllm.protocol import (
    PROTOCOL_VERSION,
    SOCKET_ENV,
    WATCH_HEADER,
    WATCHED_HEADER,
    K,
    is_watchable,
    longest_window,
)
from sureenough.engines.vllm.server.records_socket import request_record
from sureenough.version import __version__

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]
Receive = Callable[[], Awaitable[Scope]]
WATCHED: Final = (WATCHED_HEADER.encode(), str(PROTOCOL_VERSION).encode())


class RecordsMiddleware:
    """Answers requests under /sureenough and passes all others on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] == "http":
            if scope["method"] == "GET" and scope.get("path", "").removeprefix("/v1").startswith("/sureenough"):
                await _respond(scope, send)
                return
            arguments = _watch_arguments(scope) if scope["method"] == "POST" and SOCKET_ENV in os.environ else None
            if arguments is not None:
                receive, send = await _rewrite(arguments, receive, send)
        await self.app(scope, receive, send)


def monitor_info() -> dict[str, Any]:
    """What this server's monitor can do."""
    return {"sureenough": __version__, "protocol": PROTOCOL_VERSION, "k": K, "window": longest_window()}


def _watch_arguments(scope: Scope) -> dict[str, Any] | None:
    """The arguments in the request's header, if there are any and this monitor can use them."""
    header = next((value for name, value in scope["headers"] if name == WATCH_HEADER.encode()), b"")
    try:
        message = json.loads(header)
        arguments = message["arguments"]
        usable = message["protocol"] == PROTOCOL_VERSION and arguments["sure_window"] <= longest_window()
        return dict(arguments) if usable else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


async def _rewrite(arguments: dict[str, Any], receive: Receive, send: Send) -> tuple[Receive, Send]:
    """The same request with the arguments in its body and without log-probabilities; the reply's header says so."""
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    new_body = _rewrite_body(body, arguments)
    messages = [{"type": "http.request", "body": body if new_body is None else new_body, "more_body": False}]

    async def receive_rewritten() -> Scope:
        return messages.pop() if messages else await receive()

    async def send_watched(message: Scope) -> None:
        if message["type"] == "http.response.start" and message["status"] == 200:
            message = {**message, "headers": [*message.get("headers", ()), WATCHED]}
        await send(message)

    return receive_rewritten, send if new_body is None else send_watched


def _rewrite_body(body: bytes, arguments: dict[str, Any]) -> bytes | None:
    try:
        request = json.loads(body)
        merged = {**(request.get("vllm_xargs") or {}), **arguments}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None  # vLLM itself reports what is wrong with it
    if not is_watchable(request, arguments):
        return None
    for name in ("logprobs", "top_logprobs"):
        request.pop(name, None)
    return json.dumps({**request, "vllm_xargs": merged}).encode()


async def _respond(scope: Scope, send: Send) -> None:
    path = scope["path"].removeprefix("/v1")
    socket_path = os.environ.get(SOCKET_ENV)
    if socket_path is None:
        await _send_json(send, 503, {"error": f"set {SOCKET_ENV} to a path before starting the server"})
    elif path == "/sureenough":
        await _send_json(send, 200, monitor_info())
    elif path.startswith("/sureenough/paths/"):
        value = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tokens", [""])[0]
        tokens = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
        record = await request_record(socket_path, path.removeprefix("/sureenough/paths/"), tokens)
        await _send_json(send, 404 if "lost" in record else 200, record)
    else:
        await _send_json(send, 404, {"error": "not found; the paths are /sureenough and /sureenough/paths/KEY"})


async def _send_json(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
