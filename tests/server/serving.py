"""Applications on real sockets of this machine, each with a loop and a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace

import uvicorn
from starlette.types import ASGIApp

from sureenough.server.app import create, listen, uvicorn_config
from sureenough.server.consensus import ServerState
from sureenough.server.settings import ServerSettings


@dataclass
class Listening:
    """A server that runs."""

    url: str
    port: int
    server: uvicorn.Server
    thread: threading.Thread

    def stop(self, hard: bool = False) -> None:
        """Take it down; hard: open replies are cut."""
        self.server.should_exit = True
        self.server.force_exit = hard
        self.thread.join(10)
        assert not self.thread.is_alive()


@contextmanager
def serving_app(
    app: ASGIApp, port: int = 0, config: uvicorn.Config | None = None, state: ServerState | None = None
) -> Iterator[Listening]:
    """Serve until the block ends."""
    sock = listen(ServerSettings(port=port))
    server = uvicorn.Server(config or uvicorn.Config(app, lifespan="off", log_config=None, access_log=False))
    server.config.timeout_graceful_shutdown = 3

    async def serve() -> None:
        async with nullcontext() if state is None else state.opened():
            await server.serve(sockets=[sock])

    thread = threading.Thread(target=asyncio.run, args=(serve(),), daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive(), "the server did not start"
        thread.join(0.01)
    number = sock.getsockname()[1]
    listening = Listening(f"http://127.0.0.1:{number}", number, server, thread)
    try:
        yield listening
    finally:
        if thread.is_alive():
            listening.stop()


@contextmanager
def ours(settings: ServerSettings) -> Iterator[tuple[str, ServerState]]:
    """Our own server with these settings."""
    app, state = create(replace(settings, port=0))
    with serving_app(app, config=uvicorn_config(app, settings), state=state) as listening:
        try:
            yield listening.url, state
        finally:
            state.shutting_down = True  # as the server itself does on a signal
