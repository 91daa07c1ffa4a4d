"""The life of a server: listening, serving, and an orderly shutdown.

On a signal it accepts no more requests and lets the running ones finish; shortly before the deadline they end with the
vote so far, so that every client receives a response. A second signal ends them at once in the same way.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import gc
import logging
import socket
import sys
from collections.abc import Callable
from typing import Any, Final

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.h11_impl import H11Protocol

from sureenough.errors import UsageError
from sureenough.server.app import create
from sureenough.server.settings import ServerLimits, ServerSettings
from sureenough.server.state import ServerState

KEEP_ALIVE: Final = 30  # seconds for which a connection stays open between requests
POLL: Final = 0.1
VOTE_SHARE: Final = 0.25
"""Share of the grace period that remains for votes to be sent."""
FORCED_SECONDS: Final = 2.0
"""Seconds for votes to be sent after a second signal."""
SWITCH_SECONDS: Final = 0.001
"""Seconds for which another thread may keep the event loop waiting for the interpreter; Python's own value is 0.005."""
COLLECT_AFTER: Final = (5_000, 10, 10)
"""When the garbage collector runs, during which nothing is served: often among few objects, rarely among all."""
M_MMAP_THRESHOLD: Final = -3
M_ARENA_MAX: Final = -8
LARGE_BLOCK: Final = 1 << 17
"""Bytes from which a block of memory is mapped on its own and returned to the system when it is freed."""
log: Final = logging.getLogger("sureenough.server")


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


def listen(settings: ServerSettings) -> socket.socket:
    """The listening socket, or an error that names host and port."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With the protocol named: asyncio sends small responses at once only on sockets that are known to be TCP.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    # On Windows SO_REUSEADDR would let two servers listen on one port.
    listening.setsockopt(socket.SOL_SOCKET, getattr(socket, "SO_EXCLUSIVEADDRUSE", socket.SO_REUSEADDR), 1)
    try:
        listening.bind((settings.host, settings.port))
        listening.listen(1024)
    except (OSError, OverflowError) as error:
        listening.close()
        reason = getattr(error, "strerror", None) or error
        unusable = isinstance(error, socket.gaierror) or getattr(error, "errno", None) == errno.EADDRNOTAVAIL
        fix = "give --host an address of this machine" if unusable else "try another --port"
        raise UsageError(f"cannot listen on {settings.host} port {settings.port}: {reason}; {fix}") from None
    return listening


def raise_file_limit(wanted: int) -> None:
    """Allow one socket per path and connection, as far as this user may raise the limit on open files."""
    try:
        import resource
    except ImportError:  # a system without such limits
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))


def tune_process() -> None:
    """Short pauses, and memory that returns to the system: for a process that does nothing but serve."""
    sys.setswitchinterval(SWITCH_SECONDS)
    gc.set_threshold(*COLLECT_AFTER)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None:  # glibc would else raise its threshold with every large block, and keep one heap per thread
        mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        mallopt(M_ARENA_MAX, 2)


def uvicorn_config(app: ASGIApp, settings: ServerSettings, **more: Any) -> uvicorn.Config:
    options: dict[str, Any] = {
        "http": LimitedConnection.within(settings.limits), "ws": "none", "lifespan": "off", "log_config": None,
        "access_log": False, "server_header": False, "proxy_headers": False, "timeout_keep_alive": KEEP_ALIVE,
        "timeout_graceful_shutdown": max(1, round(settings.limits.grace)), "h11_max_incomplete_event_size": 65_536,
    }  # fmt: skip
    return uvicorn.Config(app, **options | more)


class SignalledServer(uvicorn.Server):
    """Counts signals. uvicorn itself would answer the second one with a 500 to every client, and raise them again."""

    signals = 0

    def handle_exit(self, sig: int, frame: Any) -> None:
        """The handler of SIGINT and SIGTERM."""
        self.signals += 1
        self.should_exit = True


async def serve_until_stopped(
    settings: ServerSettings, listening: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until a signal. The upstream is opened first, so that its errors are reported before anything is served."""
    limits = settings.limits
    raise_file_limit(limits.requests * (limits.parallel + 2) + limits.idle + 256)
    tune_process()
    app, state = create(settings)
    server = SignalledServer(uvicorn_config(app, settings))
    async with state.opened():
        watch = asyncio.create_task(_watch(server, state, ready))
        try:
            await server.serve(sockets=[listening])
            if server.server_state.tasks:  # cancelled at the end of the grace period: their clients get a 503
                await asyncio.wait(server.server_state.tasks, timeout=FORCED_SECONDS)
        finally:
            watch.cancel()
            await asyncio.gather(watch, return_exceptions=True)


async def _watch(server: SignalledServer, state: ServerState, ready: Callable[[], None]) -> None:
    while not server.started:
        await asyncio.sleep(POLL)
    gc.collect()
    gc.freeze()  # a full collection would visit every imported module each time, during which nothing is served
    ready()
    check = asyncio.create_task(_check_upstream(state))
    while not server.should_exit:
        await asyncio.sleep(POLL)
    check.cancel()
    await drain(state, server.server_state.tasks, lambda: server.signals > 1)


async def drain(state: ServerState, tasks: set[asyncio.Task[Any]], hurried: Callable[[], bool]) -> None:
    """Let running requests finish: first by themselves, then with the vote so far, then with an error."""
    state.shutting_down = True
    grace = state.settings.limits.grace
    log.info("shutting down: %d requests have %g s to finish", state.requests, grace)
    await _wait_for(hurried, grace * (1 - VOTE_SHARE))
    state.stop_runs()
    await _wait_for(hurried, grace)
    await _wait_for(lambda: not tasks, FORCED_SECONDS)
    for task in list(tasks):
        task.cancel()


async def _check_upstream(state: ServerState) -> None:
    """Say at once if the upstream is not there, instead of at the first request."""
    problem = None if state.settings.view_only else await state.upstream.problem()
    if problem is not None:
        log.warning("the upstream is not ready: %s; requests fail until it is", problem)


async def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(POLL)
