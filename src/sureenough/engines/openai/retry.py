"""How long to wait for a server: the stall limit of one stream, and the pauses between attempts."""

from __future__ import annotations

import asyncio
import random
from email.utils import parsedate_to_datetime
from types import TracebackType
from typing import Final, Self

LONGEST_WAIT: Final = 120.0
"""Seconds. A server that wants a longer pause counts as unavailable."""
FIRST_WAIT: Final = 0.5
"""Seconds before the second attempt at most; each further wait is twice as long."""


class Stalled(Exception):
    """The server sent nothing within the limit."""


class StallTimer:
    """Raises Stalled if the server sends nothing within the limit.

    One timer per stream instead of one per read. It cancels its own task, and only while that waits for the server.
    """

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
        self._timer = self._loop.call_later(self.limit, self._check)
        return self

    def restart(self, limit: float) -> None:
        """Something arrived: wait again from here, with this limit."""
        self._last = self._loop.time()
        if limit != self.limit:
            self.limit = limit
            self._timer.cancel()
            self._timer = self._loop.call_later(limit, self._check)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._expired and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError:
            raise Stalled from None

    def _check(self) -> None:
        remaining = self._last + self.limit - self._loop.time()
        if remaining > 0:
            self._timer = self._loop.call_later(remaining, self._check)
        elif self.waiting:
            self._expired = True
            self._task.cancel()
        else:  # the reader is busy with earlier data, which is not the server's fault
            self._timer = self._loop.call_later(self.limit, self._check)


def retry_after(header: str | None, now: float) -> float | None:
    """Seconds from now that a Retry-After header asks for; it is a number or a date."""
    if header is None:
        return None
    try:
        return max(0.0, float(header))
    except ValueError:
        pass
    try:
        return max(0.0, parsedate_to_datetime(header).timestamp() - now)
    except (ValueError, TypeError, OverflowError, OSError):
        return None


def backoff(attempt: int, requested: float | None) -> float:
    """Seconds until the next attempt: the server's wish plus up to a tenth, so that clients do not return together."""
    if requested is not None:
        return requested * random.uniform(1.0, 1.1)
    return min(8.0, FIRST_WAIT * 2.0**attempt) * random.uniform(0.5, 1.0)
