"""A plain model name: the request goes to the upstream as it is, and its reply comes back as it is.

Only the key is another: the client's ends here, the upstream's is put on and never leaves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from starlette.types import Receive, Scope, Send

from sureenough.engines.openai.errors import TransportError
from sureenough.server.consensus import client_disconnected
from sureenough.server.errors import ApiError, key_refused
from sureenough.server.state import ServerState
from sureenough.server.upstream import not_here

if TYPE_CHECKING:
    import aiohttp

CARRIED: Final = ("content-type", "cache-control", "x-request-id", "retry-after", "openai-processing-ms")
"""Headers of a reply that are handed on."""
LARGEST_ERROR: Final = 65_536


class PassthroughResponse:
    """An ASGI application for one request."""

    def __init__(self, house: ServerState, verb: str, body: bytes) -> None:
        self.house, self.verb, self.body = house, verb, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand the request on and the reply back; a client that leaves closes the upstream's stream."""
        self.leave = self.house.enter()
        passing = asyncio.create_task(self._pass(send))
        leaving = asyncio.create_task(client_disconnected(receive))
        try:
            await asyncio.wait({passing, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
            else:
                self.house.counters.left += 1
        finally:
            self.leave()
            for task in (passing, leaving):
                task.cancel()
            await asyncio.gather(passing, leaving, return_exceptions=True)

    async def _pass(self, send: Send) -> None:
        upstream, limits = self.house.asked, self.house.settings.limits
        exchange = upstream.transport.request("POST", upstream.place(self.verb), self.body, {"Accept": "*/*"})
        try:
            async with asyncio.timeout(limits.seconds), exchange as response:
                if response.status >= 400:
                    await self._refuse(response, send)
                else:
                    await self._hand_back(response, send)
        except TimeoutError:
            raise ApiError(504, f"The upstream took more than {limits.seconds:g} s.", code="timeout") from None
        except TransportError as error:
            raise not_here(error) from None

    async def _hand_back(self, response: aiohttp.ClientResponse, send: Send) -> None:
        headers = list(_carried(response))
        await send({"type": "http.response.start", "status": response.status, "headers": headers})
        while part := await response.content.readany():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        self.leave()  # first: a client that has its reply must find room for the next request
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, response: aiohttp.ClientResponse, send: Send) -> None:
        """The upstream's error in its own words, less its key; one about that key is the operator's to mend."""
        status = response.status
        if status in (401, 403):
            raise key_refused()
        body = await self.house.asked.transport.read_body(response, LARGEST_ERROR)
        said = self.house.asked.clean(body.decode("utf-8", "replace"))
        if "application/json" not in response.headers.get("content-type", ""):
            code = status if status < 500 or status == 503 else 502
            raise ApiError(code, f"The upstream answered {status}: {said[:500]}", code="upstream_error")
        await send({"type": "http.response.start", "status": status, "headers": list(_carried(response))})
        await send({"type": "http.response.body", "body": said.encode()})


def _carried(response: aiohttp.ClientResponse) -> Iterable[tuple[bytes, bytes]]:
    """Headers to hand on; those with characters that a header cannot have are left out."""
    for name in CARRIED:
        value = response.headers.get(name)
        if value is not None and value.isascii() and value.isprintable():
            yield name.encode(), value.encode()
