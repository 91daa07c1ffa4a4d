"""The client of a server that watches its own paths: the header of a request, and the record of a path.

vLLM with the monitor inside (docs/vllm.md) reads the header; every other server ignores it and sends the
log-probabilities that the same request asks for. No request is made to find out which it is.
"""

from __future__ import annotations

import secrets
from typing import NamedTuple

import httpx

from sureenough.core.events import Summary
from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt
from sureenough.engines.vllm.protocol import (
    PROTOCOL_VERSION,
    UNKNOWN_PATH,
    WATCHED_HEADER,
    K,
    WatchRequest,
    parse_summary,
)
from sureenough.errors import EngineError


def is_watched(headers: httpx.Headers) -> bool:
    """Whether the headers of a reply say that its path is watched."""
    return bool(headers.get(WATCHED_HEADER) == str(PROTOCOL_VERSION))


class MonitorClient:
    """The monitor of the server at this address, if it has one."""

    def __init__(self, client: httpx.AsyncClient, address: httpx.URL) -> None:
        self._client, self._url = client, _monitor_url(address)
        self._unreachable = False  # whether records cannot be fetched

    def watch_request(self, prompt: Prompt, k: int) -> WatchRequest | None:
        """How one path is to be watched, under a key that cannot be guessed; None if it is not to be watched."""
        guard = prompt.guard
        if self._unreachable or not prompt.signals or guard is None or k != K:
            return None
        return WatchRequest(secrets.token_urlsafe(18), guard.window, guard.gate or Gate(), trace=guard.gate is None)

    async def fetch_summary(self, request: WatchRequest, tokens: int | None) -> Summary:
        """The path as the server saw it, once it has ended after so many tokens.

        If records cannot be fetched, as through a gateway or from one of several servers, later paths are not watched.
        """
        url = self._url.copy_with(path=f"{self._url.path}/paths/{request.key}", query=None)
        query = {} if tokens is None else {"tokens": tokens}
        try:
            reply = await self._client.get(url, params=query, timeout=30)
            record = reply.json()
            if reply.status_code == 200:
                return parse_summary(record, request.window)
            reason = record.get("lost") or record.get("error") or f"status {reply.status_code}"
            # A server that knows the path has lost only this one.
            self._unreachable |= "lost" not in record or reason == UNKNOWN_PATH
        except (httpx.TransportError, ValueError, KeyError, TypeError, AttributeError) as error:
            reason, self._unreachable = type(error).__name__, True
        raise EngineError(f"the server watched a path, but its record could not be fetched: {reason}")


class MonitorInfo(NamedTuple):
    """What a server's monitor can do."""

    version: str  # of sureenough on the server
    window: int  # the longest, in tokens


async def fetch_monitor_info(client: httpx.AsyncClient, address: httpx.URL) -> MonitorInfo | None:
    """What the monitor of this server can do; None if there is none. Runs do not need it."""
    try:
        reply = await client.get(_monitor_url(address), timeout=10)
        info = reply.json()
        if info["protocol"] != PROTOCOL_VERSION:
            return None
        return MonitorInfo(str(info["sureenough"]), int(info["window"]))
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None


def _monitor_url(address: httpx.URL) -> httpx.URL:
    return address.copy_with(path=f"{address.path.rstrip('/')}/sureenough", query=None)
