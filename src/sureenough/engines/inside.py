"""A server that watches its own paths: what to send it in place of asking for log-probabilities, and what it tells.

vLLM with our monitor inside (docs/vllm.md) offers this; every other server is read by its log-probabilities, as ever.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

import httpx

from sureenough.core.events import Summary
from sureenough.core.gates import Gate
from sureenough.engines.base import Guard, Prompt
from sureenough.engines.vllm.arguments import Asked
from sureenough.engines.vllm.desk import PROTOCOL, summary
from sureenough.errors import EngineError


class Inside:
    """The monitor at this address."""

    def __init__(self, client: httpx.AsyncClient, place: httpx.URL, offer: dict[str, Any]) -> None:
        self._client, self._place = client, place
        self.k, self.window, self.version = offer["k"], offer["window"], offer["sureenough"]

    def can(self, guard: Guard, k: int) -> bool:
        """Whether it can watch what is to be watched."""
        return bool(k == self.k and guard.window <= self.window)

    def ask(self, guard: Guard) -> Asked:
        """The arguments for one path, under a name that nobody can guess."""
        return Asked(secrets.token_urlsafe(18), guard.window, guard.gate or Gate(), trace=guard.gate is None)

    async def tell(self, asked: Asked, tokens: int | None) -> Summary:
        """The path as the server saw it, once it has ended after so many tokens."""
        place = self._place.copy_with(path=f"{self._place.path}/paths/{asked.key}", query=None)
        query = {} if tokens is None else {"tokens": tokens}
        try:
            reply = await self._client.get(place, params=query, timeout=30)
            said = reply.json()
            if reply.status_code == 200:
                return summary(said, asked.window)
            why = said.get("lost") or said.get("error")
        except (httpx.TransportError, ValueError, KeyError, TypeError, AttributeError) as error:
            why = type(error).__name__
        raise EngineError(f"the server watched a path and could not tell of it: {why}")


class Finder:
    """Looks once whether a server has a monitor."""

    def __init__(self, client: httpx.AsyncClient, address: httpx.URL) -> None:
        self._client, self._address = client, address
        self._found: Inside | None = None
        self._looked, self._looking = False, asyncio.Lock()

    async def find(self, prompt: Prompt, k: int) -> Inside | None:
        """The server's monitor, where it has one that can watch this path."""
        if not prompt.signals or prompt.guard is None:
            return None
        async with self._looking:
            if not self._looked:
                self._found, self._looked = await offered(self._client, self._address), True
        return self._found if self._found is not None and self._found.can(prompt.guard, k) else None


async def offered(client: httpx.AsyncClient, address: httpx.URL) -> Inside | None:
    """The monitor of the server at this address, where it has one."""
    place = address.copy_with(path=f"{address.path.rstrip('/')}/sureenough", query=None)
    try:
        reply = await client.get(place, timeout=10)
        said = reply.json() if reply.status_code == 200 else None
    except (httpx.HTTPError, ValueError):
        return None
    if not isinstance(said, dict) or said.get("protocol") != PROTOCOL:
        return None
    known = isinstance(said.get("k"), int) and isinstance(said.get("window"), int) and "sureenough" in said
    return Inside(client, place, said) if known else None
