"""Live paths: carries out a session's actions on an engine. Closing a path's stream cancels the path.

Every path is a task of one group, so none outlives the run. However the run ends (a settled vote, a deadline, Ctrl-C, a
server that is gone), every stream is closed and the vote so far is the outcome.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np

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
from sureenough.core.outcome import Outcome, Spent
from sureenough.core.pruning import Gate
from sureenough.core.session import Session
from sureenough.drivers.judging import classes_in_run, extract_in_run, no_answer_note
from sureenough.drivers.observers import (
    ObservedEvent,
    Observer,
    Observers,
    PathConfidence,
    PathText,
    PathTruncated,
    RunStarted,
)
from sureenough.drivers.search import LiveSearch
from sureenough.engines.base import End, Engine, Part, Piece, Prompt, Report, WatchOptions, as_part, opened
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.spec import render


async def wait_or_expire(
    work: asyncio.Future[None],
    expire: Callable[[Reason], None],
    deadline: float | None,
) -> None:
    """Wait for the work of a run. `expire` makes it end soon by itself, so nothing but its end is waited for."""
    loop, task, cancels = asyncio.get_running_loop(), asyncio.current_task(), 0
    timer = None if deadline is None else loop.call_later(deadline, expire, "deadline")
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancels += 1
            expire("interrupted")
    if timer is not None:
        timer.cancel()
    while cancels and task is not None:  # the vote so far is the reply to a cancellation
        task.uncancel()
        cancels -= 1


# What an error means for a live run: a path is lost, the run ends, or the server is gone.

FEWEST_REFUSALS: Final = 4
"""A server that refuses all first paths at once, and not fewer than these, is gone."""


class PathFailures:
    """Handles the errors of a run's tasks."""

    def __init__(self, run: LiveRun) -> None:
        self.error: Exception | None = None  # ends the run
        self._run = run
        self._unavailable = self._gone_after = 0  # paths in a row without a server, and how many mean that it is gone

    def expect(self, first: int, parallel: int) -> None:
        """So many paths are the first ones, and so many may run at once."""
        self._gone_after = min(parallel, max(FEWEST_REFUSALS, first))

    def reached(self) -> None:
        """The server has sent something."""
        self._unavailable = 0

    @contextmanager
    def handled(self, path: int, seed: int, *, counted: bool = True) -> Iterator[None]:
        """An error of an engine loses the path. Whatever else is raised ends the run and reaches the caller.

        `counted`: all tokens are known of what is cancelled here.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is not None and not task.cancelling():  # not cancelled from outside: the engine ended its own work
                self._lose_path(path, EngineError("the engine cancelled the path").located(path, seed))
                return
            self._run.account.cut |= not counted
            raise
        except (EngineRejected, MissingLogprobs) as error:
            self._end_run(error.located(path, seed))
        except EngineError as error:
            self._lose_path(path, error.located(path, seed))
        except Exception as error:
            self._end_run(error)

    def _lose_path(self, path: int, error: EngineError) -> None:
        """A lost path is replaced while the budget lasts; a server that refuses all connections is gone."""
        self._run.account.lost = error
        self._unavailable += isinstance(error, EngineUnavailable)
        self._run.lose(path)
        if self._unavailable >= self._gone_after:
            self._run.expire("engine")

    def _end_run(self, error: Exception) -> None:
        self.error = self.error or error
        self._run.stopped.set()


# What a live run has cost beside the tokens that its session counts, and what a reader of its outcome should know.


@dataclass(slots=True)
class LiveAccount:
    """Prompt tokens, tokens that were generated after cancels, and notes."""

    accepted: int = 0  # paths that the server began
    ended: bool = False  # a path was read to its end, where engines that count prompt tokens report them
    prompt_tokens: int = 0  # of one path
    cached_tokens: int = 0
    server_count: int | None = None  # tokens by the server's own counters
    cut: bool = False  # something was cancelled whose tokens are not all known
    estimated: bool = False
    unanswered: dict[bool, int] = field(default_factory=lambda: {False: 0, True: 0})
    """Paths without an answer, by whether their limit of tokens cut them."""
    lost: EngineError | None = None  # the latest path that failed
    _notes: dict[str, None] = field(default_factory=dict)

    def note(self, text: str | None) -> None:
        """Tell the reader of the outcome, once."""
        if text is not None:
            self._notes[text] = None

    def add_end(self, end: End) -> None:
        """A path has ended."""
        self.cut |= end.beyond > 0  # the server may have generated more
        self.prompt_tokens = end.prompt_tokens or self.prompt_tokens
        self.cached_tokens += end.cached_tokens or 0

    def close(self, stream: PathStream) -> None:
        """The stream of a path is over."""
        self.cut |= stream.closed and stream.requested and not stream.counted
        self.ended |= stream.begun and not stream.closed
        # An engine that watches its paths may have sent nothing of one that it generated.
        self.accepted += stream.counted and stream.beyond > 0 and not stream.begun
        self.estimated |= stream.estimated

    def complete(self, out: Outcome, engine: Engine, judge: Judge, search: LiveSearch | None) -> Outcome:
        """The session's outcome with the rest of its cost, and with all notes.

        Raises:
            EngineError: nothing is left to vote with.
        """
        voted = out.votes or out.abstained
        if self.lost is not None and not voted and out.reason in ("engine", "budget"):
            raise self.lost
        known = not self.cut or engine.stops_at_once or self.server_count is not None
        overrun = out.tokens.overrun + max(0, (self.server_count or 0) - out.tokens.total)
        tokens = replace(self._with_prompts(out.tokens, search), overrun=overrun, overrun_known=known)
        self._notes |= dict.fromkeys(search.final_notes() if search is not None else ())
        self._add_final_notes(out, judge)
        return replace(out, tokens=tokens, notes=(*out.notes, *self._notes))

    def _with_prompts(self, tokens: Spent, search: LiveSearch | None) -> Spent:
        """With the prompts of all requests; a path that was closed early does not tell how long its own was."""
        if search is None:
            known = self.prompt_tokens > 0 or self.ended or not self.accepted
            prompt = self.accepted * self.prompt_tokens
            return replace(tokens, prompt=prompt, prompt_known=known, cached=self.cached_tokens)
        return replace(
            tokens,
            prompt=search.begun * search.growth.question_tokens,
            prompt_known=search.growth.question_known or search.ended or not search.begun,
            cached=search.cached + search.reread_cached,
            reread=search.reread,
            reread_cached=search.reread_cached,
        )

    def _add_final_notes(self, out: Outcome, judge: Judge) -> None:
        if out.answer is None and any(self.unanswered.values()):
            self.note(no_answer_note(judge, self.unanswered[True], self.unanswered[False]))
        if self.estimated:
            self.note("the engine did not count its tokens; the numbers here are estimated from its chunks")
        if self.lost is not None:
            self.note(f"paths were lost to the engine; the latest: {self.lost}")


# One streamed path: turns what the engine sends into events, and remembers the rest.


@dataclass(slots=True, eq=False)
class PathStream:
    """A path that is being streamed."""

    start: Start
    signals: bool  # whether confidence is read
    task: asyncio.Task[None] | None = None
    requested: bool = False  # the engine was asked for it; before that, nothing is generated
    begun: bool = False  # the engine has sent something
    closed: bool = False  # the session has cancelled it
    end: End = field(default_factory=End)
    beyond: int = 0  # tokens past its limit or its cancel
    counted: bool = False  # after a cancel: the engine knows how many tokens were generated in all
    estimated: bool = False  # its token count is a guess
    _texts: list[str] = field(default_factory=list)
    _tokens: int = 0

    @property
    def number(self) -> int:
        return self.start.path

    @property
    def text(self) -> str:
        return "".join(self._texts)

    @property
    def truncated(self) -> bool:
        """Whether its limit of tokens cut it."""
        return self.end.finish == "length"

    def watched(self, prompt: Prompt, window: int | None) -> Prompt:
        """The prompt with this path's gate, for engines that watch their own paths."""
        if not self.signals:  # such an engine need not send anything before its end
            return replace(prompt, watch=WatchOptions(None, Gate(), self.count_unheard))
        gate = None if self.start.warmup or window is None else self.start.gate
        if gate is not None and gate.trend_window:  # such an engine has one window; the session watches this path
            return prompt
        return replace(prompt, watch=WatchOptions(window, gate, self.count_unheard))

    def close(self, *, interrupt: bool = True) -> None:
        """The session has cancelled the path; without an interrupt, its task sees so by itself."""
        if not self.closed and interrupt and self.task is not None:  # a second cancel would disturb its closing
            self.task.cancel()
        self.closed = True

    def count_unheard(self, tokens: int) -> None:
        """The path was cancelled, and its engine generated so many tokens more than it had passed on."""
        self.beyond += tokens
        self.counted = True

    def read(self, part: Part) -> Iterator[Tokens | PathText | PathConfidence | PathTruncated]:
        self.begun = True
        self._texts.append(part.text)
        if isinstance(part, Piece):
            self._tokens += len(part.tokens)
            yield Tokens(self.number, part.tokens)
            return
        self.estimated = part.estimated
        if part.text:
            yield PathText(self.number, part.text)
        if isinstance(part, End):
            self.end, self.beyond = part, self.beyond + part.beyond
            if self.truncated:
                yield PathTruncated(self.number)
            if part.unread and self.signals and not self._tokens and part.summary is None:
                # Nothing but an end token without signals is a path without windows, like an empty one.
                empty = Summary(part.unread, 0.0, 0.0, mean_peak=0.0, mean_conf=0.0, signals=np.empty((0, 2)))
                self.end = replace(part, summary=empty)
                return
        if part.unread:
            yield Tokens(self.number, unread=part.unread)
        if isinstance(part, Report) and part.tail is not None and self.signals:
            yield PathConfidence(self.number, part.tail)


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
    live = LiveRun(prompt, session, judge, tuple(observers))
    try:
        return await live.run(engine)
    except EngineError as error:
        error.tokens = session.snapshot().generated
        raise
    finally:
        live.failures.error = live.account.lost = None  # they refer to frames, and these to the run and all its buffers


class LiveRun:
    """A run while it lasts: its tasks, its streams, and what they share."""

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
        self.failures = PathFailures(self)
        self.search = LiveSearch(self) if searches else None

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
        planned = self.session.options.hurry is not None
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
                    self.search.carry_out(action)
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

    def begin(
        self, work: Callable[[], Awaitable[None]], path: int, seed: int, name: str, *, counted: bool = True
    ) -> asyncio.Task[None]:
        """A task whose failure is that of its path.

        `work` is not a coroutine, which would have to be awaited even if the task is cancelled before it begins.
        """

        async def handled() -> None:
            with self.failures.handled(path, seed, counted=counted):
                await work()

        return self.tasks.create_task(handled(), name=f"path {path}, {name}")

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
                        self.read(stream, as_part(chunk))
                        if stream.closed:
                            break
                if not stream.closed:
                    await self.end(stream)
        finally:
            if stream.beyond:  # the path is decided: these are overrun
                self.receive(Tokens(stream.number, unread=stream.beyond), stream.number)
            self.account.close(stream)
            self.streams.pop(stream.number, None)

    def read(self, stream: PathStream, part: Part) -> None:
        self.account.accepted += not stream.begun
        self.failures.reached()
        for event in stream.read(part):
            if isinstance(event, Tokens):
                self.receive(event, stream.number)
            else:
                self.carry_out(event, ())
        if isinstance(part, End):
            self.account.add_end(part)

    async def end(self, stream: PathStream) -> None:
        number, summary = stream.number, stream.end.summary
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
