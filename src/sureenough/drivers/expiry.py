"""How a run is ended from outside: by a deadline, or by cancelling whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sureenough.core.events import Reason


async def wait_or_expire(
    work: asyncio.Future[None],
    expire: Callable[[Reason], None],
    deadline: float | None,
) -> None:
    """Wait for the work of a run. `expire` makes it end soon by itself, so nothing but its end is waited for."""
    loop, task, cancels = asyncio.get_running_loop(), asyncio.current_task(), 0
    timer = None if deadline is None else loop.call_later(deadline, expire, "deadline")
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancels += 1
            expire("interrupted")
    if timer is not None:
        timer.cancel()
    while cancels and task is not None:  # the vote so far is the reply to a cancellation
        task.uncancel()
        cancels -= 1
