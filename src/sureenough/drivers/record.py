"""Sample paths of many questions at once into a journal: no path is lost or sampled twice, whenever it is stopped."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from contextlib import aclosing
from typing import NamedTuple

from sureenough.answers import extract as find
from sureenough.core.events import path_seed
from sureenough.drivers.judging import Extract
from sureenough.engines.base import Chunk, Engine, Prompt, opened
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.pools import Journal, RecordedPath


class RecordQuestion(NamedTuple):
    """A question to record."""

    id: str
    prompt: Prompt
    gold: str | None = None
    level: int | None = None
    extract: Extract = find  # its answers are found so


class RecordResult(NamedTuple):
    """What a recording came to."""

    paths: int  # new ones
    tokens: int
    prompt_tokens: int
    lost: EngineError | None  # the latest failure, where paths are missing


PathCallback = Callable[[str, RecordedPath | None], None]
"""Is told of every path that was kept, and of those that were lost."""


async def record(
    questions: Iterable[RecordQuestion],
    engine: Engine,
    journal: Journal,
    *,
    paths: int,
    parallel: int,
    seed: int,
    keep_text: bool = True,
    told: PathCallback = lambda question, path: None,
) -> RecordResult:
    """Sample every path that the journal does not have yet."""
    missing = _missing(list(questions), journal, paths)
    work = _Work(missing, journal, seed, keep_text, told)
    async with opened(engine, parallel) as ready, asyncio.TaskGroup() as tasks:
        workers = [tasks.create_task(work.worker(ready, parallel)) for _ in range(parallel)]
        work.stop = lambda: [worker.cancel() for worker in workers]
    if work.broken is not None:
        raise work.broken
    return RecordResult(work.paths, work.tokens, work.prompt_tokens, work.lost)


def _missing(questions: list[RecordQuestion], journal: Journal, paths: int) -> Iterator[tuple[RecordQuestion, int]]:
    for question in questions:
        for number in range(paths):
            if (question.id, number) not in journal.paths:
                yield question, number


class _Work:
    """What the workers share."""

    def __init__(
        self,
        jobs: Iterator[tuple[RecordQuestion, int]],
        journal: Journal,
        seed: int,
        keep_text: bool,
        told: PathCallback,
    ) -> None:
        self.jobs, self.journal, self.seed = jobs, journal, seed
        self.keep_text, self.told = keep_text, told
        self.paths = self.tokens = self.prompt_tokens = 0
        self.unanswered = 0
        self.lost: EngineError | None = None
        self.broken: Exception | None = None
        self.stop: Callable[[], object] = lambda: None

    async def worker(self, engine: Engine, parallel: int) -> None:
        """Take one path after the other until none is left, or going on makes no sense."""
        for question, number in self.jobs:
            try:
                path = await self.sample(question, number, engine)
                self.journal.add(question.id, path)
                self.unanswered = 0
                self.told(question.id, path)
            except (EngineRejected, MissingLogprobs) as error:
                self.fail(error)
            except EngineError as error:
                self.lost = error
                self.told(question.id, None)
                self.unanswered += isinstance(error, EngineUnavailable)
                if self.unanswered >= parallel:
                    self.fail(error)
            except Exception as error:  # ends the recording and reaches the caller
                self.fail(error)

    def fail(self, error: Exception) -> None:
        """Nothing more can be recorded: everybody stops."""
        self.broken = self.broken or error
        self.stop()

    async def sample(self, question: RecordQuestion, number: int, engine: Engine) -> RecordedPath:
        """One path, whole."""
        seed = path_seed(self.seed, number)
        peak: list[float] = []
        conf: list[float] = []
        said: list[str] = []
        finish = "stop"
        async with aclosing(engine.stream(question.prompt, seed=seed)) as chunks:
            async for chunk in _chunks(chunks):
                peak += [token.peak for token in chunk]
                conf += [token.conf for token in chunk]
                said.append(chunk.text)
                finish = chunk.finish or finish
                self.prompt_tokens += chunk.prompt_tokens or 0
        # Halves of a character that came apart are joined; one that stays alone could not be written down.
        text = "".join(said).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self.paths += 1
        self.tokens += len(conf)
        answer = await asyncio.to_thread(question.extract, text)
        return RecordedPath(answer, peak, conf, number, finish, text if self.keep_text else None, seed)


async def _chunks(stream: AsyncIterator[object]) -> AsyncIterator[Chunk]:
    async for chunk in stream:
        yield chunk if isinstance(chunk, Chunk) else Chunk(chunk)  # type: ignore[arg-type]
