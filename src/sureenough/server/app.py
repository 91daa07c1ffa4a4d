"""The server: the application, which admits requests, and its life, from listening to an orderly shutdown.

Checks come before any handler: host name, origin of a browser's request, type of the body, key.

On a signal no more requests are accepted, and the running ones may finish; shortly before the deadline they end with
the vote so far, so that every client receives a response. A second signal ends them at once in the same way.
"""

from __future__ import annotations

import asyncio
import base64
import ctypes
import errno
import gc
import hashlib
import hmac
import ipaddress
import logging
import re
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any, Final

import uvicorn
from starlette.requests import ClientDisconnect
from starlette.routing import Match, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from sureenough.errors import UsageError
from sureenough.server.consensus import ServerState
from sureenough.server.responses import JSON, ApiError, cancel
from sureenough.server.routes import Routes
from sureenough.server.settings import ServerLimits, ServerSettings

log: Final = logging.getLogger("sureenough.server")
WITHOUT_KEY: Final = frozenset({"/healthz", "/readyz"})
HOST: Final = re.compile(r"(?:\[([0-9a-f:.]+)\]|([^][:@/\s]+))(?::\d+)?")
"""A Host header with an address or a name, and perhaps a port."""
CLIENT_CLOSED: Final = 499  # the status in logs and metrics of a request whose client disconnected before its response
POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Final = {
    b"content-security-policy": POLICY.encode(),
    b"x-content-type-options": b"nosniff",
    b"referrer-policy": b"no-referrer",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
}
LONGEST_HEAD: Final = 65_536  # bytes of a request's head
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


class RequestMiddleware:
    def __init__(self, app: ASGIApp, state: ServerState, routes: Sequence[Route]) -> None:
        self.app, self.state, self.routes = app, state, routes
        settings = state.settings
        self._keys = [hashlib.sha256(key.encode()).digest() for key in settings.keys]
        self._hosts = [name.lower() for name in ("localhost", settings.host, socket.gethostname(), *settings.hosts)]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        status, began = 0, time.monotonic()

        async def tracked(message: Message) -> None:
            """Send with the security headers, and remember the status once the head is sent."""
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                names = {name for name, _ in message["headers"]}
                added = [(name, value) for name, value in SECURITY_HEADERS.items() if name not in names]
                message = {**message, "headers": [*message["headers"], *added]}
            await send(message)

        try:
            self.check(scope)
            scope["app"] = self  # with this the router raises if no route matches
            await self.app(scope, receive, tracked)
        except ClientDisconnect:
            self.state.metrics.disconnects.inc()
        except (Exception, asyncio.CancelledError) as error:
            if isinstance(error, asyncio.CancelledError) and not self.state.shutting_down:
                raise
            response = self.state.error_response(error)
            if not status:  # else the head is sent, and the connection is closed: the response is not complete
                await response.response()(scope, receive, tracked)
        finally:
            route = next((route.path for route in self.routes if route.matches(scope)[0] is not Match.NONE), "other")
            seconds = time.monotonic() - began
            self.state.metrics.count_response(route, status or CLIENT_CLOSED, seconds)
            log.info("%s %s %s %.3f s", scope["method"], route, status or CLIENT_CLOSED, seconds)

    def check(self, scope: Scope) -> None:
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in reversed(scope["headers"])}
        if "transfer-encoding" in headers and "content-length" in headers:  # a second request may hide in the first
            message = "A request has a Content-Length or a Transfer-Encoding, not both."
            raise ApiError(400, message, headers={"Connection": "close"})
        if not self._knows(headers.get("host", "")):
            text = "This server does not have that host name; its operator can add it with --allow-host."
            raise ApiError(421, text, code="unknown_host")
        origin = headers.get("origin")
        other_origin = origin is not None and origin.partition("://")[2] != headers.get("host")
        other_site = headers.get("sec-fetch-site", "none") not in ("none", "same-origin") and scope["method"] != "GET"
        if other_origin or other_site:
            raise ApiError(403, "Requests from pages of other sites are not allowed.", code="cross_origin")
        if self._keys and scope["path"] not in WITHOUT_KEY and not self._has_key(headers.get("authorization", "")):
            scheme = "Bearer" if scope["path"].startswith("/v1/") else 'Basic realm="sureenough", charset="UTF-8"'
            challenge = {"WWW-Authenticate": scheme}
            raise ApiError(401, "Incorrect API key provided.", code="invalid_api_key", headers=challenge)
        media_type = headers.get("content-type", "").partition(";")[0].strip().lower()
        if scope["method"] == "POST" and media_type != JSON:
            message = "Send JSON, with the header Content-Type: application/json."
            raise ApiError(415, message, code="unsupported_media_type")

    def _knows(self, host: str) -> bool:
        """Whether this server has the name; an address needs no check: a page of another site can only send a name."""
        parts = HOST.fullmatch(host.strip().lower())
        if parts is None:
            return False
        name = parts[1] or parts[2]
        try:
            return bool(ipaddress.ip_address(name))
        except ValueError:
            return any(name == known or (known.startswith("*") and name.endswith(known[1:])) for known in self._hosts)

    def _has_key(self, header: str) -> bool:
        """Whether the header has a key, as a bearer token or as the password of a browser; in constant time."""
        scheme, _, credentials = header.partition(" ")
        if scheme.lower() == "basic":
            try:
                credentials = base64.b64decode(credentials.strip(), validate=True).decode().partition(":")[2]
            except ValueError:
                return False
        elif scheme.lower() != "bearer":
            return False
        digest = hashlib.sha256(credentials.strip().encode()).digest()
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0  # a sum: all are compared


def create(settings: ServerSettings) -> tuple[ASGIApp, ServerState]:
    """The application, and the state of its requests, which whoever serves it opens."""
    state = ServerState(settings)
    routes = [Route(row.path, row.handler, methods=[row.method]) for row in Routes(state).endpoints]
    # A bare router: every error becomes a response in the middleware.
    return RequestMiddleware(Router(routes=routes), state, routes), state


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


def raise_file_limit(limits: ServerLimits) -> None:
    """Allow one socket per path and connection, as far as this user may raise the limit on open files."""
    wanted = limits.requests * (limits.parallel + 2) + limits.idle + 256
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


def uvicorn_config(app: ASGIApp, settings: ServerSettings) -> uvicorn.Config:
    return uvicorn.Config(
        app, http=LimitedConnection.within(settings.limits), ws="none", lifespan="off", log_config=None,
        access_log=False, server_header=False, proxy_headers=False, timeout_keep_alive=KEEP_ALIVE,
        timeout_graceful_shutdown=max(1, round(settings.limits.grace)), h11_max_incomplete_event_size=LONGEST_HEAD,
    )  # fmt: skip


class DrainingServer(uvicorn.Server):
    """Says when it is ready, and drains on a signal. uvicorn itself would answer the second one with 500s."""

    signals = 0

    def __init__(self, config: uvicorn.Config, state: ServerState, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._state, self._ready = state, ready

    def handle_exit(self, sig: int, frame: Any) -> None:
        self.signals += 1
        self.should_exit = True

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        gc.collect()
        gc.freeze()  # a full collection would visit every imported module each time, during which nothing is served
        self._ready()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        tasks = self.server_state.tasks
        draining = asyncio.create_task(drain(self._state, tasks, lambda: self.signals > 1))
        await super().shutdown(sockets)
        if tasks:  # cancelled at the end of the grace period: their clients get a 503
            await asyncio.wait(tasks, timeout=FORCED_SECONDS)
        await cancel(draining)


async def serve_until_stopped(
    settings: ServerSettings, listening: socket.socket, ready: Callable[[], None] = lambda: None
) -> None:
    """Serve until a signal. The upstream is opened first, so that its errors are reported before anything is served."""
    raise_file_limit(settings.limits)
    tune_process()
    app, state = create(settings)
    async with state.opened():
        check = asyncio.create_task(_check_upstream(state))
        await DrainingServer(uvicorn_config(app, settings), state, ready).serve(sockets=[listening])
        await cancel(check)


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


async def _wait_for(condition: Callable[[], bool], seconds: float) -> None:
    end = asyncio.get_running_loop().time() + seconds
    while not condition() and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(POLL)


async def _check_upstream(state: ServerState) -> None:
    """Say at once if the upstream is not there, instead of at the first request."""
    problem = await state.backend.problem()
    if problem is not None:
        log.warning("the upstream is not ready: %s; requests fail until it is", problem)
