"""`serve --ray`: the application as a deployment of Ray Serve, for as long as the command runs."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from dataclasses import replace
from typing import Any, Final

from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough.errors import EngineUnavailable, UsageError
from sureenough.ray.cluster import Parcel, on_node
from sureenough.redact import first_line, redact
from sureenough.server.app import create, drain, raise_file_limit
from sureenough.server.settings import ServerSettings

APPLICATION: Final = "sureenough"  # its name in Ray Serve, that of the notice board and of the board's namespace
START_SECONDS: Final = 300.0  # for the first replicas to start
PORT_SECONDS: Final = 90.0  # for which the system may hold a port whose last connections have just been closed
POLL_SECONDS: Final = 0.5
LOST_SECONDS: Final = 60.0  # without a response of the cluster, before the command ends
STOP_SECONDS: Final = 30.0  # beyond the grace period, for replicas to end
SLACK: Final = 64  # requests at once beyond the limit: the application refuses them itself, and says why
log: Final = logging.getLogger("sureenough.server")


class NoticeBoard:
    """An actor of the command, which dies with it: what replicas need to know, and why one could not start."""

    def __init__(self) -> None:
        self._notices: dict[str, Any] = {}

    def put(self, notices: dict[str, Any]) -> None:
        self._notices |= notices

    def claim(self, owner: str) -> Any:
        """The command that the board belongs to: the first that claims it."""
        return self._notices.setdefault("owner", owner)

    def get(self, name: str) -> Any:
        return self._notices.get(name)


class Replica:
    """The application in a replica of Ray Serve, which calls it as ASGI."""

    async def __init__(self) -> None:  # type: ignore[misc]  # Ray Serve awaits it
        import ray
        from ray import serve

        self._board = ray.get_actor(APPLICATION, namespace=APPLICATION)
        settings = (await self._board.get.remote("settings")).unpack()
        raise_file_limit(settings.limits)
        self._app, self._state = create(replace(settings, replica=str(serve.get_replica_context().replica_tag)))
        self._requests: set[asyncio.Task[Any]] = set()
        self._signals = 0
        self._opened = AsyncExitStack()
        await self._opened.enter_async_context(self._state.opened())

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Ray Serve calls this after the constructor."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:  # uvicorn would take a method for ASGI 2
            if scope["type"] == "lifespan":
                await receive()
                await send({"type": "lifespan.startup.complete"})
                obeying = asyncio.create_task(self._obey())
                await receive()
                obeying.cancel()
                await self._opened.aclose()
                await send({"type": "lifespan.shutdown.complete"})
                return
            task = asyncio.current_task()
            assert task is not None
            self._requests.add(task)
            try:
                await self._app(scope, receive, send)
            finally:
                self._requests.discard(task)

        return app

    async def _obey(self) -> None:
        """End running requests when the command gets a signal, and at once when it gets another."""
        draining: asyncio.Task[None] | None = None
        with suppress(Exception):  # the command was killed: another one will replace this endpoint
            while True:
                await asyncio.sleep(POLL_SECONDS)
                self._signals = await self._board.get.remote("signals") or 0
                if self._signals and draining is None:
                    draining = asyncio.create_task(drain(self._state, self._requests, lambda: self._signals > 1))


class RayEndpoint:
    """Replicas behind one address."""

    def __init__(self, ray: Any, settings: ServerSettings, options: Mapping[str, Any]) -> None:
        try:
            from ray import serve
        except ImportError:
            raise UsageError("Ray Serve is not installed: pip install 'sureenough[ray,serve]' on every node") from None
        logging.getLogger("ray.serve").setLevel(logging.ERROR)
        self._ray, self._serve = ray, serve
        self._settings, self._options = settings, dict(options)
        self._name = f"process {os.getpid()} on {socket.gethostname()}"
        self._signals = 0

    def run(self, ready: Callable[[], None]) -> None:
        """Serve until a signal, then let running requests finish."""
        self._claim_cluster()
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._count_signal)
        try:
            self._put_up()
            self._deploy()
            if not self._signals:
                ready()
            while not self._signals:
                time.sleep(POLL_SECONDS)
                self._put_up()
            self._drain()
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            for end in (self._serve.shutdown, lambda: self._ray.kill(self._board)):
                with suppress(Exception):  # it is gone, or the cluster is
                    end()

    def _count_signal(self, number: int, frame: object) -> None:
        self._signals += 1

    def _claim_cluster(self) -> None:
        """A cluster has one Ray Serve. What a command that was killed has left of it is removed."""
        here = self._ray.get_runtime_context().get_node_id()
        options = {"name": APPLICATION, "namespace": APPLICATION, "get_if_exists": True, "num_cpus": 0}
        self._board = on_node(self._ray, here, NoticeBoard, **options, max_restarts=-1, max_task_retries=-1).remote()
        owner = self._get(self._board.claim.remote(self._name))
        if owner != self._name:
            raise UsageError(f"the cluster already serves sureenough for {owner}: stop that command first")
        actors = {one["name"] for one in self._ray.util.list_named_actors(all_namespaces=True)}
        if "SERVE_CONTROLLER_ACTOR" in actors:
            others = sorted(self._serve.status().applications.keys() - {APPLICATION})
            if others:
                raise UsageError(
                    f"Ray Serve already serves {', '.join(others)} on this cluster, at an address of its own: stop it "
                    "with `serve shutdown`, or use another cluster"
                )
            self._serve.shutdown()

    def _put_up(self) -> None:
        """Tell the board everything, again and again: it forgets what it knew if it dies and is started again."""
        notices = {"owner": self._name, "settings": Parcel(self._settings), "signals": self._signals}
        self._get(self._board.put.remote(notices))

    def _get(self, result: Any) -> Any:
        try:
            return self._ray.get(result, timeout=LOST_SECONDS)
        except self._ray.exceptions.RayError as error:
            raise EngineUnavailable(f"the Ray cluster cannot be used: {first_line(error)}") from None

    def _deploy(self) -> None:
        """Start replicas; an error of the first that fails is reported instead of trying for ever."""
        limits = self._settings.limits
        options: dict[str, Any] = {
            "name": Replica.__name__,
            "max_ongoing_requests": limits.requests + SLACK,
            # Every request ends by then, so that one is never cut off when Ray Serve takes a replica away.
            "graceful_shutdown_timeout_s": limits.seconds + limits.grace,
            **self._options,
        }
        try:
            self._start_proxies(str(options.pop("proxy_location", "HeadOnly")))
            deployment = self._serve.deployment(self._serve.ingress()(Replica)).options(**options)
            target = self._serve.RunTarget(deployment.bind(), name=APPLICATION)
            self._serve.run_many([target], wait_for_applications_running=False)
        except Exception as error:  # Ray raises errors of many kinds
            raise UsageError(f"Ray Serve cannot run the application: {_last_line(str(error))}") from None
        end = time.monotonic() + START_SECONDS
        while not self._signals:
            status = self._serve.status().applications[APPLICATION]
            if status.status == "RUNNING":
                return
            if status.status == "DEPLOY_FAILED":
                raise UsageError(f"a replica cannot start: {_last_line(status.deployments[Replica.__name__].message)}")
            if time.monotonic() > end:
                raise EngineUnavailable(
                    f"no replica has started within {START_SECONDS:g} s: each needs a free CPU (`ray status`)"
                )
            time.sleep(POLL_SECONDS)

    def _start_proxies(self, location: str) -> None:
        http = {"host": self._settings.host, "port": self._settings.port}
        end = time.monotonic() + PORT_SECONDS
        while True:
            try:
                self._serve.start(proxy_location=location, http_options=http)
                return
            except self._ray.exceptions.RayError as error:
                self._serve.shutdown()
                if "Failed to bind" not in str(error) or time.monotonic() > end or self._signals:
                    raise
                time.sleep(POLL_SECONDS)

    def _drain(self) -> None:
        """Replicas end their requests; a second signal hurries them."""
        log.info("shutting down: running requests have %g s to finish", self._settings.limits.grace)
        end = time.monotonic() + self._settings.limits.grace + STOP_SECONDS
        with suppress(Exception):  # the cluster is gone
            self._put_up()
            self._serve.delete(APPLICATION, _blocking=False)
            while APPLICATION in self._serve.status().applications and time.monotonic() < end:
                self._put_up()
                time.sleep(POLL_SECONDS / 5)


def _last_line(text: str) -> str:
    """Of an error of Ray, whose first lines are frames."""
    line = (text.strip().splitlines() or [""])[-1]
    return redact(re.sub(r"^sureenough\.errors\.\w+: ", "", line))[:300]
