"""`serve --ray`: the application as a deployment of Ray Serve, for as long as the command runs."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final

from sureenough.drivers.blocking import in_daemon_thread
from sureenough.drivers.ray_cluster import LOST_SECONDS, RayCluster
from sureenough.drivers.ray_runner import carried_variables
from sureenough.errors import EngineUnavailable, UsageError
from sureenough.redact import first_line, redact
from sureenough.server.ray_replica import APPLICATION, Learned, Replica, ReplicaSettings, SharedState
from sureenough.server.settings import ServerSettings

START_SECONDS: Final = 300.0
"""For the first replicas to start."""
PORT_SECONDS: Final = 90.0
BEAT_SECONDS: Final = 1.0
OWNER_SECONDS: Final = 10.0
"""After which a command that was not heard of counts as gone."""
STOP_SECONDS: Final = 30.0
"""Beyond the grace period, for replicas to end."""
SLACK: Final = 64
"""Requests at once beyond the limit, which the application refuses itself, with the status that says why."""
CONTROLLER: Final = "SERVE_CONTROLLER_ACTOR"
THREAD: Final = "sureenough-ray"
log: Final = logging.getLogger("sureenough.server")


def import_serve() -> Any:
    try:
        from ray import serve
    except ImportError:
        raise UsageError("Ray Serve is not installed: pip install 'sureenough[ray,serve]' on every node") from None
    logging.getLogger("ray.serve").setLevel(logging.ERROR)
    return serve


class RayEndpoint:
    """Replicas behind one address, and the actor that they share."""

    def __init__(self, cluster: RayCluster, settings: ServerSettings, options: Mapping[str, Any]) -> None:
        self._ray, self._serve = cluster.ray, import_serve()
        self._folder, self._settings = settings.state, replace(settings, state=None)
        self._options = dict(options)
        self._proxies = str(self._options.pop("proxy_location", "HeadOnly"))
        self._shared: Any = None
        self._learned = Learned({}, {})
        self._signals = 0

    async def run(self, ready: Callable[[], None]) -> None:
        """Serve until a signal, then let running requests finish."""
        await asyncio.to_thread(self._refuse_another)
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, self._count_signal)
        try:
            await self._share()
        except UsageError as error:  # what the actor raised: its file cannot be read
            self._ray.kill(self._shared)
            raise UsageError(_last_line(str(error)).removeprefix("sureenough.errors.UsageError: ")) from None
        except ValueError:  # its name is in use: another command was faster
            raise UsageError("another command begins to serve on this cluster: stop one of them") from None
        try:
            await self._deploy()
            if not self._signals:
                ready()
            await self._keep()
            await self._drain()
        finally:
            await in_daemon_thread(self._clean_up, THREAD)

    def _count_signal(self) -> None:
        self._signals += 1

    def _refuse_another(self) -> None:
        """A cluster has one Ray Serve. What a command that was killed has left is removed."""
        names = {one["name"] for one in self._ray.util.list_named_actors(all_namespaces=True)}
        is_running = CONTROLLER in names
        others = sorted(set(self._serve.status().applications) - {APPLICATION}) if is_running else []
        if others:
            raise UsageError(
                f"Ray Serve already serves {', '.join(others)} on this cluster, at an address of its own: stop it with "
                "`serve shutdown`, or use another cluster"
            )
        self._refuse_live_owner()
        if is_running:
            self._serve.shutdown()

    def _refuse_live_owner(self) -> None:
        """Refuse to replace the endpoint of a command that lives; end the actor of one that is gone."""
        try:
            actor = self._ray.get_actor(APPLICATION, namespace=APPLICATION)
        except ValueError:  # there is none
            return
        with suppress(self._ray.exceptions.RayError):
            owner, silence = self._ray.get(actor.owner.remote(), timeout=60)
            while silence < OWNER_SECONDS:
                time.sleep(BEAT_SECONDS)
                before = silence
                _, silence = self._ray.get(actor.owner.remote(), timeout=60)
                if silence < before:
                    raise UsageError(f"the cluster already serves sureenough for {owner}: stop that command first")
        self._ray.kill(actor)

    async def _share(self) -> None:
        """Start the actor, on this node; also if it died."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        place = NodeAffinitySchedulingStrategy(self._ray.get_runtime_context().get_node_id(), soft=False)
        self._shared = self._ray.remote(SharedState).options(
            name=APPLICATION, namespace=APPLICATION, lifetime="detached", num_cpus=0, max_concurrency=10_000,
            scheduling_strategy=place,
        ).remote()  # fmt: skip
        owner = f"process {os.getpid()} on {socket.gethostname()}"
        settings = ReplicaSettings(self._settings, carried_variables())
        for note in await self._shared.open.remote(owner, settings, self._folder, self._learned):
            log.warning("%s", note)

    async def _deploy(self) -> None:
        """Start replicas; an error of the first that fails is reported instead of trying for ever."""
        deploying = in_daemon_thread(self._run_application, THREAD)
        loop = asyncio.get_running_loop()
        end = loop.time() + START_SECONDS
        while not deploying.done() and not self._signals:
            await asyncio.wait([deploying], timeout=BEAT_SECONDS)
            self._learned, error = await self._shared.beat.remote()
            if error:
                raise UsageError(f"a replica cannot start: {error}")
            if loop.time() > end:
                raise EngineUnavailable(
                    f"no replica has started within {START_SECONDS:g} s: each needs a free CPU (`ray status`)"
                )
        if deploying.done():
            try:
                deploying.result()
            except Exception as error:  # Ray raises errors of many kinds
                reason = _last_line(str(error)) + await asyncio.to_thread(self._reason)
                raise UsageError(f"Ray Serve cannot run the application: {reason}") from None

    def _reason(self) -> str:
        """The last line of what Ray Serve says about the replicas."""
        with suppress(Exception):
            deployments = self._serve.status().applications[APPLICATION].deployments
            return f" ({_last_line(deployments[Replica.__name__].message)})"
        return ""

    def _run_application(self) -> None:
        settings = self._settings
        http = {"host": settings.host, "port": settings.port}
        options: dict[str, Any] = {
            "num_replicas": 1,
            "max_ongoing_requests": settings.limits.requests + SLACK,
            # Every request ends by then, so that one is never cut off when Ray Serve takes a replica away.
            "graceful_shutdown_timeout_s": settings.limits.seconds + settings.limits.grace,
        }
        if "autoscaling_config" in self._options:
            del options["num_replicas"]
        self._start_proxies(http)
        deployment = self._serve.deployment(self._serve.ingress()(Replica)).options(
            **options | {"name": Replica.__name__} | self._options
        )
        self._serve.run(deployment.bind(), name=APPLICATION, route_prefix="/")

    def _start_proxies(self, http: dict[str, Any]) -> None:
        """Start Ray Serve; for a minute the system may hold a port whose last connections have just been closed."""
        end = time.monotonic() + PORT_SECONDS
        while True:
            try:
                self._serve.start(proxy_location=self._proxies, http_options=http)
                return
            except self._ray.exceptions.RayError as error:
                self._serve.shutdown()
                if "Failed to bind" not in str(error) or time.monotonic() > end or self._signals:
                    raise
                time.sleep(BEAT_SECONDS)

    async def _keep(self) -> None:
        """Until a signal: tell the actor that this command lives, and start it again if it died."""
        loop = asyncio.get_running_loop()
        heard_at = loop.time()
        while not self._signals:
            try:
                self._learned, _ = await asyncio.wait_for(self._shared.beat.remote(), LOST_SECONDS)
                heard_at = loop.time()
                await asyncio.sleep(BEAT_SECONDS)
            except Exception as error:  # Ray raises errors of many kinds
                if loop.time() - heard_at > LOST_SECONDS:
                    raise EngineUnavailable(f"the Ray cluster cannot be used: {first_line(error)}") from None
                await asyncio.sleep(BEAT_SECONDS)
                with suppress(Exception):
                    await self._share()

    async def _drain(self) -> None:
        """Replicas end their requests; a second signal hurries them."""
        loop = asyncio.get_running_loop()
        end = loop.time() + self._settings.limits.grace + STOP_SECONDS
        log.info("shutting down: running requests have %g s to finish", self._settings.limits.grace)
        with suppress(Exception):
            await self._shared.signal.remote()
        deleting = in_daemon_thread(lambda: self._serve.delete(APPLICATION), THREAD)
        hurried = False
        while not deleting.done() and loop.time() < end:
            await asyncio.wait([deleting], timeout=0.1)
            with suppress(Exception):
                await self._shared.beat.remote()  # no other command may take over yet
            if self._signals > 1 and not hurried:
                hurried = True
                with suppress(Exception):
                    await self._shared.signal.remote()

    def _clean_up(self) -> None:
        """Nothing of the application is left, and nothing of Ray Serve, which this command started."""
        with suppress(Exception):
            self._serve.shutdown()
        with suppress(Exception):
            self._ray.kill(self._shared)


def _last_line(text: str) -> str:
    """Of an error of Ray, whose first lines are frames."""
    return redact((text.strip().splitlines() or [""])[-1])[:300]
