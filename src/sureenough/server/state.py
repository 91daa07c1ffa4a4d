"""What all requests share: the upstream, the limits on how many there are at once, the counters, and the runs."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Final

from sureenough.api import aask
from sureenough.drivers.observers import Observer
from sureenough.drivers.transcripts import WinnerTranscript
from sureenough.server.errors import ApiError
from sureenough.server.metrics import ServerMetrics
from sureenough.server.replies import RunResult
from sureenough.server.schema import ConsensusRequest
from sureenough.server.settings import ServerSettings
from sureenough.server.upstream import Upstream, open_upstream

log: Final = logging.getLogger("sureenough.server")


class ServerState:
    """One server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.upstream: Upstream | None = None
        self.counters = ServerMetrics()
        self.busy = 0
        self.draining = False
        self.running: set[asyncio.Task[RunResult]] = set()

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Reach the upstream for as long as the server runs."""
        if self.settings.showing:
            yield
            return
        async with open_upstream(self.settings) as self.upstream:
            yield
            self.stop_runs()

    @property
    def asked(self) -> Upstream:
        """The upstream, once the server has started."""
        if self.upstream is None:
            raise ApiError(503, "This server only shows runs that were kept.", code="showing_only")
        return self.upstream

    def enter(self) -> Callable[[], None]:
        """Take a place, and how to leave it; refused where there is none, or where the server is about to stop."""
        if self.draining:
            raise ApiError(503, "The server is stopping.", code="stopping", headers={"Retry-After": "5"})
        if self.busy >= self.settings.limits.requests:
            self.counters.turned_away += 1
            raise ApiError(
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

    def run(self, asked: ConsensusRequest, *observers: Observer) -> asyncio.Task[RunResult]:
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

    async def _run(self, asked: ConsensusRequest, observers: tuple[Observer, ...]) -> RunResult:
        texts = WinnerTranscript()
        engine = self.asked.engine(asked.model, asked.sampling)
        out = await aask(asked.prompt, engine, asked.strategy, observers=(texts, *observers), **asked.options)
        self.counters.ended(out)
        out = replace(out, notes=tuple(self.asked.clean(note) for note in out.notes))
        return RunResult(out, texts.of(out.answer))

    def stop_runs(self) -> None:
        """Every run ends now, with the vote so far."""
        for task in list(self.running):
            task.cancel()
