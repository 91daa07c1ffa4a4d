"""Requests and bare connections to a server of ours."""

from __future__ import annotations

import socket
from typing import Any

import httpx

BODY: dict[str, Any] = {
    "model": "tiny@sc", "messages": [{"role": "user", "content": "3 + 4?"}], "sureenough": {"paths": 4},
}  # fmt: skip


def post(url: str, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    """One request."""
    return httpx.post(f"{url}{path}", json=BODY | fields, timeout=60)


def connect(url: str) -> socket.socket:
    """A bare connection."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False
