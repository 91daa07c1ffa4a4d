"""What all requests share: the upstream, the limits on how many there are at once, the counters, and the runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from sureenough.api import aask
from sureenough.drive.news import Observer
from sureenough.drive.texts import Winner
from sureenough.server.asked import Asked
from sureenough.server.counters import Counters
from sureenough.server.problem import Problem
from sureenough.server.replies import Result
from sureenough.server.settings import Settings
from sureenough.server.upstream import Upstream, reached

log: Final = logging.getLogger("sureenough.server")


class House:
    """One server."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.upstream: Upstream | None = None
        self.counters = Counters()
        self.busy = 0
        self.draining = False
        self.running: set[asyncio.Task[Result]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Reach the upstream for as long as the server runs."""
        if self.settings.showing:
            yield
            return
        async with reached(self.settings) as self.upstream:
            yield
            self.stop_runs()

    @property
    def asked(self) -> Upstream:
        """The upstream, once the server has started."""
        if self.upstream is None:
            raise Problem(503, "This server only shows runs that were kept.", code="showing_only")
        return self.upstream

    def enter(self) -> Callable[[], None]:
        """Take a place, and how to leave it; refused where there is none, or where the server is about to stop."""
        if self.draining:
            raise Problem(503, "The server is stopping.", code="stopping", headers={"Retry-After": "5"})
        if self.busy >= self.settings.limits.requests:
            self.counters.turned_away += 1
            raise Problem(
                429,
                f"The server is busy with {self.busy} requests, and takes no more at once.",
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )
        self.busy += 1
        left = False

        def leave() -> None:
            nonlocal left
            self.busy -= not left
            left = True

        return leave

    def run(self, asked: Asked, *observers: Observer) -> asyncio.Task[Result]:
        """Begin a run; cancelling the task closes every path and gives the vote so far.

        Its place is free as soon as it is over: a client that has its reply must find room for the next request.
        """
        leave = self.enter()
        if self.settings.log_requests:
            log.info("asked: %s", asked.prompt.text)
        task = asyncio.create_task(self._run(asked, observers), name="run")
        self.running.add(task)
        task.add_done_callback(self.running.discard)
        task.add_done_callback(lambda _: leave())
        return task

    async def _run(self, asked: Asked, observers: tuple[Observer, ...]) -> Result:
        texts = Winner()
        engine = self.asked.engine(asked.model, asked.sampling)
        out = await aask(asked.prompt, engine, asked.strategy, observers=(texts, *observers), **asked.options)
        self.counters.ended(out)
        out = replace(out, notes=tuple(self.asked.clean(note) for note in out.notes))
        return Result(out, texts.of(out.answer))

    def stop_runs(self) -> None:
        """Every run ends now, with the vote so far."""
        for task in list(self.running):
            task.cancel()
