"""Runs for clients and for pages, from the first path to the last byte: as one reply, as a stream, as a page's events.

A client that disconnects cancels every path. The head of a streamed response is held back until a path or a branch of
a search has begun, or the run has ended, so that an error at the start gets its own status. A run that pages watch ends
when no page watches it any more.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.core.events import Action, Extended, Fate, Sampled, Tokens
from sureenough.core.outcome import Snapshot
from sureenough.drivers.judging import classes_or_own
from sureenough.drivers.observers import ObservedEvent, Observer, PathReport
from sureenough.drivers.run_log import INTERVAL, PathTokens, RunLogWriter
from sureenough.server.kept_runs import KeptRun, KeptRuns
from sureenough.server.replies import ReplyWriter, RunResult
from sureenough.server.requests import ConsensusRequest
from sureenough.server.responses import (
    EventStream,
    cancel,
    cancel_once,
    json_response,
    shutting_down,
    sse_comment,
    sse_event,
    until_disconnected,
)
from sureenough.server.state import ServerState
from sureenough.spec import render

HELD_HEAD: Final = 10.0
"""The most seconds for which the head of a streamed response is held back."""
PROGRESS: Final = 0.5
"""Seconds between progress lines."""
KEEP_ALIVE: Final = 15.0
"""Seconds after which a line is sent even if nothing has changed, so that proxies keep the connection."""
RECONNECT: Final = 15.0
"""Seconds that a run waits for its page to come back, as after a reload."""
log: Final = logging.getLogger("sureenough.server")


class Run:
    """A run in progress, of which pages can read what its log holds so far."""

    task: asyncio.Task[RunResult]
    _forgetting: asyncio.TimerHandle

    def __init__(self, request: ConsensusRequest, runs: Runs) -> None:
        self.id = secrets.token_urlsafe(24)
        self.model, self._runs = request.model, runs
        self.judge: Judge = request.options["kind"]
        notes = runs.state.upstream.notes(request.model, request.question)
        self.log = RunLogWriter(
            {"id": self.id, "question": request.question, "model": request.model,
             "strategy": render(request.strategy), "begun": time.time(), "notes": list(notes)}
        )  # fmt: skip
        self._watchers = 0

    def stop(self) -> None:
        """End the run with the vote so far."""
        cancel_once(self.task)

    async def answer(self) -> str | None:
        return (self.log.view.result or {}).get("answer")

    async def text(self, number: int) -> PathTokens | None:
        """The text of one path so far; None if it has none."""
        return self.log.text(number)

    async def events(self) -> AsyncGenerator[bytes]:
        """The log so far, then each new line; it is not forgotten meanwhile, though the run may have ended."""
        sent, at = 0, time.monotonic()
        self._watchers += 1
        self._forgetting.cancel()
        try:
            while not self._runs.state.shutting_down:
                self.log.update()
                lines = self.log.lines[sent:]
                if lines or time.monotonic() - at > KEEP_ALIVE:
                    yield b"".join(map(sse_event, lines)) or sse_comment("keep-alive")
                    sent, at = sent + len(lines), time.monotonic()
                await asyncio.sleep(INTERVAL)
        finally:
            self._watchers -= 1
            if not self._watchers:
                self.forget_later()

    def forget_later(self) -> None:
        """Stop and forget it unless a page watches it soon."""
        self._forgetting = asyncio.get_running_loop().call_later(RECONNECT, self._forget)

    def _forget(self) -> None:
        self._runs.live.pop(self.id, None)
        self.stop()


class Runs:
    """The runs that pages watch, by ids that cannot be guessed, and those that were kept."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.kept = KeptRuns(state.settings.keep_runs)
        self.live: dict[str, Run] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, request: ConsensusRequest, slot: ExitStack, *observers: Observer, watched: bool = False) -> Run:
        """Start a run, which holds the slot until it ends. Its log is written if it is watched or kept."""
        run = Run(request, self)
        if watched or self.kept.folder is not None:
            run.task = self.state.start_run(request, slot, *observers, run.log)
            task = asyncio.create_task(self._record_end(run))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        else:
            run.task = self.state.start_run(request, slot, *observers)
        if watched:
            self.live[run.id] = run
            run.forget_later()
        return run

    async def _record_end(self, run: Run) -> None:
        """Log the run's result or error; pages that watch it must see an end in every case."""
        await asyncio.wait({run.task})
        try:
            run.log.end(run.task.result().outcome)
        except asyncio.CancelledError:
            run.log.end(None, shutting_down().to_json())
        except Exception as error:
            run.log.end(None, self.state.error_response(error, run.model).to_json())
        if self.kept.folder is not None and run.log.view.result is not None:
            try:
                await asyncio.to_thread(self.kept.save, run.id, run.log)
            except OSError as error:
                log.error("a run could not be kept in %s: %s", self.kept.folder, error.strerror or error)

    async def find(self, name: str) -> Run | KeptRun:
        """A run in progress, or one that was kept."""
        return self.live[name] if name in self.live else await asyncio.to_thread(self.kept.find, name)

    async def agree(self, first: str, second: str) -> bool | None:
        """Whether two runs have the same answer, by the judge of the first; None if one of them has none (yet)."""
        runs = [await self.find(name) for name in (first, second)]
        one, other = [await run.answer() for run in runs]
        if one is None or other is None:
            return None
        judge = for_question(runs[0].judge or resolve_kind(self.state.settings.kind))
        classes, _ = await asyncio.to_thread(classes_or_own, judge, [one, other])
        return classes[one] == classes[other]


class ProgressLine:
    """A run's progress as one line: an observer that computes it only on request."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._snapshot: Snapshot | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if isinstance(event, Tokens | PathReport | Sampled | Extended):
            self.begun.set()

    def line(self) -> str:
        """Paths, tokens, the leader and the stop rule's measure."""
        snapshot = self._snapshot
        if snapshot is None:
            return "nothing yet"
        ended = sum(path.fate is not None for path in snapshot.paths)
        pruned = sum(path.fate is Fate.PRUNED for path in snapshot.paths)
        line = f"{len(snapshot.paths)} of {snapshot.budget} paths, {ended} ended, {pruned} pruned"
        line += f", {snapshot.generated:,} tokens"
        votes = snapshot.votes.weights
        if votes:
            leader, weight = next(iter(votes.items()))
            line += f"; leading: {leader[:60]} ({weight / (sum(votes.values()) or 1.0):.0%})"
        measured = snapshot.votes.verdict.measured()
        return line if measured is None else f"{line}; {measured}"


class ConsensusResponse:
    """An ASGI application for one request."""

    def __init__(self, runs: Runs, request: ConsensusRequest, slot: ExitStack) -> None:
        self.runs, self.state, self.request, self.slot = runs, runs.state, request, slot
        self.reply, self.progress = ReplyWriter(request), ProgressLine()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = self.runs.start(self.request, self.slot, self.progress).task
        try:
            if self.request.stream:
                await EventStream(self._events(run))(scope, receive, send)
            else:
                await until_disconnected(receive, self._whole(run, scope, receive, send))
        finally:
            await cancel(run)

    async def _whole(self, run: asyncio.Task[RunResult], scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.wait({run})
        await json_response(self.reply.whole(self._result(run)))(scope, receive, send)

    async def _events(self, run: asyncio.Task[RunResult]) -> AsyncGenerator[bytes]:
        run.add_done_callback(lambda _: self.progress.begun.set())
        with suppress(TimeoutError):
            await asyncio.wait_for(self.progress.begun.wait(), HELD_HEAD)
        if run.done():
            self._result(run)  # an error now gets its own status
        yield self.reply.opening()
        last, sent = "", time.monotonic()
        while not run.done():
            line = self.progress.line()
            if line != last or time.monotonic() - sent > KEEP_ALIVE:
                yield self.reply.progress(line)
                last, sent = line, time.monotonic()
            await asyncio.wait({run}, timeout=PROGRESS)
        try:
            parts = list(self.reply.closing(self._result(run)))
        except Exception as error:
            parts = [sse_event(self.state.error_response(error, self.request.model).body())]
        for part in parts:
            yield part

    def _result(self, run: asyncio.Task[RunResult]) -> RunResult:
        if run.cancelled():
            raise shutting_down()
        error = run.exception()
        if error is not None:
            raise self.state.error_response(error, self.request.model) from error
        return run.result()
