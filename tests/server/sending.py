"""Requests and bare connections to a server of ours."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.processes import Running, configured, start
from tests.server.upstream import KEY

BODY: dict[str, Any] = {
    "model": "tiny@sc", "messages": [{"role": "user", "content": "3 + 4?"}], "sureenough": {"paths": 4},
}  # fmt: skip


def post(url: str, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    return httpx.post(f"{url}{path}", json=BODY | fields, timeout=60)


def plain(url: str, **fields: Any) -> httpx.Response:
    """One request to be passed through."""
    return post(url, model="tiny", sureenough=None, **fields)


def vote(url: str, model: str = "tiny@sure", *, seed: int | None = None, **options: Any) -> Any:
    """The reply to a vote with these options."""
    response = post(url, model=model, seed=seed, sureenough=options)
    assert response.status_code == 200, response.text
    return response.json()


@contextmanager
def serving_process(url: str, folder: Path, grace: int) -> Iterator[tuple[Running, str]]:
    """`sureenough serve` as a process of its own before this upstream, and its address."""
    variables = os.environ | {"SUREENOUGH_API_KEY": KEY} | configured(folder, f"[serve.limits]\ngrace = {grace}\n")
    with start("serve", "--url", url, "--port", "0", env=variables) as server:
        yield server, server.stdout.readline().split(" serves at ")[1].split("/v1")[0]


def counters(url: str) -> dict[str, float]:
    """The values of /metrics by name and labels."""
    lines = [line for line in httpx.get(f"{url}/metrics").text.splitlines() if line[0] != "#"]
    values = (line.removeprefix("sureenough_").rsplit(" ", 1) for line in lines)
    return {name: float(value) for name, value in values}


def connect(url: str) -> socket.socket:
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
