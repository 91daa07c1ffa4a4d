"""What all requests of a server share: the upstream, the slots for requests, the metrics, and the runs in progress."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import replace
from typing import Final

from sureenough import answers
from sureenough.api import aask
from sureenough.core.events import Action, Ended
from sureenough.core.outcome import Outcome, Snapshot
from sureenough.core.stop_rules import betainc
from sureenough.drivers.observers import ObservedEvent, Observer, WinnerTranscript
from sureenough.engines.load_balancer import ServerLoad
from sureenough.json_text import mend
from sureenough.pools.learner import LearnerStates
from sureenough.server.metrics import ServerMetrics
from sureenough.server.replies import RunResult
from sureenough.server.requests import ConsensusRequest
from sureenough.server.responses import ApiError, api_error, cancel_once, shutting_down
from sureenough.server.settings import ServerSettings
from sureenough.server.structured import ToolJudge
from sureenough.server.upstream import Upstream, open_upstream
from sureenough.spec import render

LOGGED_QUESTION: Final = 2_000
"""Characters of a question that are logged."""
MOST_WINDOWS: Final = 1_000
"""Models whose windows are remembered: clients choose the names."""
COMPLETE: Final = ("settled", "budget")
"""Reasons of runs that chose their window from all the paths that should."""
log: Final = logging.getLogger("sureenough.server")


def _preload() -> None:
    """Import scipy and the judge now: at the first stop test they would hold up the event loop."""
    betainc(1.0, 1.0, 0.5)
    answers.same("1/2", "0.5")


class _StopOnDisagreement:
    """An observer that ends the run as soon as its paths call different tools."""

    def __init__(self, judge: ToolJudge) -> None:
        self._judge, self._run = judge, asyncio.current_task()

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        if isinstance(event, Ended) and self._judge.disagreement and self._run is not None:
            cancel_once(self._run)


class ServerState:
    """One server."""

    def __init__(self, settings: ServerSettings) -> None:
        self.settings = settings
        self.requests = 0  # that hold a slot
        self.runs: set[asyncio.Task[RunResult]] = set()
        self.shutting_down = False
        self.learned = LearnerStates(None if settings.state is None else settings.state / "learned.json")
        self._saving = asyncio.Lock()
        self.metrics = ServerMetrics(self)
        self._upstream: Upstream | None = None
        self.windows = {key.model: key.window for key in self.learned.known}  # once a run has chosen one

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Hold the upstream open for as long as the server runs."""
        if self.settings.view_only:
            yield
            return
        await asyncio.to_thread(_preload)
        async with open_upstream(self.settings) as self._upstream:
            yield
            self.stop_runs()

    @property
    def upstream(self) -> Upstream:
        """The upstream; a server that only shows kept runs has none."""
        if self._upstream is None:
            raise ApiError(503, "This server only shows runs that were kept.", code="view_only")
        return self._upstream

    @property
    def loads(self) -> Sequence[ServerLoad]:
        """What each server of the upstream does."""
        return () if self._upstream is None else self._upstream.loads

    def error_response(self, error: BaseException, model: str = "") -> ApiError:
        """The response for an error, without the upstream's address and secrets."""
        response = api_error(error, model)
        if response.status == 500 and not isinstance(error, ApiError):
            log.error("a request failed", exc_info=error)
        if self._upstream is not None:
            response.message = self._upstream.redact(response.message)
        return response

    def slot(self) -> ExitStack:
        """One of the slots for requests, held until the context ends or it is closed, whichever comes first."""
        if self.shutting_down:
            raise shutting_down()
        if self.requests >= self.settings.limits.requests:
            self.metrics.rejected.inc()
            raise ApiError(
                429,
                f"The server is already handling {self.requests} requests, its limit; try again later.",
                code="rate_limit_exceeded",
                headers={"Retry-After": "1"},
            )
        self.requests += 1
        slot = ExitStack()
        slot.callback(self._release)
        return slot

    def _release(self) -> None:
        self.requests -= 1

    def start_run(self, request: ConsensusRequest, slot: ExitStack, *observers: Observer) -> asyncio.Task[RunResult]:
        """Start a run; cancelling the task closes every path and gives the vote so far.

        The slot is free as soon as the run ends: a client that has its response must find one for the next request.
        """
        if self.settings.log_requests:
            log.info("question: %r", request.question[:LOGGED_QUESTION])
        task = asyncio.create_task(self._run(request, observers), name="run")
        self.runs.add(task)
        task.add_done_callback(self.runs.discard)
        task.add_done_callback(lambda _: slot.close())
        return task

    async def _run(self, request: ConsensusRequest, observers: tuple[Observer, ...]) -> RunResult:
        upstream, spec, judge = self.upstream, render(request.strategy), request.structured
        window = request.options["window"] or self.windows.get(request.model)
        transcript = WinnerTranscript()
        if isinstance(judge, ToolJudge):
            observers = (*observers, _StopOnDisagreement(judge))
        out = await aask(
            request.prompt, upstream.engine(request.model, request.sampling), request.strategy,
            observers=(transcript, *observers), learn=self.learned.state(request.model, window, spec),
            **request.options | {"window": window},
        )  # fmt: skip
        self.metrics.count_run(out)
        notes = [*upstream.notes(request.model, request.question), *map(upstream.redact, out.notes)]
        if request.strategy.reads_confidence:
            self.learned.receive(request.model, spec, out)
            async with self._saving:
                notes += await asyncio.to_thread(self.learned.save)
            self._keep_window(request, out)
        if isinstance(judge, ToolJudge):
            judge.refuse_disagreement()
        winner = transcript.of(out.answer)
        winner = None if winner is None else winner._replace(text=mend(winner.text))
        return RunResult(replace(out, notes=tuple(notes)), winner)

    def _keep_window(self, request: ConsensusRequest, out: Outcome) -> None:
        """One window per model, so that its runs can be compared: the first that paths of full length have chosen."""
        full_length = request.path_tokens in (None, self.settings.limits.path_tokens)
        if out.window_paths and full_length and out.reason in COMPLETE:
            if len(self.windows) >= MOST_WINDOWS:
                self.windows.clear()
            self.windows.setdefault(request.model, out.window)

    def stop_runs(self) -> None:
        """End every run with the vote so far."""
        for task in list(self.runs):
            cancel_once(task)
