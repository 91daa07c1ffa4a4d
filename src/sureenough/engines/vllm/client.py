"""The client of a server that watches its own paths: the header of a request, and the record of a path.

vLLM with the monitor inside (docs/vllm.md) reads the header; every other server ignores it and sends the
log-probabilities that the same request asks for. No request is made to find out which it is.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from sureenough.core.events import Summary
from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt
from sureenough.engines.openai.errors import TransportError
from sureenough.engines.vllm.protocol import (
    PROTOCOL_VERSION,
    UNKNOWN_PATH,
    WATCHED_HEADER,
    K,
    WatchRequest,
    parse_summary,
)
from sureenough.errors import EngineError

if TYPE_CHECKING:
    from yarl import URL

    from sureenough.engines.openai.transport import Transport


def is_watched(headers: Mapping[str, str]) -> bool:
    """Whether a response's headers say that its path is watched."""
    return bool(headers.get(WATCHED_HEADER) == str(PROTOCOL_VERSION))


class MonitorClient:
    """The monitor of the server at this address, if it has one."""

    def __init__(self, transport: Transport, address: URL) -> None:
        self._transport, self._url = transport, _url(address)
        self._unreadable = False  # its records do not reach us

    def watch_request(self, prompt: Prompt, k: int) -> WatchRequest | None:
        """How one path is to be watched, under a key that cannot be guessed; None if there is nothing to watch."""
        watch = prompt.watch
        if self._unreadable or not prompt.signals or watch is None or k != K:
            return None
        return WatchRequest(secrets.token_urlsafe(18), watch.window, watch.gate or Gate(), trace=watch.gate is None)

    async def fetch_summary(self, watch: WatchRequest, tokens: int | None) -> Summary:
        """The path as the server saw it, once it has ended after so many tokens.

        If records cannot be read, as behind a gateway or one of several servers, later paths are not watched there.
        """
        url = self._url.with_path(f"{self._url.path}/paths/{watch.key}")
        if tokens is not None:
            url = url.with_query(tokens=tokens)
        try:
            response = await self._transport.fetch("GET", url, seconds=30)
            record = json.loads(response.body)
            if response.status == 200:
                return parse_summary(record, watch.window)
            reason = record.get("lost") or record.get("error") or f"status {response.status}"
            self._unreadable |= "lost" not in record or reason == UNKNOWN_PATH  # else the server knows the path
        except (TransportError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            reason, self._unreadable = type(error).__name__, True
        raise EngineError(f"the server watched a path, but its record could not be fetched: {str(reason)[:200]}")


class MonitorInfo(NamedTuple):
    """What a monitor reports about itself."""

    version: str  # of sureenough on the server
    window: int  # the longest that it can watch


async def fetch_monitor_info(transport: Transport, address: URL) -> MonitorInfo | None:
    """What the monitor of the server at this address offers, if it has one."""
    try:
        response = await transport.fetch("GET", _url(address), seconds=10)
        info = json.loads(response.body)
        return (
            MonitorInfo(str(info["sureenough"]), int(info["window"])) if info["protocol"] == PROTOCOL_VERSION else None
        )
    except (TransportError, ValueError, KeyError, TypeError, OverflowError, RecursionError):
        return None


def _url(address: URL) -> URL:
    return address.with_path(f"{address.path.rstrip('/')}/sureenough")
