"""Live paths: carries out a session's actions on an engine. Closing a path's stream cancels the path.

Every path is a task of one group, so none outlives the run. However the run ends (a settled vote, a deadline, Ctrl-C, a
server that is gone), every stream is closed and the vote so far is the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from typing import Final

from sureenough.answers import Judge
from sureenough.core.events import (
    Action,
    Adopt,
    Cancel,
    Classify,
    Compute,
    Ended,
    Event,
    Expired,
    Extend,
    Fate,
    Reason,
    Regrouped,
    Start,
    Stop,
    Summary,
    Tokens,
)
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.weights import NO_CERTAINTY
from sureenough.drivers.expiry import wait_or_expire
from sureenough.drivers.judging import classes_in_run, extract_in_run
from sureenough.drivers.live_account import LiveAccount
from sureenough.drivers.observers import ObservedEvent, Observer, Observers, PathTruncated, RunStarted
from sureenough.drivers.path_failures import PathFailures, Work
from sureenough.drivers.path_stream import PathStream
from sureenough.drivers.search import LiveSearch, SearchCallbacks
from sureenough.engines.base import Engine, opened
from sureenough.engines.requests import Chunk, Prompt, as_chunk
from sureenough.errors import EngineError, UsageError
from sureenough.spec import render

CLOSE_SECONDS: Final = 15.0
"""How long streams may take to close before they are abandoned."""
HELD_START: Final = 0.02
"""Seconds for which the request of a path beyond the first ones is held back if width is planned. Paths of equal length
end at the same moment, and their votes are received one by one: the last of them may settle what the first started."""
COUNTER_SECONDS: Final = 2.0
"""The longest wait for a server's counters after a run; the answer must not be held back by them."""


async def run(
    prompt: Prompt,
    engine: Engine,
    session: Session,
    *,
    judge: Judge,
    observers: Iterable[Observer] = (),
) -> Outcome:
    """Run a new session to its end. Cancelling this ends the run with the vote so far."""
    live = _LiveRun(prompt, session, judge, tuple(observers))
    try:
        return await live.run(engine)
    except EngineError as error:
        error.tokens = session.snapshot().generated
        raise
    finally:
        live.failures.error = live.account.lost = None  # they refer to frames, and these to the run and all its buffers


class _LiveRun:
    def __init__(self, prompt: Prompt, session: Session, judge: Judge, observers: tuple[Observer, ...]) -> None:
        reads, searches = session.strategy.reads_confidence, session.strategy.search is not None
        self.prompt = replace(prompt, signals=reads or searches)
        self.session, self.judge, self.observers = session, judge, Observers(observers)
        self.streams: dict[int, PathStream] = {}
        self.classifying: asyncio.Task[None] | None = None
        self.stopped = asyncio.Event()
        self.is_open = False  # the engine
        self.closing: asyncio.TimerHandle | None = None
        self.account = LiveAccount()
        self.failures = PathFailures(self.account, self.lose, self.stopped.set, self.expire)
        options = session.options
        callbacks = SearchCallbacks(self.receive, self.begin, self.failures.reached, self.end_search)
        self.search = LiveSearch(self.prompt, options.parallel, callbacks, confidence=reads) if searches else None

    async def run(self, engine: Engine) -> Outcome:
        self.engine = engine
        self.work = asyncio.ensure_future(self.run_paths(engine))
        await wait_or_expire(self.work, self.expire, self.session.options.deadline)
        if self.closing is not None:
            self.closing.cancel()
        if not self.work.cancelled():
            self.work.result()
        if self.failures.error is not None:
            raise self.failures.error
        return self.outcome()

    async def run_paths(self, engine: Engine) -> None:
        async with opened(engine, self.session.options.parallel) as self.engine:
            self.is_open = True
            async with asyncio.TaskGroup() as self.tasks:
                self.session.receive(Regrouped({}))  # from now on, no vote is counted before its class is known
                first = self.session.begin()
                self.failures.expect(len(first), self.session.options.parallel)
                self.carry_out(RunStarted(), first)
                await self.stopped.wait()
                self.close_streams()
            self.account.cut |= self.search is not None and self.search.may_overrun
            if self.account.cut:
                with suppress(TimeoutError):
                    async with asyncio.timeout(COUNTER_SECONDS):
                        self.account.server_count = await self.engine.generated_tokens()

    def receive(self, event: Event, current: int | None = None) -> None:
        self.carry_out(event, self.session.receive(event), current)

    def carry_out(self, event: ObservedEvent, actions: Sequence[Action], current: int | None = None) -> None:
        planned = self.session.options.planned
        for action in actions:
            match action:
                case Start(number) if self.search is None:
                    held = planned and bool(self.streams.keys() - {current}) and not isinstance(event, RunStarted)
                    stream = self.streams[number] = PathStream(action, self.prompt.signals)
                    stream.task = self.tasks.create_task(self.grow(stream, held), name=f"path {number}")
                case Cancel(number):
                    if number in self.streams:
                        self.streams[number].close(interrupt=number != current)
                    if self.search is not None:
                        self.search.cancel(number)
                case Extend() | Adopt() | Compute() if self.search is not None:
                    self.search.carry_out(action, self.engine)
                case Classify(answers):
                    self.classifying = self.tasks.create_task(self.classify(answers), name="classes")
                case Stop():
                    self.stopped.set()
        if self.observers:
            self.observers.notify(event, actions, self.session.snapshot(), self.account.note)

    def expire(self, reason: Reason) -> None:
        if not self.session.done:
            self.receive(Expired(reason))
        if not self.is_open:
            self.work.cancel()

    def close_streams(self) -> None:
        for stream in list(self.streams.values()):
            stream.close()
        if self.search is not None:
            self.search.close()
        if self.classifying is not None:
            self.classifying.cancel()
        self.closing = asyncio.get_running_loop().call_later(CLOSE_SECONDS, self.work.cancel)

    def begin(self, work: Work, path: int, seed: int, name: str, *, counted: bool = True) -> asyncio.Task[None]:
        """A task whose failure is that of its path."""
        handled = self.failures.run(work, path, seed, counted=counted)
        return self.tasks.create_task(handled, name=f"path {path}, {name}")

    async def end_search(self, number: int, text: str, truncated: bool) -> None:
        """The search for a path is over."""
        if truncated:
            self.carry_out(PathTruncated(number), ())
        await self.vote(number, text, truncated, None)

    async def grow(self, stream: PathStream, held: bool) -> None:
        """Stream one path to its end, to its cancel, or to the error that loses it."""
        try:
            with self.failures.handled(stream.number, stream.start.seed):
                if held:
                    await asyncio.sleep(HELD_START)
                stream.requested = True
                prompt = stream.watched(self.prompt, self.session.options.window)
                async with aclosing(self.engine.stream(prompt, seed=stream.start.seed)) as chunks:
                    async for chunk in chunks:
                        self.read(stream, as_chunk(chunk))
                        if stream.closed:
                            break
                if not stream.closed:
                    await self.end(stream)
        finally:
            if stream.beyond:  # the path is decided: these are overrun
                self.receive(Tokens(stream.number, unread=stream.beyond), stream.number)
            self.account.close(stream)
            self.streams.pop(stream.number, None)

    def read(self, stream: PathStream, chunk: Chunk) -> None:
        self.account.accepted += not stream.begun
        self.failures.reached()
        if len(chunk) and self.session.strategy.needs_certainty:  # the engine sends signals: it does not watch the path
            raise UsageError(NO_CERTAINTY)
        for event in stream.read(chunk):
            if isinstance(event, Tokens):
                self.receive(event, stream.number)
            else:
                self.carry_out(event, ())
        self.account.read(stream, chunk)

    async def end(self, stream: PathStream) -> None:
        number, summary = stream.number, stream.summary
        if summary is not None and summary.tier is not None:  # pruned by the engine that watched it
            self.receive(Ended(number, Fate.PRUNED, None, summary), number)
            return
        await self.vote(number, stream.text, stream.truncated, summary)

    async def vote(self, number: int, text: str, truncated: bool, summary: Summary | None) -> None:
        """A path ended by itself: the answer in its text."""
        answer, note = await extract_in_run(self.judge, text)
        self.account.note(note)
        if answer is None:
            self.account.unanswered[truncated] += 1
        self.receive(Ended(number, Fate.KEPT, answer, summary), number)

    async def classify(self, answers: Sequence[str]) -> None:
        """Which of these answers mean the same; comparing may be slow, so it runs off the loop."""
        classes, note = await classes_in_run(self.judge, answers)
        self.account.note(note)
        self.receive(Regrouped(classes))

    def lose(self, number: int) -> None:
        if self.search is not None:
            self.search.cancel(number)
        self.receive(Ended(number, Fate.FAILED), number)

    def outcome(self) -> Outcome:
        out = replace(self.session.outcome(), strategy=render(self.session.strategy))
        return self.account.complete(out, self.engine, self.judge, self.search)
