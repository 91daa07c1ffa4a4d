"""A server's life: listening, and an end in good order.

Told to stop, it takes no more requests and lets the running ones finish; shortly before the deadline they end with the
vote so far, so that every client gets an answer.
"""

from __future__ import annotations

import asyncio
import logging
import signal
import socket
from collections.abc import Callable
from typing import Final

import uvicorn

from sureenough.errors import UsageError
from sureenough.server.app import create
from sureenough.server.settings import ServerSettings
from sureenough.server.state import ServerState

LOOK: Final = 0.1
LAST_WORDS: Final = 0.25
"""Share of the grace that is left for votes to be sent."""
log: Final = logging.getLogger("sureenough.server")


def listen(settings: ServerSettings) -> socket.socket:
    """The socket; what cannot be listened at is refused in words."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: asyncio sends small replies at once only on sockets that say that they are TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot listen at {settings.host} port {settings.port}: {said}; try another --port") from None
    return listening


def allow_sockets(wanted: int) -> None:
    """A socket a path: raise the limit on open files as far as this user may."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


async def serve_until_stopped(
    settings: ServerSettings, listening: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until told to stop. The upstream is opened first: what is wrong with it is said in its own words."""
    allow_sockets(settings.limits.requests * (settings.limits.parallel + 2) + 256)
    app, house = create(settings)
    server = uvicorn.Server(
        uvicorn.Config(
            app, http="h11", lifespan="off",
            log_config=None, access_log=False, server_header=False, proxy_headers=False,
            timeout_graceful_shutdown=max(1, round(settings.grace)), timeout_keep_alive=30,
            h11_max_incomplete_event_size=65_536,
        )
    )  # fmt: skip
    async with house.opened():
        # uvicorn stops in good order and then raises the signal once more; the second time it means nothing.
        signal.signal(signal.SIGTERM, lambda number, frame: None)
        ending = asyncio.create_task(_ending(server, house, ready))
        try:
            await server.serve(sockets=[listening])
        finally:
            ending.cancel()
            await asyncio.gather(ending, return_exceptions=True)


async def _ending(server: uvicorn.Server, house: ServerState, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(LOOK)
    ready()
    while not server.should_exit:
        await asyncio.sleep(LOOK)
    house.draining = True
    log.info("stopping: %d requests have %g s to finish", house.busy, house.settings.grace)
    await asyncio.sleep(house.settings.grace * (1 - LAST_WORDS))
    house.stop_runs()
