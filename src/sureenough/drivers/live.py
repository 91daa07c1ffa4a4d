"""Live paths: carries out a session's actions on an engine. Closing a path's stream is its cancel.

One task a path, all in one group: no path outlives the run. Whatever ends the run, a settled vote, a deadline, Ctrl-C
or a server that is gone, every stream is closed and the vote so far is the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from dataclasses import replace

import numpy as np

from sureenough.core.confidence.array import scan
from sureenough.core.events import (
    Action,
    Cancel,
    Ended,
    Event,
    Expired,
    Fate,
    Reason,
    Regrouped,
    Start,
    Stop,
    Summary,
    Token,
    Tokens,
    Unread,
)
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.drivers.judging import Extract, Group
from sureenough.drivers.observers import ObservedEvent, Observer, PathText, PathTruncated, RunStarted
from sureenough.engines.base import Chunk, Counts, Engine, Prompt, WatchOptions, opened, stops_at_once
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.spec import render


async def run(
    prompt: Prompt,
    engine: Engine,
    session: Session,
    *,
    extract: Extract,
    group: Group,
    deadline: float | None = None,
    observers: Iterable[Observer] = (),
) -> Outcome:
    """Run a fresh session to its end."""
    return await _Run(prompt, session, extract, group, tuple(observers)).go(engine, deadline)


class _Growing:
    """A path that is being streamed."""

    __slots__ = ("beyond", "decided", "estimated", "number", "said", "seed", "summary", "task", "tokens")

    def __init__(self, start: Start) -> None:
        self.number, self.seed = start.path, start.seed
        self.task: asyncio.Task[None] | None = None
        self.said: list[str] = []
        self.tokens = 0
        self.decided = False  # the session has cancelled it
        self.estimated = False
        self.beyond = 0  # tokens past its limit
        self.summary: Summary | None = None


class _Run:
    def __init__(
        self, prompt: Prompt, session: Session, extract: Extract, group: Group, observers: tuple[Observer, ...]
    ) -> None:
        self.prompt = replace(prompt, signals=session.strategy.reads_confidence)
        self.session, self.extract, self.group, self.observers = session, extract, group, observers
        self.growing: dict[int, _Growing] = {}
        self.answers: dict[str, None] = {}  # every answer seen so far, in order
        self.regrouping = asyncio.Lock()
        self.over = asyncio.Event()
        self.broken: Exception | None = None  # ends the run as an error
        self.lost: EngineError | None = None  # the latest path that failed
        self.unanswered = 0  # paths in a row that found nobody
        self.heard = 0  # paths that the server took on
        self.prompt_tokens = 0
        self.made: int | None = None  # by the server's own count
        self.estimated = self.cut = False

    async def go(self, engine: Engine, deadline: float | None) -> Outcome:
        loop = asyncio.get_running_loop()
        interrupted = False
        async with opened(engine, self.session.parallel) as self.engine:
            async with asyncio.TaskGroup() as self.tasks:
                self.obey(RunStarted(), self.session.begin())
                alarm = None if deadline is None else loop.call_later(deadline, self.expire, "deadline")
                try:
                    await self.over.wait()
                except asyncio.CancelledError:
                    interrupted = True
                    self.expire("interrupted")
                finally:
                    if alarm is not None:
                        alarm.cancel()
                    self.close_all()
            if self.cut and isinstance(self.engine, Counts):
                self.made = await self.engine.made()
        if self.broken is not None:
            raise self.broken
        task = asyncio.current_task()
        if interrupted and task is not None:
            task.uncancel()  # the vote so far is the reply to a cancellation
        return self.outcome()

    # -- what the session wants

    def tell(self, news: Event, current: int | None = None) -> None:
        self.obey(news, self.session.receive(news), current)

    def obey(self, news: ObservedEvent, actions: Sequence[Action], current: int | None = None) -> None:
        for observer in self.observers:
            observer(self.session, news, actions)
        for action in actions:
            match action:
                case Start(number):
                    path = self.growing[number] = _Growing(action)
                    path.task = self.tasks.create_task(self.grow(path), name=f"path {number}")
                case Cancel(number) if number in self.growing:
                    path = self.growing[number]
                    path.decided = True
                    self.cut = True
                    if number != current and path.task is not None:
                        path.task.cancel()
                case Stop():
                    self.over.set()

    def expire(self, reason: Reason) -> None:
        self.tell(Expired(reason))

    def close_all(self) -> None:
        for path in self.growing.values():
            if path.task is not None and not path.decided:  # twice would disturb its closing
                path.decided = True
                path.task.cancel()

    # -- one path

    async def grow(self, path: _Growing) -> None:
        """Stream one path to its end, to its cancel, or to the error that loses it."""
        try:
            async with aclosing(self.engine.stream(self.guarded(path.number), seed=path.seed)) as chunks:
                async for chunk in chunks:
                    self.hear(path, chunk)
                    if path.decided:
                        break
            if not path.decided:
                await self.ended(path)
        except (EngineRejected, MissingLogprobs) as error:
            self.fail(_named(error, path))
        except EngineError as error:
            self.lose(path, _named(error, path))
        except Exception as error:  # whatever it is, it ends the run and reaches the caller
            self.fail(error)
        finally:
            if path.beyond:  # its fate is sealed: these are overrun
                self.tell(Tokens(path.number, Unread(path.beyond)), path.number)
            self.estimated |= path.estimated
            self.growing.pop(path.number, None)

    def guarded(self, number: int) -> Prompt:
        """What is asked, with this path's gate for engines that watch their own paths."""
        gate = None if self.session.paths[number].warmup else self.session.gate
        return (
            replace(self.prompt, guard=WatchOptions(self.session.window, gate)) if self.prompt.signals else self.prompt
        )

    def hear(self, path: _Growing, chunk: Sequence[Token]) -> None:
        if not path.said:
            self.heard += 1
            path.said.append("")
        self.unanswered = 0
        path.tokens += len(chunk)
        if not isinstance(chunk, Chunk):
            path.said.extend([token.text for token in chunk])
            self.tell(Tokens(path.number, chunk), path.number)
            return
        if chunk:
            self.tell(Tokens(path.number, chunk), path.number)
        elif chunk.text and self.observers:
            self.obey(PathText(path.number, chunk.text), ())
        if chunk.finish == "length" and self.observers:
            self.obey(PathTruncated(path.number), ())
        path.said.append(chunk.text)
        path.estimated = chunk.estimated
        path.beyond += chunk.beyond
        self.cut |= chunk.closed
        path.summary = chunk.summary or path.summary
        self.prompt_tokens = chunk.prompt_tokens or self.prompt_tokens
        if chunk.unread:
            self.uncount(path, chunk.unread, last=chunk.finish is not None)

    def uncount(self, path: _Growing, unread: int, *, last: bool) -> None:
        """Tokens that can only be counted: the end token of some servers, or all where no confidence is read."""
        if self.prompt.signals and last and not path.tokens and path.summary is None:
            # Nothing but an end token: a path of no windows, as an empty one is.
            none = np.empty(0)
            path.summary = Summary(unread, 0.0, 0.0, None, scan(none, none, self.session.window))
        else:
            self.tell(Tokens(path.number, Unread(unread)), path.number)

    async def ended(self, path: _Growing) -> None:
        if path.summary is not None and path.summary.tier is not None:  # by the engine that watched it
            self.tell(Ended(path.number, Fate.PRUNED, None, path.summary), path.number)
            return
        text = "".join(path.said)
        answer = await asyncio.to_thread(self.extract, text) if len(text) > 100_000 else self.extract(text)
        if answer is not None and answer not in self.answers:
            async with self.regrouping:  # classes are formed of all answers known, one grouping after the other
                self.answers[answer] = None
                classes = await asyncio.to_thread(self.group, list(self.answers))
                self.tell(Regrouped(classes), path.number)
        self.tell(Ended(path.number, Fate.KEPT, answer, path.summary), path.number)

    def lose(self, path: _Growing, error: EngineError) -> None:
        """A lost path is replaced while the budget lasts; a server that answers nobody is gone."""
        self.lost = error
        self.unanswered += isinstance(error, EngineUnavailable)
        self.tell(Ended(path.number, Fate.FAILED), path.number)
        if self.unanswered >= self.session.parallel:
            self.expire("engine")

    def fail(self, error: Exception) -> None:
        self.broken = self.broken or error
        self.over.set()

    # -- the result

    def outcome(self) -> Outcome:
        out = self.session.outcome()
        voted = out.votes or out.abstained
        if self.lost is not None and not voted and out.reason in ("engine", "budget"):
            raise self.lost
        known = not self.cut or stops_at_once(self.engine) or self.made is not None
        overrun = out.tokens.overrun + max(0, (self.made or 0) - out.tokens.total)
        prompt = self.prompt_tokens * self.heard
        tokens = replace(out.tokens, prompt=prompt, overrun=overrun, overrun_known=known)
        return replace(out, tokens=tokens, strategy=render(self.session.strategy), notes=(*out.notes, *self.remarks()))

    def remarks(self) -> Iterable[str]:
        if self.estimated:
            yield "the server did not count its tokens; the numbers here are estimated from the pieces it sent"
        if self.lost is not None:
            yield f"paths were lost to the engine; the latest: {self.lost}"


def _named(error: EngineError, path: _Growing) -> EngineError:
    error.path, error.seed = path.number, path.seed
    return error
