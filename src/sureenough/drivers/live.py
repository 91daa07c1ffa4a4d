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
from sureenough.core.outcome import Outcome
from sureenough.core.pruning import Gate
from sureenough.core.session import Session
from sureenough.drivers.judging import classes_in_run, extract_in_run, no_answer_note
from sureenough.drivers.observers import ObservedEvent, Observer, PathReport, RunStarted
from sureenough.drivers.search import LiveSearch, PromptGrowth
from sureenough.engines.base import End, Engine, Part, Piece, Prompt, Report, WatchOptions, as_part
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, SureEnoughError
from sureenough.spec import render

CLOSE_SECONDS: Final = 15.0
"""How long streams may take to close before they are abandoned."""
HELD_START: Final = 0.02
"""Seconds for which the request of a path beyond the first ones is held back if width is planned. Paths of equal length
end at the same moment, and their votes are received one by one: the last of them may settle what the first started."""
COUNTER_SECONDS: Final = 2.0
"""The longest wait for a server's counters after a run; the answer must not be held back by them."""
FEWEST_REFUSALS: Final = 4
"""A server that refuses all first paths at once, and not fewer than these, is gone."""


@dataclass(slots=True)
class LiveAccount:
    """What a run has cost beside the tokens that its session counts, and what a reader of its outcome should know."""

    accepted: int = 0  # paths that the server began: in a search, requests without a beginning
    ended: bool = False  # one of them was read to its end, where engines that count prompt tokens report them
    prompts: PromptGrowth = field(default_factory=PromptGrowth)
    cached_tokens: int = 0
    reread: int = 0  # prompt tokens of requests with a beginning
    reread_cached: int = 0
    reasoning: int = 0
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

    def add_end(self, end: End, beginning: str = "", tokens: int = 0) -> None:
        """A path has ended, or a branch of a search, whose prompt had the beginning of a reply with so many tokens."""
        self.cut |= end.beyond > 0  # the server may have generated more
        read, cached = end.prompt_tokens, end.cached_tokens or 0
        self.cached_tokens += cached
        self.reasoning += end.reasoning_tokens
        if not read:  # no prompt has no tokens
            return
        self.prompts.add(tokens, read, seams=beginning.count("\n"))
        if beginning:
            self.reread += read
            self.reread_cached += cached

    def close(self, stream: PathStream) -> None:
        self.cut |= stream.closed and stream.requested and not stream.counted
        self.ended |= stream.begun and not stream.closed
        # An engine that watches its paths may have sent nothing of one that it generated.
        self.accepted += stream.counted and stream.beyond > 0 and not stream.begun
        self.estimated |= stream.estimated

    def complete(self, out: Outcome, engine: Engine, judge: Judge) -> Outcome:
        """The session's outcome with the rest of its cost, and with all notes.

        Raises:
            EngineError: nothing is left to vote with.
        """
        voted = out.votes or out.abstained
        if self.lost is not None and not voted and out.reason in ("engine", "budget"):
            raise self.lost
        known = not self.cut or engine.stops_at_once or self.server_count is not None
        overrun = out.tokens.overrun + max(0, (self.server_count or 0) - out.tokens.total)
        tokens = replace(
            out.tokens,
            overrun=overrun,
            overrun_known=known,
            # A path that was closed early does not tell how long its own prompt was.
            prompt=self.accepted * self.prompts.question_tokens,
            prompt_known=self.prompts.question_known or self.ended or not self.accepted,
            cached=self.cached_tokens,
            reread=self.reread,
            reread_cached=self.reread_cached,
            reasoning=self.reasoning,
        )
        self._add_final_notes(out, judge)
        return replace(out, tokens=tokens, notes=(*out.notes, *self._notes))

    def _add_final_notes(self, out: Outcome, judge: Judge) -> None:
        if self.prompts.too_small:
            self.note(
                "the server read fewer tokens than the search sent: its chat template changes the beginning of a "
                "reply, so that steps do not follow each other; `sureenough doctor` checks it"
            )
        if out.answer is None and any(self.unanswered.values()):
            self.note(no_answer_note(judge, self.unanswered[True], self.unanswered[False]))
        if self.estimated:
            self.note("the engine did not count its tokens; the numbers here are estimated from its chunks")
        if self.lost is not None:
            self.note(f"paths were lost to the engine; the latest: {self.lost}")


@dataclass(slots=True, eq=False)
class PathStream:
    """A path that is being streamed: turns what the engine sends into events, and remembers the rest."""

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
        return self.end.finish == "length"

    def watched(self, prompt: Prompt, window: int | None) -> Prompt:
        if not self.signals:  # such an engine need not send anything before its end
            return replace(prompt, watch=WatchOptions(None, Gate(), self.count_unheard))
        gate = None if self.start.warmup or window is None else self.start.gate
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

    def read(self, part: Part) -> Iterator[Tokens | PathReport]:
        self.begun = True
        self._texts.append(part.text)
        if isinstance(part, Piece):
            self._tokens += len(part.tokens)
            yield Tokens(self.number, part.tokens)
            return
        self.estimated = part.estimated
        unread, tail = part.unread, part.tail if isinstance(part, Report) and self.signals else None
        if isinstance(part, End):
            self.end, self.beyond = part, self.beyond + part.beyond
            if unread and self.signals and not self._tokens and part.summary is None:
                # Nothing but an end token without signals is a path without windows, like an empty one.
                empty = Summary(unread, 0.0, 0.0, mean_peak=0.0, mean_conf=0.0, signals=np.empty((0, 2)))
                self.end, unread = replace(part, summary=empty), 0
        if unread:
            yield Tokens(self.number, unread=unread)
        if part.text or tail is not None or self.truncated:
            yield PathReport(self.number, part.text, tail, self.truncated)


async def run(
    prompt: Prompt, engine: Engine, session: Session, *, judge: Judge, observers: Iterable[Observer] = ()
) -> Outcome:
    """Run a new session to its end. Cancelling this ends the run with the vote so far."""
    live = LiveRun(prompt, engine, session, judge, observers)
    try:
        await live.run()
        return live.outcome()
    except EngineError as error:
        error.tokens = session.snapshot().generated
        raise
    finally:
        live.error = live.account.lost = None  # they refer to frames, and these to the run and all its buffers


class LiveRun:
    """A run while it lasts: its tasks, its streams, and what they share."""

    def __init__(
        self, prompt: Prompt, engine: Engine, session: Session, judge: Judge, observers: Iterable[Observer]
    ) -> None:
        reads, searches = session.strategy.reads_confidence, session.strategy.search is not None
        self.prompt = replace(prompt, signals=reads or searches)
        self.engine, self.session, self.judge, self.observers = engine, session, judge, list(observers)
        self.streams: dict[int, PathStream] = {}
        self.classifying: asyncio.Task[None] | None = None
        self.stopped = asyncio.Event()
        self.is_open = False  # the engine
        self.timers: list[asyncio.TimerHandle] = []
        self.account = LiveAccount()
        self.error: Exception | None = None  # ends the run
        self.unavailable = self.gone_after = 0  # paths in a row without a server, and how many mean that it is gone
        self.search = LiveSearch(self) if searches else None

    async def run(self) -> None:
        """Wait for the paths, however the run ends: what expires it makes them end soon by themselves."""
        task, cancels = asyncio.current_task(), 0
        self.work = asyncio.ensure_future(self.run_paths())
        if self.session.options.deadline is not None:
            self.call_later(self.session.options.deadline, self.expire, "deadline")
        while not self.work.done():
            try:
                await asyncio.wait([self.work])
            except asyncio.CancelledError:
                cancels += 1
                self.expire("interrupted")
        for timer in self.timers:
            timer.cancel()
        while cancels and task is not None:  # the vote so far is the reply to a cancellation
            task.uncancel()
            cancels -= 1
        if not self.work.cancelled():
            self.work.result()
        if self.error is not None:
            raise self.error

    async def run_paths(self) -> None:
        async with self.engine.open(parallel=self.session.options.parallel) as self.engine:
            self.is_open = True
            async with asyncio.TaskGroup() as self.tasks:
                with self.failing():
                    self.session.receive(Regrouped({}))  # from now on, no vote is counted before its class is known
                    first = self.session.begin()
                    self.gone_after = min(self.session.options.parallel, max(FEWEST_REFUSALS, len(first)))
                    self.carry_out(RunStarted(), first)
                await self.stopped.wait()
                self.close_streams()
            if self.account.cut:
                with suppress(TimeoutError):
                    async with asyncio.timeout(COUNTER_SECONDS):
                        self.account.server_count = await self.engine.generated_tokens()

    def receive(self, event: Event, current: int | None = None) -> None:
        if self.error is None:
            with self.failing(getattr(event, "path", None)):
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
                    self.classifying = self.tasks.create_task(self.classify(answers, current), name="classes")
                case Stop():
                    self.stopped.set()
        if not self.observers:
            return
        snapshot = self.session.snapshot()
        for observer in list(self.observers):
            try:
                observer(event, actions, snapshot)
            except Exception as error:  # it must not end a run that others pay for
                self.observers.remove(observer)
                self.account.note(f"an observer failed and was not called again: {type(error).__name__}: {error}")

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
        self.call_later(CLOSE_SECONDS, self.work.cancel)

    def call_later(self, seconds: float, function: Callable[..., object], *arguments: object) -> None:
        self.timers.append(asyncio.get_running_loop().call_later(seconds, function, *arguments))

    @contextmanager
    def handled(self, path: int, seed: int, *, counted: bool = True) -> Iterator[None]:
        """An error of an engine loses the path. Whatever else is raised ends the run and reaches the caller.

        `counted`: all tokens are known of what is cancelled here.
        """
        try:
            yield
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                self.account.cut |= not counted
                raise
            self.lose(path, EngineError("the engine cancelled the path").located(path, seed))  # its own work
        except (EngineRejected, MissingLogprobs) as error:
            self.fail(error.located(path, seed))
        except EngineError as error:
            self.lose(path, error.located(path, seed))
        except Exception as error:
            self.fail(error, path)

    @contextmanager
    def failing(self, path: int | None = None) -> Iterator[None]:
        """Whatever is raised, such as by a rule of the caller's own, ends the run and reaches the caller as it is."""
        try:
            yield
        except Exception as error:
            self.fail(error, path)

    def lose(self, path: int, error: EngineError) -> None:
        """A lost path is replaced while the budget lasts; a server that refuses all connections is gone."""
        self.account.lost = error
        self.unavailable += isinstance(error, EngineUnavailable)
        if self.search is not None:
            self.search.cancel(path)
        self.receive(Ended(path, Fate.FAILED), path)
        if self.unavailable >= self.gone_after:
            self.expire("engine")

    def fail(self, error: Exception, path: int | None = None) -> None:
        if path is not None and not isinstance(error, SureEnoughError):  # ours say what to do
            error.add_note(f"This ended the run, at path {path}.")
        self.error = self.error or error
        self.stopped.set()

    def begin(
        self, work: Callable[[], Awaitable[None]], path: int, seed: int, name: str, *, counted: bool = True
    ) -> asyncio.Task[None]:
        """A task whose failure is that of its path.

        `work` is not a coroutine, which would have to be awaited even if the task is cancelled before it begins.
        """

        async def handled() -> None:
            with self.handled(path, seed, counted=counted):
                await work()

        return self.tasks.create_task(handled(), name=f"path {path}, {name}")

    async def end_search(self, number: int, text: str, truncated: bool) -> None:
        if truncated:
            self.carry_out(PathReport(number, truncated=True), ())
        await self.vote(number, text, truncated, None)

    async def grow(self, stream: PathStream, held: bool) -> None:
        try:
            with self.handled(stream.number, stream.start.seed):
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
        self.unavailable = 0
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
        answer, note = await extract_in_run(self.judge, text)
        self.account.note(note)
        if answer is None:
            self.account.unanswered[truncated] += 1
        self.receive(Ended(number, Fate.KEPT, answer, summary), number)

    async def classify(self, answers: Sequence[str], path: int | None) -> None:
        """Which of these answers mean the same, the path's among them; comparing may be slow: it runs off the loop."""
        classes, note = await classes_in_run(self.judge, answers)
        self.account.note(note)
        with self.failing(path):
            event = Regrouped(classes)
            self.carry_out(event, self.session.receive(event))

    def outcome(self) -> Outcome:
        out = replace(self.session.outcome(), strategy=render(self.session.strategy))
        return self.account.complete(out, self.engine, self.judge)
