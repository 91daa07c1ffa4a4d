"""How long to wait for a server: a watch over one stream, and the pauses between tries.

The watch is one timer a stream, not one a read: it interrupts its own task, and only while that waits for the server.
"""

from __future__ import annotations

import asyncio
import random
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Self

LONGEST_WAIT: Final = 120.0
"""Seconds; a server that asks for a longer pause is taken to be unavailable."""


class Stalled(Exception):
    """Nothing was heard for too long."""


class StallTimer:
    """Raises Stalled, on leaving, where its task was waiting and nothing was heard within the limit."""

    def __init__(self, limit: float) -> None:
        self.limit = limit
        self.waiting = False

    def __enter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None
        self._task, self._loop = task, asyncio.get_running_loop()
        self._cancelling = task.cancelling()
        self._expired = False
        self._last = self._loop.time()
        self._timer = self._loop.call_later(self.limit, self._look)
        return self

    def heard(self) -> None:
        """Something came: wait from here."""
        self._last = self._loop.time()

    def narrow(self, limit: float) -> None:
        """From now on, this is the limit."""
        self.heard()
        if limit != self.limit:
            self.limit = limit
            self._timer.cancel()
            self._timer = self._loop.call_later(limit, self._look)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Stalled from None

    def _look(self) -> None:
        left = self._last + self.limit - self._loop.time()
        if left > 0:
            self._timer = self._loop.call_later(left, self._look)
        elif self.waiting:
            self._expired = True
            self._task.cancel()
        else:  # the reader is busy with what came before; that is not the server's fault
            self._timer = self._loop.call_later(self.limit, self._look)


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds of a Retry-After header, which is a number or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError):
        return None


def backoff(attempt: int, asked: float | None) -> float:
    """Seconds until the next try: as asked and a little more, so that clients spread; nothing where 0 was asked."""
    if asked is not None:
        return asked * random.uniform(1.0, 1.1)
    return min(8.0, 0.5 * 2.0**attempt) * random.uniform(0.5, 1.0)
