"""A plain model name: the request goes to the upstream as it is, and its reply comes back as it is.

Only the key is another: the client's ends here, the upstream's is put on and never leaves.
"""

from __future__ import annotations

import asyncio
from typing import Final

import httpx
from starlette.types import Receive, Scope, Send

from sureenough.server.consensus import client_disconnected
from sureenough.server.errors import ApiError, key_refused
from sureenough.server.state import ServerState
from sureenough.server.upstream import not_here

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
        request = upstream.client.build_request(
            "POST", upstream.place(self.verb), content=self.body, headers={"Accept": "*/*"}
        )
        try:
            async with asyncio.timeout(limits.seconds):
                reply = await upstream.client.send(request, stream=True)
                try:
                    if reply.status_code >= 400:
                        await self._refuse(reply, send)
                    else:
                        await self._hand_back(reply, send)
                finally:
                    await reply.aclose()
        except TimeoutError:
            raise ApiError(504, f"The upstream took more than {limits.seconds:g} s.", code="timeout") from None
        except httpx.TransportError as error:
            raise not_here(error) from None

    async def _hand_back(self, reply: httpx.Response, send: Send) -> None:
        head = [(name.encode(), reply.headers[name].encode()) for name in CARRIED if name in reply.headers]
        await send({"type": "http.response.start", "status": reply.status_code, "headers": head})
        packed = "content-encoding" in reply.headers  # that header is not handed on
        async for part in reply.aiter_bytes() if packed else reply.aiter_raw():
            await send({"type": "http.response.body", "body": part, "more_body": True})
        self.leave()  # first: a client that has its reply must find room for the next request
        await send({"type": "http.response.body", "body": b""})

    async def _refuse(self, reply: httpx.Response, send: Send) -> None:
        """The upstream's error in its own words, less its key; one about that key is the operator's to mend."""
        status = reply.status_code
        if status in (401, 403):
            raise key_refused()
        said = self.house.asked.clean((await reply.aread())[:LARGEST_ERROR].decode("utf-8", "replace"))
        if "application/json" not in reply.headers.get("content-type", ""):
            code = status if status < 500 or status == 503 else 502
            raise ApiError(code, f"The upstream answered {status}: {said[:500]}", code="upstream_error")
        head = [(name.encode(), reply.headers[name].encode()) for name in CARRIED if name in reply.headers]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": said.encode()})
