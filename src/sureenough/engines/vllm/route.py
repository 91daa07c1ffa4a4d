"""A middleware of vLLM's own server that hands out records: GET .../sureenough and .../sureenough/paths/KEY?tokens=N.

    vllm serve MODEL --logits-processors sureenough.engines.vllm.processor:Watch \\
        --middleware sureenough.engines.vllm.route.Route
"""

from __future__ import annotations

import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any
from urllib.parse import parse_qs

from sureenough.engines.vllm.arguments import SOCKET
from sureenough.engines.vllm.desk import ask_desk, offer

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]


class Route:
    """Answers for us, passes everything else on."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Any, send: Send) -> None:
        """One request."""
        path = scope.get("path", "").removeprefix("/v1")
        if scope["type"] != "http" or scope["method"] != "GET" or not path.startswith("/sureenough"):
            await self.app(scope, receive, send)
            return
        place = os.environ.get(SOCKET)
        if place is None:
            await _reply(send, 503, {"error": f"set {SOCKET} to a path before starting the server"})
        elif path == "/sureenough":
            await _reply(send, 200, offer())
        elif path.startswith("/sureenough/paths/"):
            asked = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tokens", [""])[0]
            tokens = int(asked) if asked.isascii() and asked.isdigit() and len(asked) < 10 else None
            found = await ask_desk(place, path.removeprefix("/sureenough/paths/"), tokens)
            await _reply(send, 404 if "lost" in found else 200, found)
        else:
            await _reply(send, 404, {"error": "there is /sureenough and /sureenough/paths/KEY"})


async def _reply(send: Send, status: int, said: dict[str, Any]) -> None:
    body = json.dumps(said).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
