"""Runs in progress that pages watch. A run that no page watches any more is stopped and forgotten."""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Final

from sureenough.drivers.observers import Observer
from sureenough.server.errors import shutting_down
from sureenough.server.kept_runs import KeptRuns
from sureenough.server.replies import RunResult, consensus_details
from sureenough.server.request_reader import ConsensusRequest
from sureenough.server.responses import cancel_once
from sureenough.server.run_view import RunView, ViewCursor
from sureenough.server.state import ServerState

RECONNECT: Final = 15.0
"""Seconds that a run waits for its page to come back, as after a reload."""
log: Final = logging.getLogger("sureenough.server")


class WatchedRun:
    """A run that pages can watch."""

    def __init__(self, request: ConsensusRequest, question: str) -> None:
        self.id = secrets.token_urlsafe(24)
        self.begun = time.time()
        self.request, self.question = request, question
        self.view = RunView()
        self.watchers = 0
        self.task: asyncio.Task[RunResult] | None = None
        self.error: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.ended = asyncio.Event()

    def head(self) -> dict[str, Any]:
        """What the run is, without its progress."""
        strategy = self.result["strategy"] if self.result else self.request.strategy.name
        return {"id": self.id, "question": self.question, "model": self.request.model, "strategy": strategy,
                "begun": self.begun, "measure": self.request.strategy.stop.quantity}  # fmt: skip

    def changes(self, cursor: ViewCursor, first: bool) -> dict[str, Any]:
        """What a reader has not received yet."""
        ended = self.ended.is_set()  # before the rest: what happens after it is part of the changes already
        changes = self.view.changes(cursor)
        if first:
            changes["run"] = self.head()
        if ended:
            changes |= {"over": self.result} if self.result is not None else {"error": self.error}
        return changes

    def to_json(self) -> dict[str, Any]:
        """The whole run, as it is kept; description and result come first, so that a list need not read the rest."""
        words = {number: self.view.path(number) for number in self.view.lines}
        head = {"schema": 1, "run": self.head(), "over": self.result}
        return {**head, **self.changes(ViewCursor(), first=False), "words": words}

    def stop(self) -> None:
        """End the run with the vote so far."""
        if self.task is not None:
            cancel_once(self.task)


class RunRegistry:
    """The runs that pages watch, by ids that cannot be guessed, and those that were kept."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.kept = KeptRuns(state.settings.keep_runs)
        self.live: dict[str, WatchedRun] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start_for_client(
        self, request: ConsensusRequest, slot: ExitStack, observer: Observer
    ) -> asyncio.Task[RunResult]:
        """Start a run for a client. Its view is recorded only if runs are kept."""
        if self.kept.folder is None:
            return self.state.start_run(request, slot, observer)
        run = WatchedRun(request, request.question)
        run.task = self.state.start_run(request, slot, observer, run.view)
        self._record(run)
        return run.task

    def start_for_page(self, request: ConsensusRequest, slot: ExitStack, question: str) -> WatchedRun:
        """Start a run for a page; it holds the slot until it ends."""
        run = WatchedRun(request, question)
        run.task = self.state.start_run(request, slot, run.view)
        self.live[run.id] = run
        self._forget_later(run)
        self._record(run)
        return run

    def _record(self, run: WatchedRun) -> None:
        task = asyncio.create_task(self._record_end(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record_end(self, run: WatchedRun) -> None:
        """Store the run's result or error; pages that watch it must see an end in every case."""
        assert run.task is not None
        await asyncio.wait({run.task})
        try:
            run.result = consensus_details(run.task.result())
        except asyncio.CancelledError:
            run.error = shutting_down().to_json()
        except Exception as error:
            run.error = self.state.error_response(error, run.request.model).to_json()
        run.ended.set()
        if self.kept.folder is not None and run.result is not None:
            try:
                await asyncio.to_thread(lambda: self.kept.save(run.to_json()))
            except OSError as error:
                log.error("a run could not be kept in %s: %s", self.kept.folder, error.strerror or error)

    @contextmanager
    def watched(self, run: WatchedRun) -> Iterator[None]:
        """While a page watches the run, it is not forgotten."""
        run.watchers += 1
        timer = self._timers.pop(run.id, None)
        if timer is not None:
            timer.cancel()
        try:
            yield
        finally:
            run.watchers -= 1
            if run.watchers == 0:
                self._forget_later(run)

    def _forget_later(self, run: WatchedRun) -> None:
        self._timers[run.id] = asyncio.get_running_loop().call_later(RECONNECT, self._forget, run)

    def _forget(self, run: WatchedRun) -> None:
        self.live.pop(run.id, None)
        self._timers.pop(run.id, None)
        run.stop()

    async def find(self, name: str) -> WatchedRun | dict[str, Any]:
        """A run in progress, or one that was kept, which may be large and is read in a thread."""
        live = self.live.get(name)
        return live if live is not None else await asyncio.to_thread(self.kept.find, name)
