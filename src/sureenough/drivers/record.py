"""Sample paths of many questions into a journal: whenever it is stopped, no path is lost or sampled twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Final, NamedTuple, Protocol

from sureenough.answers import Judge, for_question
from sureenough.answers.kinds import Math
from sureenough.core.events import path_seed
from sureenough.drivers.judging import extract_in_run
from sureenough.engines.base import Engine, opened
from sureenough.engines.requests import Chunk, Prompt, WatchOptions, as_chunk
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, UsageError
from sureenough.json_text import mend
from sureenough.pools import RecordedPath
from sureenough.pools.journal import Journal


class OpenExecutor(Protocol):
    """Calls functions, each with an open engine as its first argument."""

    @property
    def slots(self) -> int:
        """Calls that make sense at once."""

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """What `await function(engine, *arguments)` returns; errors of ours are raised here, wherever they happened."""


class Executor(Protocol):
    """Where the work of a recording or a benchmark is done: in this process, or on other machines."""

    def __call__(self, *, parallel: int, calls: int) -> AbstractAsyncContextManager[OpenExecutor]:
        """Ready for so many calls at once with so many paths together, on every machine."""


class _InProcess(NamedTuple):
    engine: Engine
    slots: int

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        return await function(self.engine, *arguments)


@asynccontextmanager
async def in_process(engine: Engine, *, parallel: int, calls: int) -> AsyncIterator[OpenExecutor]:
    """One engine, used by this process."""
    async with opened(engine, parallel) as ready:
        yield _InProcess(ready, calls)


class RecordQuestion(NamedTuple):
    """A question to record."""

    id: str
    prompt: Prompt
    gold: str | None = None
    level: int | None = None
    judge: Judge = Math()
    text: str | None = None  # without the template
    kind: str | None = None  # of answer, if it is not that of the whole pool


class RecordResult(NamedTuple):
    """What a recording added."""

    paths: int  # new ones
    tokens: int
    prompt_tokens: int
    lost: EngineError | None  # the latest failure, if paths are missing


PathCallback = Callable[[str, RecordedPath | None], None]
"""Called with every path that was recorded, and with None for a path that was lost."""

PATH_SECONDS: Final = 3_600.0
"""A path that takes longer is lost: whatever an engine sends, a recording ends."""


async def record(
    questions: Iterable[RecordQuestion],
    engine: Engine,
    journal: Journal,
    *,
    paths: int,
    parallel: int,
    seed: int,
    keep_text: bool = True,
    on_path: PathCallback = lambda question, path: None,
    path_seconds: float = PATH_SECONDS,
    executor: Executor | None = None,
) -> RecordResult:
    """Sample every path that the journal does not have yet.

    With an executor, paths are sampled from its engines; the journal is written here.
    """
    recording = _Recording(journal, SampleOptions(seed, keep_text, path_seconds), on_path)
    questions = list(questions)
    jobs, parallel = _missing(questions, journal, paths), max(1, min(parallel, len(questions) * paths))
    where = executor or partial(in_process, engine)
    async with where(parallel=parallel, calls=parallel) as ready, asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(recording.work(jobs, ready)) for _ in range(ready.slots)]
        recording.stop = lambda: [worker.cancel() for worker in workers]
    if recording.error is not None:
        raise recording.error
    return RecordResult(recording.paths, recording.tokens, recording.prompt_tokens, recording.lost)


def _missing(questions: list[RecordQuestion], journal: Journal, paths: int) -> Iterator[tuple[RecordQuestion, int]]:
    for question in questions:
        for number in range(paths):
            if (question.id, number) not in journal.paths:
                yield question, number


class SampleOptions(NamedTuple):
    """How paths are sampled and what is kept of them."""

    seed: int
    keep_text: bool = True
    path_seconds: float = PATH_SECONDS


class SampledPath(NamedTuple):
    """A path and what it cost."""

    path: RecordedPath
    prompt_tokens: int


class _Recording:
    """What the workers share."""

    def __init__(self, journal: Journal, options: SampleOptions, on_path: PathCallback) -> None:
        self.journal, self.options, self.on_path = journal, options, on_path
        self.paths = self.tokens = self.prompt_tokens = 0
        self.unavailable = 0  # paths in a row that found no server
        self.lost: EngineError | None = None
        self.error: Exception | None = None
        self.stop: Callable[[], object] = lambda: None

    async def work(self, jobs: Iterator[tuple[RecordQuestion, int]], executor: OpenExecutor) -> None:
        """Sample one path after the other until none is left, or until an error makes going on pointless."""
        for question, number in jobs:
            try:
                sampled: SampledPath = await executor.call(sample_path, question, number, self.options)
                self.paths += 1
                self.tokens += sampled.path.tokens
                self.prompt_tokens += sampled.prompt_tokens
                self.journal.add(question.id, sampled.path)
                self.unavailable = 0
                self.on_path(question.id, sampled.path)
            except (EngineRejected, MissingLogprobs) as error:
                self.fail(error)
            except EngineError as error:
                self.lost = error
                self.on_path(question.id, None)
                self.unavailable += isinstance(error, EngineUnavailable)
                if self.unavailable >= executor.slots:
                    self.fail(error)
            except Exception as error:  # ends the recording and reaches the caller
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stop all workers."""
        self.error = self.error or error
        self.stop()


async def sample_path(engine: Engine, question: RecordQuestion, number: int, options: SampleOptions) -> SampledPath:
    """One path; if one of several servers loses it in the middle, it begins again on another, with its seed."""
    try:
        return await _sample_once(engine, question, number, options)
    except (EngineRejected, MissingLogprobs, EngineUnavailable):
        raise
    except EngineError:
        if engine.servers == 1:
            raise
        return await _sample_once(engine, question, number, options)


async def _sample_once(engine: Engine, question: RecordQuestion, number: int, options: SampleOptions) -> SampledPath:
    """One path, to its end."""
    seed, collected, prompt_tokens = path_seed(options.seed, number), CollectedPath(), 0
    # An engine that watches its own paths sends all signals at the end.
    prompt = replace(question.prompt, watch=WatchOptions(None, None) if question.prompt.signals else None)
    judge = for_question(question.judge, question.prompt.last_text)
    try:
        async with asyncio.timeout(options.path_seconds), aclosing(engine.stream(prompt, seed=seed)) as chunks:
            async for tokens in chunks:
                chunk = as_chunk(tokens)
                collected.add(chunk)
                prompt_tokens += chunk.prompt_tokens or 0
    except TimeoutError:
        raise EngineError(f"a path did not end within {options.path_seconds:g} s", path=number, seed=seed) from None
    text = collected.text
    answer, note = await extract_in_run(judge, text)
    if note is not None:
        raise UsageError(note)
    path = RecordedPath(answer, collected.peak, collected.conf, number, collected.finish,
                        text if options.keep_text else None, seed)  # fmt: skip
    return SampledPath(path, prompt_tokens)


class CollectedPath:
    """What the chunks of a path have brought so far."""

    def __init__(self) -> None:
        self.peak: list[float] = []
        self.conf: list[float] = []
        self.finish = "stop"
        self._texts: list[str] = []

    def add(self, chunk: Chunk) -> None:
        self.peak += [token.peak for token in chunk]
        self.conf += [token.conf for token in chunk]
        if chunk.summary is not None and chunk.summary.signals is not None:
            self.peak, self.conf = (column.tolist() for column in chunk.summary.signals.T)
        self._texts.append(chunk.text)
        self.finish = chunk.finish or self.finish

    @property
    def text(self) -> str:
        """Surrogate halves that came apart are joined; one that stays alone could not be written to a file."""
        return mend("".join(self._texts))
