"""A middleware of vLLM's own server: marks requests to be watched if their header says so, and serves records.

    vllm serve MODEL --logits-processors sureenough.engines.vllm.server.logits_processor:WatchProcessor \\
        --middleware sureenough.engines.vllm.server.middleware.RecordsMiddleware

Records are at GET .../sureenough/paths/KEY?tokens=N, token counts of several paths at POST .../sureenough/paths, and
GET .../sureenough says what the monitor can do.
"""

from __future__ import annotations

import json
import os
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from sureenough import __version__
from sureenough.engines.vllm.protocol import (
    MAX_KEYS,
    PROTOCOL_VERSION,
    SOCKET_ENV,
    WATCH_HEADER,
    K,
    is_watchable,
    longest_window,
)
from sureenough.engines.vllm.server.records_socket import (
    ProgressReader,
    RecordReader,
    request_progress,
    request_record,
)
from sureenough.engines.vllm.server.watched_reply import WATCHED, Receive, Scope, Send, WatchedReply
from sureenough.engines.vllm.server.whole_texts import decode_whole_texts

LARGEST_QUERY: Final = 100 * MAX_KEYS
"""Bytes of a request for the token counts of paths."""


class RecordsMiddleware:
    """Answers requests under /sureenough and passes all others on."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._socket_path = os.environ.get(SOCKET_ENV)
        self._progress, self._records = ProgressReader(self._socket_path or ""), RecordReader(self._socket_path or "")
        if self._socket_path:
            decode_whole_texts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope.get("path", "").removeprefix("/v1").startswith("/sureenough"):
            await _respond(self._socket_path, scope, receive, send)
        else:
            header = _watch_header(scope) if scope["method"] == "POST" and self._socket_path else None
            await (self.app(scope, receive, send) if header is None else self._watch(header, scope, receive, send))

    def _has_monitor(self) -> bool:
        """Whether there is a logits processor, too. A path that would be lost without one says so by its record."""
        return os.path.exists(self._socket_path or "")

    async def _watch(self, header: _WatchHeader, scope: Scope, receive: Receive, send: Send) -> None:
        """The same request with the arguments in its body and without log-probabilities; the reply's header says so."""
        arguments = header.arguments
        body = await _read_body(receive)
        request = _rewritten(body, arguments) if header.record or self._has_monitor() else None
        messages = [{"type": "http.request", "body": body, "more_body": False}]

        async def receive_rewritten() -> Scope:
            return messages.pop() if messages else await receive()

        async def send_watched(message: Scope) -> None:
            if message["type"] == "http.response.start" and message["status"] == 200:
                message = {**message, "headers": [*message.get("headers", ()), WATCHED]}
            await send(message)

        if request is None:
            await self.app(scope, receive_rewritten, send)
            return
        streamed = request.pop("stream", False)
        request.pop("stream_options", None)
        messages[0]["body"] = json.dumps(request).encode()
        if streamed:
            key = str(arguments.get("sure_key"))
            reply = WatchedReply(key, self._records, self._progress, send, header.record, header.polled)
            await reply.stream(self.app, scope, receive_rewritten)
        else:
            await self.app(scope, receive_rewritten, send_watched)


def monitor_info() -> dict[str, Any]:
    """What this server's monitor can do."""
    return {"sureenough": __version__, "protocol": PROTOCOL_VERSION, "k": K, "window": longest_window()}


class _WatchHeader(NamedTuple):
    """What a client wants of the monitor."""

    arguments: dict[str, Any]  # of the request that vLLM gets
    record: bool  # whether the reply has the path's record
    polled: bool  # whether the client asks for the path's progress


def _watch_header(scope: Scope) -> _WatchHeader | None:
    """The request's header, if there is one and this monitor can use it."""
    header = next((value for name, value in scope["headers"] if name == WATCH_HEADER.encode()), b"")
    try:
        message = json.loads(header)
        arguments = message["arguments"]
        usable = message["protocol"] == PROTOCOL_VERSION and arguments["sure_window"] <= longest_window()
        wishes = message.get("record") is not False, message.get("polled") is True
        return _WatchHeader(dict(arguments), *wishes) if usable else None
    except (ValueError, KeyError, TypeError, RecursionError):
        return None


async def _read_body(receive: Receive, limit: int | None = None) -> bytes:
    body, more = bytearray(), True
    while more and (limit is None or len(body) <= limit):
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _rewritten(body: bytes, arguments: dict[str, Any]) -> dict[str, Any] | None:
    try:
        request = json.loads(body)
        merged = {**(request.get("vllm_xargs") or {}), **arguments}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None  # vLLM itself reports what is wrong with it
    if not is_watchable(request, arguments):
        return None
    for name in ("logprobs", "top_logprobs"):
        request.pop(name, None)
    return {**request, "vllm_xargs": merged}


async def _respond(socket_path: str | None, scope: Scope, receive: Receive, send: Send) -> None:
    path, method = scope["path"].removeprefix("/v1"), scope["method"]
    if socket_path is None:
        await _send_json(send, 503, {"error": f"set {SOCKET_ENV} to a path before starting the server"})
    elif path == "/sureenough" and method == "GET":
        await _send_json(send, 200, monitor_info())
    elif path == "/sureenough/paths" and method == "POST":
        keys = _keys(await _read_body(receive, LARGEST_QUERY))
        if keys is None:
            await _send_json(send, 400, {"error": f'the body must be {{"keys": [...]}} with at most {MAX_KEYS} keys'})
        else:
            paths = [progress or (None, None) for progress in await request_progress(socket_path, keys)]
            counts = {"tokens": [tokens for tokens, _ in paths], "tails": [tail for _, tail in paths]}
            await _send_json(send, 200, counts)
    elif path.startswith("/sureenough/paths/") and method == "GET":
        value = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tokens", [""])[0]
        tokens = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
        record = await request_record(socket_path, path.removeprefix("/sureenough/paths/"), tokens)
        await _send_json(send, 404 if "lost" in record else 200, record)
    else:
        await _send_json(send, 404, {"error": "not found; the paths are /sureenough and /sureenough/paths/KEY"})


def _keys(body: bytes) -> list[str] | None:
    try:
        keys = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    valid = isinstance(keys, list) and len(keys) <= MAX_KEYS and all(isinstance(key, str) for key in keys)
    return keys if valid else None


async def _send_json(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
