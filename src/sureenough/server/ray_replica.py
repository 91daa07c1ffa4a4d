"""What runs on the nodes of a Ray cluster for `serve --ray`: replicas of the application, and what they share.

Ray stores the arguments of a deployment, so a replica has none: it receives its settings, which may hold keys, from
the actor with the shared state, as the result of a method.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any, Final, NamedTuple

from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough.core.learning import LearnerState
from sureenough.errors import SureEnoughError
from sureenough.pools.learner import Learner, LearnerKey, LearnerReplica
from sureenough.server.app import create
from sureenough.server.learned import LEARNED_FILE
from sureenough.server.lifespan import drain, raise_file_limit
from sureenough.server.settings import ServerSettings
from sureenough.server.state import MOST_WINDOWS

APPLICATION: Final = "sureenough"
"""The name of the application in Ray Serve, of its shared actor and of that actor's namespace."""
EXCHANGE_SECONDS: Final = 1.0
"""Between two exchanges of what was learned."""


class Learned(NamedTuple):
    """What all replicas know of the models."""

    states: dict[LearnerKey, LearnerState]
    windows: dict[str, int]


class ReplicaSettings:
    """What a replica needs to start. It does not show keys."""

    def __init__(self, settings: ServerSettings, variables: Mapping[str, str]) -> None:
        self.settings, self.variables = settings, dict(variables)

    def __repr__(self) -> str:
        return "ReplicaSettings(…)"


class SharedState:
    """The actor: settings, what was learned, and whether the endpoint shuts down."""

    def __init__(self) -> None:
        self._replicas: ReplicaSettings | None = None
        self._learner = Learner()
        self._windows: dict[str, int] = {}
        self._signals = 0
        self._signalled = asyncio.Condition()
        self._owner, self._heard_at = "", 0.0
        self._error = ""

    async def open(self, owner: str, replicas: ReplicaSettings, folder: Any, learned: Learned) -> tuple[str, ...]:
        """Receive the settings, and what is known if an earlier actor died; notes on the file in `--state`'s folder."""
        self._owner, self._heard_at = owner, time.monotonic()
        self._replicas = replicas
        self._learner = Learner(None if folder is None else folder / LEARNED_FILE)
        if folder is None:
            self._learner.merge(learned.states)
        self._windows = learned.windows
        return self._learner.notes

    async def owner(self) -> tuple[str, float]:
        """The command that keeps the endpoint, and the seconds since it was last heard of."""
        return self._owner, time.monotonic() - self._heard_at

    async def beat(self) -> tuple[Learned, str]:
        """The command is alive; what was learned, and why a replica did not start."""
        self._heard_at = time.monotonic()
        return Learned(self._learner.known(), self._windows), self._error

    async def settings(self) -> ReplicaSettings | None:
        return self._replicas

    async def report(self, error: str) -> None:
        """A replica could not start."""
        self._error = error

    async def exchange(self, gained: dict[LearnerKey, LearnerState], windows: dict[str, int]) -> Learned:
        """Add what a replica has learned; what all know. The first window of a model is that of all."""
        together = windows | self._windows
        self._windows = together if len(together) <= MOST_WINDOWS else windows
        if gained:
            self._learner.merge(gained)
            with suppress(OSError):  # the next exchange tries again
                await asyncio.to_thread(self._learner.save)
        return Learned(self._learner.known(), self._windows)

    async def signal(self) -> None:
        """Shut down; a second time: at once."""
        async with self._signalled:
            self._signals += 1
            self._signalled.notify_all()

    async def signals(self, seen: int) -> int:
        """The number of signals, once there are more than those seen."""
        async with self._signalled:
            await self._signalled.wait_for(lambda: self._signals > seen)
            return self._signals


class Replica:
    """The application in a replica of Ray Serve, which calls it as ASGI."""

    async def __init__(self) -> None:  # type: ignore[misc]  # Ray Serve awaits it
        replicas = await _shared().settings.remote()
        os.environ.update(replicas.variables)
        settings, limits = replace(replicas.settings, replica=_own_name()), replicas.settings.limits
        raise_file_limit(limits.requests * (limits.parallel + 2) + limits.idle + 256)
        self._learner = LearnerReplica()
        self._app, self._state = create(settings, self._learner)
        self._requests: set[asyncio.Task[Any]] = set()
        self._signals = 0

    def __serve_build_asgi_app__(self) -> ASGIApp:
        """Ray Serve calls this after the constructor."""

        async def app(scope: Scope, receive: Receive, send: Send) -> None:  # uvicorn would take a method for ASGI 2
            await self._call(scope, receive, send)

        return app

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        task = asyncio.current_task()
        assert task is not None
        self._requests.add(task)
        try:
            await self._app(scope, receive, send)
        finally:
            self._requests.discard(task)

    async def _live(self, receive: Receive, send: Send) -> None:
        """From the start of the replica to its end."""
        await receive()
        try:
            async with self._state.opened():
                await send({"type": "lifespan.startup.complete"})
                following = [asyncio.create_task(self._learn_together()), asyncio.create_task(self._obey())]
                await receive()
                for task in following:
                    task.cancel()
                await self._exchange()
        except SureEnoughError as error:
            with suppress(Exception):
                await _shared().report.remote(str(error))
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.shutdown.complete"})

    async def _learn_together(self) -> None:
        while True:
            await self._exchange()
            await asyncio.sleep(EXCHANGE_SECONDS)

    async def _exchange(self) -> None:
        gained = self._learner.take_gained()
        try:
            learned = await _shared().exchange.remote(gained, self._state.windows)
        except Exception:  # Ray raises errors of many kinds; the command starts the actor again
            self._learner.put_back(gained)
            return
        self._learner.replace(learned.states)
        self._state.windows = self._state.windows | learned.windows

    async def _obey(self) -> None:
        """Shut down when the command does; at once after its second signal."""
        draining: asyncio.Task[None] | None = None
        while True:
            try:
                self._signals = await _shared().signals.remote(self._signals)
            except Exception:  # as above
                await asyncio.sleep(EXCHANGE_SECONDS)
                continue
            draining = draining or asyncio.create_task(drain(self._state, self._requests, lambda: self._signals > 1))


def _own_name() -> str:
    from ray import serve

    return str(serve.get_replica_context().replica_tag)


def _shared() -> Any:
    """The actor, by its name: it may have been started again."""
    import ray

    return ray.get_actor(APPLICATION, namespace=APPLICATION)
