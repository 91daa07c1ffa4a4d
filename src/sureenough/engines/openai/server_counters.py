"""A server's own counters, if it has any: tokens generated in total, and requests that run now.

They count the requests of all clients, so their difference over a run is the run's only if no one else uses the server.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from sureenough.engines.openai.errors import TransportError

if TYPE_CHECKING:
    from yarl import URL

    from sureenough.engines.openai.transport import Transport

GENERATED: Final = ("vllm:generation_tokens_total", "sglang:generation_tokens_total", "llamacpp:tokens_predicted_total")
RUNNING: Final = ("vllm:num_requests_running", "sglang:num_running_reqs", "llamacpp:requests_processing")
_LINE: Final = re.compile(r"^([a-z:_]+)(?:\{[^}\n]*\})? ([0-9]+(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)$", re.MULTILINE)


class ServerCounters(NamedTuple):
    """A server's counters at one moment."""

    generated: int
    running: int


async def read_counters(transport: Transport, address: URL) -> ServerCounters | None:
    """The counters of the server at this address; None if it has none that we know."""
    root = address.path.rstrip("/").removesuffix("/v1")
    try:
        response = await transport.fetch("GET", address.with_path(f"{root}/metrics"), seconds=10)
    except TransportError:
        return None
    totals: dict[str, float] = {}
    for name, value in _LINE.findall(response.body.decode("utf-8", "replace") if response.status == 200 else ""):
        if name in GENERATED or name in RUNNING:
            totals[name] = totals.get(name, 0.0) + float(value)
    generated = next((totals[name] for name in GENERATED if name in totals), None)
    running = next((totals[name] for name in RUNNING if name in totals), None)
    return None if generated is None or running is None else ServerCounters(int(generated), int(running))


async def settled_counters(transport: Transport, address: URL, patience: float = 10.0) -> ServerCounters | None:
    """The counters once nothing runs and they no longer change; None if that takes longer than `patience` seconds."""
    loop = asyncio.get_running_loop()
    end = loop.time() + patience
    last = None
    while loop.time() < end:
        counters = await read_counters(transport, address)
        if counters is None or (counters.running == 0 and counters == last):
            return counters
        last = counters
        await asyncio.sleep(0.25)
    return None
