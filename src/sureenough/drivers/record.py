"""Sample paths of many questions into a journal: whenever it is stopped, no path is lost or sampled twice.

A complete journal becomes a pool. A pool that is extended becomes a journal again first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from sureenough.answers import Judge, for_question
from sureenough.answers.kinds import Math
from sureenough.core.events import path_seed
from sureenough.drivers.judging import extract_in_run
from sureenough.engines.base import End, Engine, Prompt, WatchOptions, as_part
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, TraceError, UsageError
from sureenough.json_text import mend
from sureenough.pools import Journal, Pool, PoolInfo, Question, RecordedPath
from sureenough.pools.journal import Key, changed_terms, reopen


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
    async with engine.open(parallel=parallel) as ready:
        yield _InProcess(ready, calls)


class RecordQuestion(NamedTuple):
    id: str
    prompt: Prompt
    gold: str | None = None
    level: int | None = None
    judge: Judge = Math()
    text: str | None = None  # without the template
    kind: str | None = None  # of answer, if it is not that of the whole pool

    def without_paths(self) -> Question:
        return Question(self.id, self.gold, self.level, [], self.text, self.kind)


@dataclass(slots=True)
class RecordResult:
    paths: int = 0
    tokens: int = 0
    prompt_tokens: int = 0
    lost: EngineError | None = None  # the latest failure, if paths are missing


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
    on_path: Callable[[str, RecordedPath], None] = lambda question, path: None,
    path_seconds: float = PATH_SECONDS,
    executor: Executor | None = None,
) -> RecordResult:
    """Sample every path that the journal does not have yet.

    With an executor, paths are sampled from its engines; the journal is written here.
    """
    result, unavailable = RecordResult(), 0  # paths in a row that found no server
    questions = list(questions)
    jobs, parallel = missing_paths(questions, paths, journal), max(1, min(parallel, len(questions) * paths))
    sample = partial(sample_path, seed=seed, keep_text=keep_text, seconds=path_seconds)

    async def work(ready: OpenExecutor) -> None:
        """Sample one path after the other until none is left, or until an error makes going on pointless."""
        nonlocal unavailable
        for question, number in jobs:
            try:
                path, prompt_tokens = await ready.call(sample, question, number)
            except (EngineRejected, MissingLogprobs):
                raise
            except EngineError as error:
                result.lost = error
                unavailable += isinstance(error, EngineUnavailable)
                if unavailable >= ready.slots:
                    raise
                continue
            journal.add(question.id, path)
            unavailable = 0
            result.paths += 1
            result.tokens += path.tokens
            result.prompt_tokens += prompt_tokens
            on_path(question.id, path)

    where = executor or partial(in_process, engine)
    async with where(parallel=parallel, calls=parallel) as ready:
        try:
            async with asyncio.TaskGroup() as tasks:
                for _ in range(ready.slots):
                    tasks.create_task(work(ready))
        except ExceptionGroup as group:
            raise group.exceptions[0] from None
    return result


def missing_paths(
    questions: Iterable[RecordQuestion], paths: int, recorded: Container[Key]
) -> Iterator[tuple[RecordQuestion, int]]:
    """The questions and the numbers of the paths that are not recorded yet; there may be more than are wanted."""
    return ((one, number) for one in questions for number in range(paths) if (one.id, number) not in recorded)


async def sample_path(
    engine: Engine, question: RecordQuestion, number: int, *, seed: int, keep_text: bool, seconds: float
) -> tuple[RecordedPath, int]:
    """One path and its prompt tokens; if one of several servers loses it, it begins again on another, with its seed."""
    seed = path_seed(seed, number)
    try:
        sampled = await _sample_once(engine, question, number, seed, seconds)
    except (EngineRejected, MissingLogprobs, EngineUnavailable):
        raise
    except EngineError:
        if engine.servers == 1:
            raise
        sampled = await _sample_once(engine, question, number, seed, seconds)
    return sampled if keep_text else (replace(sampled[0], text=None), sampled[1])


async def _sample_once(
    engine: Engine, question: RecordQuestion, number: int, seed: int, seconds: float
) -> tuple[RecordedPath, int]:
    # An engine that watches its own paths sends all signals at the end.
    prompt = replace(question.prompt, watch=WatchOptions(None, None) if question.prompt.signals else None)
    judge = for_question(question.judge, question.prompt.last_text)
    peak: list[float] = []
    conf: list[float] = []
    texts: list[str] = []
    end = End()
    try:
        async with asyncio.timeout(seconds), aclosing(engine.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                part = as_part(chunk)
                texts.append(part.text)
                peak += [token.peak for token in part.tokens]
                conf += [token.conf for token in part.tokens]
                end = part if isinstance(part, End) else end
    except TimeoutError:
        raise EngineError(f"a path did not end within {seconds:g} s", path=number, seed=seed) from None
    # Surrogate halves that came apart are joined; one that stays alone could not be written to a file.
    text = mend("".join(texts))
    answer, note = await extract_in_run(judge, text)
    if note is not None:
        raise UsageError(note)
    if end.summary is not None and end.summary.signals is not None:
        peak, conf = end.summary.signals.T.tolist()
    return RecordedPath(answer, peak, conf, number, end.finish, text, seed), end.prompt_tokens or 0


# -- pools, new and extended


def recorded_with(terms: dict[str, Any], questions: Sequence[RecordQuestion]) -> dict[str, Any]:
    """What a pool keeps of its recording, so that it can be extended: the terms, and a checksum of every prompt."""
    return {"recorded": terms, "prompts": {one.id: f"{crc32(one.prompt.text.encode()):08x}" for one in questions}}


class PoolExtension:
    """A pool that exists, checked against what is to be recorded: its paths must come from the same distribution."""

    def __init__(self, file: Path, questions: Sequence[RecordQuestion], info: PoolInfo) -> None:
        self._pool = Pool(file)
        if self._pool.signals != "tokens":
            raise self._refusal("its paths have no signals")
        self._check_info(info)
        wanted = {question.id: question for question in questions}
        seed: int = info.more["recorded"]["seed"]
        self.files = {Path(part.path).name for part in self._pool.parts}
        self.paths: set[tuple[str, int]] = set()
        self.others: list[Question] = []  # questions that are not to be recorded now, without their paths
        self.text = False  # whether paths were kept with their text
        prompts: dict[str, str] = {}
        for info_of_part in (part.info() for part in self._pool.parts):
            prompts |= _texts(info_of_part.more.get("prompts"))
        for question in self._pool:
            if question.id not in wanted:
                self.others.append(replace(question, paths=[]))
            elif wanted[question.id].gold != question.gold:
                raise self._refusal(f"question {question.id!r} has another gold answer in it")
            elif prompts.get(question.id) not in (None, info.more["prompts"][question.id]):
                raise self._refusal(f"question {question.id!r} has another text in it")
            for path in question.paths:
                if path.number is None or path.seed not in (None, path_seed(seed, path.number)):
                    raise self._refusal("its paths have other seeds")
                self.paths.add((question.id, path.number))
                self.text |= path.text is not None
        info.more["prompts"] = prompts | info.more["prompts"]

    def reopen(self, journal: Path, terms: dict[str, Any]) -> None:
        """Make the pool's journal; if this is killed, the pool is as it was."""
        reopen(self._pool, journal, terms)

    def check_journal(self, journal: Journal) -> None:
        """Refuse to go on with a journal that lacks paths of the pool: those would be lost."""
        if any(path not in journal for path in self.paths):
            raise self._refusal(f"it holds paths that {journal.file} lacks, so it changed after that was begun")

    def _check_info(self, info: PoolInfo) -> None:
        """By all terms if the pool has kept them, else by those that pools always say."""
        old, terms = self._pool.info, info.more["recorded"]
        kept = old.more.get("recorded")
        before = {"model": old.model, "k": old.k, "template": old.prompt, **old.sampling}
        said = {"model": info.model, "k": info.k, "template": info.prompt, **info.sampling}
        before, now = (kept, terms) if isinstance(kept, dict) else (before, said)
        changed = changed_terms(before | {"dataset": None}, now | {"dataset": None})
        if changed is not None:
            raise self._refusal(f"it was recorded with {changed}")

    def _refusal(self, reason: str) -> TraceError:
        return TraceError(f"{self._pool.name} exists and cannot be extended: {reason}; name another output")


def _texts(value: object) -> dict[str, str]:
    """What a file says in a JSON object of texts; other values are left out."""
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}
