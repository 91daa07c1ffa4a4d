"""Connections with time limits: uvicorn has none for the head of a request, or for a client that does not read."""

from __future__ import annotations

import asyncio
from typing import Any, Final

from uvicorn.protocols.http.h11_impl import H11Protocol

from sureenough.server.settings import ServerLimits

KEEP_ALIVE: Final = 30  # seconds for which a connection stays open between requests


class LimitedConnection(H11Protocol):
    """HTTP/1.1 with limits on the time for a request's head, on idle connections, and on clients that do not read."""

    limits: ServerLimits
    idle: dict[LimitedConnection, asyncio.TimerHandle]
    """Connections without a request in progress, the oldest first."""
    _stalled: asyncio.TimerHandle | None = None

    @classmethod
    def within(cls, limits: ServerLimits) -> type[LimitedConnection]:
        return type("ServerConnection", (cls,), {"limits": limits, "idle": {}})

    def connection_made(self, transport: Any) -> None:
        """Wait for the first request; the oldest idle connection makes room if there are too many."""
        super().connection_made(transport)
        self._wait(self.limits.head)
        while len(self.idle) > self.limits.idle:
            next(iter(self.idle))._drop()

    def data_received(self, data: bytes) -> None:
        """Data of a head do not extend its time; a head that is complete ends the waiting."""
        super().data_received(data)
        self._end_wait_if_busy()

    def on_response_complete(self) -> None:
        self._wait(KEEP_ALIVE)
        super().on_response_complete()
        self._end_wait_if_busy()

    def connection_lost(self, exc: Exception | None) -> None:
        self._end_wait()
        self.resume_writing()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client does not read: it is dropped if that lasts."""
        super().pause_writing()
        self._stalled = self.loop.call_later(self.limits.send, self._drop)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None

    def _wait(self, seconds: float) -> None:
        self._end_wait()
        self.idle[self] = self.loop.call_later(seconds, self._drop)

    def _end_wait(self) -> None:
        timer = self.idle.pop(self, None)
        if timer is not None:
            timer.cancel()

    def _end_wait_if_busy(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            self._end_wait()

    def _drop(self) -> None:
        """Close without waiting for data to be sent, which a client that does not read would prevent."""
        self._end_wait()
        self.transport.abort()
