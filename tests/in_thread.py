"""Servers on an event loop in a thread of their own, for tests that block or start child processes; and waiting."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager
from typing import TypeVar

Server = TypeVar("Server")


@contextmanager
def in_thread(serving: AbstractAsyncContextManager[Server]) -> Iterator[Server]:
    """What the context manager gives, until the block ends."""
    ready, over = threading.Event(), asyncio.Event()
    started: list[tuple[Server, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with serving as server:
            started.append((server, asyncio.get_running_loop()))
            ready.set()
            await over.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10), "the server did not start"
    server, loop = started[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)


def until(holds: Callable[[], object], seconds: float = 60.0, pause: float = 0.002) -> None:
    """Wait until it holds; the test fails if it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(pause)
