"""A request for a consensus, from its first path to its last byte. A client that disconnects cancels every path.

The head of a streamed response is held back until a path or a branch of a search has begun, or the run has ended,
so that an error at the start gets its own status.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Final

from starlette.types import Receive, Scope, Send

from sureenough.core.events import Action, Extended, Fate, Sampled, Tokens
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText
from sureenough.server.replies import ReplyWriter, RunResult
from sureenough.server.requests import ConsensusRequest
from sureenough.server.responses import (
    SSE_HEADERS,
    body,
    cancel,
    finish_unless_disconnected,
    json_response,
    shutting_down,
    sse_event,
    start,
)
from sureenough.server.runs import RunRegistry

HELD_HEAD: Final = 10.0
"""The most seconds for which the head of a streamed response is held back."""
PROGRESS: Final = 0.5
"""Seconds between progress lines."""
KEEP_ALIVE: Final = 15.0
"""Seconds after which a line is sent even if nothing has changed, so that proxies keep the connection."""


class ProgressLine:
    """A run's progress as one line: an observer that computes it only on request."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._snapshot: Snapshot | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        if isinstance(event, Tokens | PathText | Sampled | Extended):
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
        measured = snapshot.measured()
        return line if measured is None else f"{line}; {measured}"


class ConsensusResponse:
    """An ASGI application for one request."""

    def __init__(self, runs: RunRegistry, request: ConsensusRequest, slot: ExitStack) -> None:
        self.runs, self.state, self.request, self.slot = runs, runs.state, request, slot
        self.reply, self.progress = ReplyWriter(request), ProgressLine()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        run = self.runs.start_for_client(self.request, self.slot, self.progress)
        respond = self._stream(run, send) if self.request.stream else self._whole(run, scope, receive, send)
        try:
            if not await finish_unless_disconnected(receive, respond):
                self.state.metrics.disconnects.inc()
        finally:
            await cancel(run)

    async def _whole(self, run: asyncio.Task[RunResult], scope: Scope, receive: Receive, send: Send) -> None:
        await asyncio.wait({run})
        await json_response(self.reply.whole(self._result(run)))(scope, receive, send)

    async def _stream(self, run: asyncio.Task[RunResult], send: Send) -> None:
        run.add_done_callback(lambda _: self.progress.begun.set())
        with suppress(TimeoutError):
            async with asyncio.timeout(HELD_HEAD):
                await self.progress.begun.wait()
        if run.done():
            self._result(run)  # an error now gets its own status
        await send(start(200, SSE_HEADERS))
        await self._send_part(send, self.reply.opening())
        await self._send_progress(run, send)
        try:
            parts = list(self.reply.closing(self._result(run)))
        except Exception as error:
            parts = [sse_event(self.state.error_response(error, self.request.model).body())]
        for part in parts:
            await self._send_part(send, part)
        await send(body())

    def _result(self, run: asyncio.Task[RunResult]) -> RunResult:
        if run.cancelled():
            raise shutting_down()
        error = run.exception()
        if error is not None:
            raise self.state.error_response(error, self.request.model) from error
        return run.result()

    async def _send_progress(self, run: asyncio.Task[RunResult], send: Send) -> None:
        """A line on the run's progress whenever it has changed, until the run ends."""
        last, sent = "", time.monotonic()
        while not run.done():
            line = self.progress.line()
            if line != last or time.monotonic() - sent > KEEP_ALIVE:
                await self._send_part(send, self.reply.progress(line))
                last, sent = line, time.monotonic()
            await asyncio.wait({run}, timeout=PROGRESS)

    async def _send_part(self, send: Send, part: bytes) -> None:
        if part:
            await send(body(part, more=True))
