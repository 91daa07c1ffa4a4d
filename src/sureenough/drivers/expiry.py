"""How a run is ended from outside: by a deadline, by a future, or by cancelling whoever waits for it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sureenough.core.events import Reason


async def wait_or_expire(
    work: asyncio.Future[None],
    expire: Callable[[Reason], None],
    deadline: float | None,
    until: asyncio.Future[Reason] | None,
) -> None:
    """Wait for the work of a run. `expire` makes it end soon by itself, so nothing but its end is waited for."""

    def on_until(ended: asyncio.Future[Reason]) -> None:
        if not ended.cancelled():
            expire(ended.result())

    loop, task, cancels = asyncio.get_running_loop(), asyncio.current_task(), 0
    timer = None if deadline is None else loop.call_later(deadline, expire, "deadline")
    if until is not None:
        until.add_done_callback(on_until)
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancels += 1
            expire("interrupted")
    if timer is not None:
        timer.cancel()
    if until is not None:
        until.remove_done_callback(on_until)
    while cancels and task is not None:  # the vote so far is the reply to a cancellation
        task.uncancel()
        cancels -= 1
