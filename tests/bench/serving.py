"""The misbehaving server in a thread of the test, so that a child process can use it and the test can look into it."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.engines.misbehaving import Manner, Server, serving

Manners = Callable[[int, int], Manner] | Manner


@contextmanager
def in_a_thread(manner: Manners) -> Iterator[Server]:
    """A server that runs beside the test."""
    ready, over = threading.Event(), asyncio.Event()
    held: list[tuple[Server, asyncio.AbstractEventLoop]] = []

    async def serve() -> None:
        async with serving(manner) as server:
            held.append((server, asyncio.get_running_loop()))
            ready.set()
            await over.wait()
            for task in asyncio.all_tasks() - {asyncio.current_task()}:
                task.cancel()

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert ready.wait(10)
    server, loop = held[0]
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(over.set)
        thread.join(10)
