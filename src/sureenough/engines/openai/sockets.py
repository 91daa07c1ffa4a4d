"""One socket's bytes as they come: received into a buffer that all share, and handed on without further copies."""

from __future__ import annotations

import asyncio
from typing import Final

AT_ONCE: Final = 1 << 17
"""Bytes that are received at once, at most."""
ENOUGH: Final = 1 << 17
"""Bytes that may wait to be read; more, and the sender is made to wait."""


class Socket(asyncio.BufferedProtocol):
    """Reading waits for what comes; writing and closing never wait."""

    def __init__(self, buffer: memoryview) -> None:
        self._buffer = buffer  # of all sockets of one loop: copied out of before another one can run
        self._come: list[bytes] = []
        self._size = 0
        self._ended = False
        self._error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._transport: asyncio.Transport | None = None

    @property
    def transport(self) -> asyncio.Transport:
        """The connection."""
        assert self._transport is not None
        return self._transport

    @property
    def open(self) -> bool:
        """Whether the other side is still there, as far as is known."""
        return not self._ended and not self.transport.is_closing()

    async def read(self) -> bytes:
        """What has come, at least one byte; nothing at the end."""
        while not self._come:
            if self._error is not None:
                raise self._error
            if self._ended:
                return b""
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        come = self._come[0] if len(self._come) == 1 else b"".join(self._come)
        self._come.clear()
        if self._size > ENOUGH:
            self.transport.resume_reading()
        self._size = 0
        return come

    # -- what asyncio tells

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Connected."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def get_buffer(self, sizehint: int) -> memoryview:
        """Where to put what comes."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """So much has come."""
        self._come.append(bytes(self._buffer[:nbytes]))
        before, self._size = self._size, self._size + nbytes
        if before <= ENOUGH < self._size:
            self.transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """The other side sends no more."""
        self._ended = True
        self._wake()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._ended, self._error = True, exc
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
