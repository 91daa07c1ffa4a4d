"""Requests with a plain model name: sent to the upstream unchanged, and its response is sent back unchanged.

Only the key differs: the client's key ends here, and the upstream's is masked should a response quote it.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

from starlette.types import Message, Receive, Scope, Send

from sureenough.engines.openai.client import OpenAIConnection
from sureenough.engines.openai.errors import TransportError
from sureenough.server.consensus import ServerState
from sureenough.server.responses import (
    JSON,
    ApiError,
    body,
    start,
    until_disconnected,
    upstream_key_rejected,
    upstream_unavailable,
)

if TYPE_CHECKING:
    import aiohttp

FORWARDED: Final = ("content-type", "cache-control", "x-request-id", "retry-after", "openai-processing-ms")
"""Headers of the upstream's response that the client receives."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")
LARGEST_ERROR: Final = 65_536
LEAST_KEY: Final = 16
"""Characters of a key that is masked in responses; a shorter one, such as EMPTY, may be an ordinary word."""


class KeyMask:
    """Replaces the upstream's key by asterisks in a stream of bytes, wherever the stream is split."""

    def __init__(self, key: str | None) -> None:
        self._key = key.encode() if key is not None and len(key) >= LEAST_KEY else b""
        self.held = b""  # the end of what was received, if it may be the beginning of the key

    def feed(self, part: bytes) -> bytes:
        """What may be sent now."""
        key = self._key
        if not key:
            return part
        part = (self.held + part).replace(key, b"*" * len(key))
        ends = range(max(0, len(part) - len(key) + 1), len(part))
        at = next((at for at in ends if key.startswith(part[at:])), len(part))
        part, self.held = part[:at], part[at:]
        return part


class PassthroughResponse:
    """An ASGI application for one request, which holds a slot until its response is complete."""

    def __init__(self, state: ServerState, endpoint: str, content: bytes, slot: ExitStack) -> None:
        self.upstream, self.seconds = state.upstream, state.settings.limits.seconds
        self.endpoint, self.content, self.slot = endpoint, content, slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request on and the response back; the upstream's stream is closed if the client disconnects."""
        with self.slot:
            await until_disconnected(receive, self._forward(send))

    async def _forward(self, send: Send) -> None:
        exchange = self.upstream.exchange(self.endpoint, self.content)
        try:
            async with asyncio.timeout(self.seconds), exchange as (connection, response):
                if response.status >= 400:
                    await self._send_error(connection, response, send)
                    return
                await send(self._start(response))
                mask = KeyMask(connection.errors.key)
                while part := await response.content.readany():
                    await send(body(mask.feed(part), more=True))
                self.slot.close()  # first: a client that has its response must find a slot for the next request
                await send(body(mask.held))
        except TimeoutError:
            raise ApiError(504, f"The upstream took more than {self.seconds:g} s.", code="timeout") from None
        except TransportError as error:
            raise upstream_unavailable(f"The upstream cannot be reached ({type(error).__name__}).") from None

    async def _send_error(self, connection: OpenAIConnection, response: aiohttp.ClientResponse, send: Send) -> None:
        """The upstream's error without its secrets; one about its key is for the operator to fix."""
        status = response.status
        if status in (401, 403):
            raise upstream_key_rejected()
        content = await connection.transport.read_body(response, LARGEST_ERROR)
        text = self.upstream.redact(content.decode("utf-8", "replace"))
        if JSON not in response.headers.get("content-type", ""):
            code = status if status < 500 or status == 503 else 502
            raise ApiError(code, f"The upstream returned status {status}: {text[:500]}", code="upstream_error")
        await send(self._start(response))
        await send(body(text.encode()))

    def _start(self, response: aiohttp.ClientResponse) -> Message:
        """The head, with a status that can be sent: nothing above 599, and no interim response."""
        status = response.status if 200 <= response.status < 600 else 502
        return start(status, forwarded(response.headers, self.upstream.redact))


def forwarded(headers: Mapping[str, str], redact: Callable[[str], str]) -> list[tuple[bytes, bytes]]:
    """The forwarded headers; a line break or another control character in a value would break our own head."""
    values = ((name, CONTROL.sub(" ", redact(headers.get(name, ""))).strip()) for name in FORWARDED)
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in values if value]
