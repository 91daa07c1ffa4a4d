"""A server's own counters, where it has any: tokens made in all, and requests that run now.

They count everybody's requests, so their difference over a run is that run's only where nobody else uses the server.
"""

from __future__ import annotations

import asyncio
import re
from typing import Final, NamedTuple

import httpx

MADE: Final = ("vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total")
RUNNING: Final = ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing")
_LINE: Final = re.compile(r"^([a-z:_]+)(?:\{[^}]*\})? ([0-9.eE+-]+)$", re.MULTILINE)


class ServerCounters(NamedTuple):
    """What a server says of itself."""

    made: int
    running: int


async def read_counters(client: httpx.AsyncClient, address: httpx.URL) -> ServerCounters | None:
    """The counters of the server at this address; None where it has none that we know."""
    root = address.path.rstrip("/").removesuffix("/v1")
    try:
        reply = await client.get(address.copy_with(path=f"{root}/metrics", query=None), timeout=10)
    except httpx.TransportError:
        return None
    found: dict[str, float] = {}
    for name, value in _LINE.findall(reply.text if reply.status_code == 200 else ""):
        found[name] = found.get(name, 0.0) + float(value)
    made = next((found[name] for name in MADE if name in found), None)
    running = next((found[name] for name in RUNNING if name in found), None)
    return None if made is None or running is None else ServerCounters(int(made), int(running))


async def counters_at_rest(
    client: httpx.AsyncClient, address: httpx.URL, patience: float = 10.0
) -> ServerCounters | None:
    """The counters once nothing runs and nothing is counted any more; None where that does not come."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    last = None
    while loop.time() < end:
        now = await read_counters(client, address)
        if now is None or (now.running == 0 and now == last):
            return now
        last = now
        await asyncio.sleep(0.25)
    return None
