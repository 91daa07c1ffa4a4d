"""One request for a consensus, from its first path to its last byte. A client that leaves cancels every path.

The head of a streamed reply is held back until a path has begun or the run is over, so that what fails at once fails
with its own status.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any, Final

from starlette.types import Message, Receive, Scope, Send

from sureenough.core.events import Action, Fate, Tokens
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent, PathText
from sureenough.server.errors import api_error
from sureenough.server.replies import ReplyWriter, RunResult, encode
from sureenough.server.runs import RunRegistry
from sureenough.server.schema import ConsensusRequest

HOLD: Final = 10.0
"""Seconds for which a streamed reply's head is held back at most."""
BEAT: Final = 0.5
"""Seconds between looks at how things stand."""
QUIET: Final = 15.0
"""Seconds of silence after which something is sent all the same, so that nobody in between hangs up."""


class StreamState:
    """How a run stands, in a line: an observer that works nothing out until it is asked."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self._snapshot: Snapshot | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """An observer."""
        self._snapshot = snapshot
        if isinstance(event, Tokens | PathText):
            self.begun.set()

    def line(self) -> str:
        """Paths, tokens, the leader and how near the vote is to being settled."""
        snapshot = self._snapshot
        if snapshot is None:
            return "nothing yet"
        made = snapshot.generated
        ended = sum(path.fate is not None for path in snapshot.paths)
        pruned = sum(path.fate is Fate.PRUNED for path in snapshot.paths)
        said = f"{len(snapshot.paths)} of {snapshot.budget} paths, {ended} ended, {pruned} pruned, {made:,} tokens"
        votes = snapshot.votes.weights
        if votes:
            leader, weight = next(iter(votes.items()))
            said += f"; leading: {leader[:60]} ({weight / (sum(votes.values()) or 1.0):.0%})"
        measured = snapshot.votes.measure
        return said if measured is None else f"{said}; stop rule at {measured:.4f}"


class ConsensusResponse:
    """An ASGI application for one request."""

    def __init__(self, runs: RunRegistry, asked: ConsensusRequest) -> None:
        self.runs, self.house, self.asked = runs, runs.house, asked
        self.reply, self.standing = ReplyWriter(asked), StreamState()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Run, and answer."""
        run = self.runs.recorded(self.asked, self.standing)
        speaking = asyncio.create_task(self._stream(run, send) if self.asked.stream else self._whole(run, send))
        leaving = asyncio.create_task(client_disconnected(receive))
        try:
            await asyncio.wait({speaking, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if speaking.done():
                speaking.result()
            else:
                self.house.counters.left += 1
        finally:
            await _ended(leaving, speaking, run)

    async def _whole(self, run: asyncio.Task[RunResult], send: Send) -> None:
        try:
            body = encode(self.reply.whole(await asyncio.shield(run)))
        except asyncio.CancelledError:
            raise
        except Exception as error:
            raise self._problem(error) from error
        head = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": head})
        await self._send(send, {"type": "http.response.body", "body": body})

    async def _stream(self, run: asyncio.Task[RunResult], send: Send) -> None:
        begun = asyncio.create_task(self.standing.begun.wait())
        await asyncio.wait({run, begun}, timeout=HOLD, return_when=asyncio.FIRST_COMPLETED)
        begun.cancel()
        if run.done() and run.exception() is not None:
            error = run.exception()
            assert error is not None
            raise self._problem(error) from error
        head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store"),
                (b"x-accel-buffering", b"no")]  # fmt: skip
        await self._send(send, {"type": "http.response.start", "status": 200, "headers": head})
        await self._part(send, self.reply.opening())
        await self._progress(run, send)
        try:
            parts = list(self.reply.closing(run.result()))
        except Exception as error:
            parts = [b"data: " + encode(self._problem(error).body()) + b"\n\n"]
        for part in parts:
            await self._part(send, part)
        await self._send(send, {"type": "http.response.body", "body": b""})

    async def _progress(self, run: asyncio.Task[RunResult], send: Send) -> None:
        """Say how things stand, whenever that has changed, until the run is over."""
        last, spoke = "", time.monotonic()
        while not run.done():
            line = self.standing.line()
            if line != last or time.monotonic() - spoke > QUIET:
                await self._part(send, self.reply.progress(line))
                last, spoke = line, time.monotonic()
            await asyncio.wait({run}, timeout=BEAT)

    async def _part(self, send: Send, part: bytes) -> None:
        if part:
            await self._send(send, {"type": "http.response.body", "body": part, "more_body": True})

    async def _send(self, send: Send, message: Message) -> None:
        """A client that reads nothing any more is taken to have left."""
        async with asyncio.timeout(self.house.settings.limits.send):
            await send(message)

    def _problem(self, error: BaseException) -> Any:
        problem = api_error(error, self.asked.model)
        problem.message = self.house.asked.clean(problem.message)
        return problem


async def client_disconnected(receive: Receive) -> None:
    """Return when the client has gone."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _ended(*tasks: asyncio.Task[Any]) -> None:
    """Cancel what still runs, and wait for it; a run closes its streams first."""
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
