"""A server that watches its own paths: what is sent with a request, for it to heed or not, and what it tells.

vLLM with our monitor inside (docs/vllm.md) heeds it; every other server sends the log-probabilities that the same
request asks for. Nobody is asked beforehand.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import httpx

from sureenough.core.events import Summary
from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt
from sureenough.engines.vllm.protocol import PROTOCOL, WATCHED, K, WatchRequest
from sureenough.engines.vllm.server.records import UNKNOWN
from sureenough.engines.vllm.server.records_socket import summary
from sureenough.errors import EngineError


def is_watched(headers: httpx.Headers) -> bool:
    """Whether a reply's head says that the path is watched."""
    return bool(headers.get(WATCHED) == str(PROTOCOL))


class MonitorClient:
    """The monitor of the server at this address, if it has one."""

    def __init__(self, client: httpx.AsyncClient, address: httpx.URL) -> None:
        self._client, self._place = client, _place(address)
        self._lost = False  # its records do not get through to us

    def ask(self, prompt: Prompt, k: int) -> WatchRequest | None:
        """How one path is to be watched, under a name that nobody can guess; None where there is nothing to watch."""
        guard = prompt.guard
        if self._lost or not prompt.signals or guard is None or k != K:
            return None
        return WatchRequest(secrets.token_urlsafe(18), guard.window, guard.gate or Gate(), trace=guard.gate is None)

    async def tell(self, asked: WatchRequest, tokens: int | None) -> Summary:
        """The path as the server saw it, once it has ended after so many tokens.

        Where its records cannot be had, as behind a gateway or one of several servers, paths that begin later do not
        ask to be watched.
        """
        place = self._place.copy_with(path=f"{self._place.path}/paths/{asked.key}", query=None)
        query = {} if tokens is None else {"tokens": tokens}
        try:
            reply = await self._client.get(place, params=query, timeout=30)
            said = reply.json()
            if reply.status_code == 200:
                return summary(said, asked.window)
            why = said.get("lost") or said.get("error") or f"status {reply.status_code}"
            self._lost |= "lost" not in said or why == UNKNOWN  # else it knows the path, and others may fare better
        except (httpx.TransportError, ValueError, KeyError, TypeError, AttributeError) as error:
            why, self._lost = type(error).__name__, True
        raise EngineError(f"the server watched a path and could not tell of it: {why}")


class MonitorInfo(NamedTuple):
    """What a monitor says of itself."""

    version: str  # of sureenough there
    window: int  # the longest


async def fetch_monitor_info(client: httpx.AsyncClient, address: httpx.URL) -> MonitorInfo | None:
    """What the server at this address offers, where it has a monitor; for those who want to know, not for runs."""
    try:
        reply = await client.get(_place(address), timeout=10)
        said = reply.json()
        return MonitorInfo(str(said["sureenough"]), int(said["window"])) if said["protocol"] == PROTOCOL else None
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


def _place(address: httpx.URL) -> httpx.URL:
    return address.copy_with(path=f"{address.path.rstrip('/')}/sureenough", query=None)
