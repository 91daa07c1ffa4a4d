"""Sample paths of many questions into a journal: whenever it is stopped, no path is lost or sampled twice.

A complete journal becomes a pool. A pool that is extended becomes a journal again first.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol
from zlib import crc32

from sureenough.answers import Judge, for_question
from sureenough.answers.kinds import Math
from sureenough.core.events import path_seed
from sureenough.drivers.judging import extract_in_run
from sureenough.engines.base import End, Engine, Part, Piece, Prompt, WatchOptions, as_part
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs, TraceError, UsageError
from sureenough.json_text import mend
from sureenough.pools import Journal, Pool, PoolInfo, Question, RecordedPath, write_journal_pool
from sureenough.pools.journal import Recordable, reopen, with_window
from sureenough.pools.write import PART, FolderReplacement, system_message


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
    async with engine.open(parallel=parallel) as ready:
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
    seed, collected = path_seed(options.seed, number), CollectedPath()
    # An engine that watches its own paths sends all signals at the end.
    prompt = replace(question.prompt, watch=WatchOptions(None, None) if question.prompt.signals else None)
    judge = for_question(question.judge, question.prompt.last_text)
    try:
        async with asyncio.timeout(options.path_seconds), aclosing(engine.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                collected.add(as_part(chunk))
    except TimeoutError:
        raise EngineError(f"a path did not end within {options.path_seconds:g} s", path=number, seed=seed) from None
    text = collected.text
    answer, note = await extract_in_run(judge, text)
    if note is not None:
        raise UsageError(note)
    path = RecordedPath(answer, collected.peak, collected.conf, number, collected.end.finish,
                        text if options.keep_text else None, seed)  # fmt: skip
    return SampledPath(path, collected.end.prompt_tokens or 0)


class CollectedPath:
    """What a path has brought so far."""

    def __init__(self) -> None:
        self.peak: list[float] = []
        self.conf: list[float] = []
        self.end = End()
        self._texts: list[str] = []

    def add(self, part: Part) -> None:
        self._texts.append(part.text)
        if isinstance(part, Piece):
            self.peak += [token.peak for token in part.tokens]
            self.conf += [token.conf for token in part.tokens]
        elif isinstance(part, End):
            self.end = part
            if part.summary is not None and part.summary.signals is not None:
                self.peak, self.conf = (column.tolist() for column in part.summary.signals.T)

    @property
    def text(self) -> str:
        """Surrogate halves that came apart are joined; one that stays alone could not be written to a file."""
        return mend("".join(self._texts))


# -- pools, new and extended


def recorded_with(terms: dict[str, Any], questions: Sequence[RecordQuestion]) -> dict[str, Any]:
    """What a pool keeps of its recording, so that it can be extended: the terms, and a checksum of every prompt."""
    return {"recorded": terms, "prompts": {one.id: f"{crc32(one.prompt.text.encode()):08x}" for one in questions}}


class PoolExtension:
    """A pool that exists, checked against what is to be recorded: its paths must come from the same distribution."""

    def __init__(self, file: Path, questions: Sequence[RecordQuestion], info: PoolInfo) -> None:
        self._pool = Pool(file)
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
        if any(path not in journal.paths for path in self.paths):
            raise self._refusal(f"it holds paths that {journal.file} lacks, so it changed after that was begun")

    def _check_info(self, info: PoolInfo) -> None:
        """By all terms if the pool has kept them, else by those that pools always say."""
        old, new = self._pool.info, info
        recorded, terms = old.more.get("recorded"), new.more["recorded"]
        pairs = {}
        if isinstance(recorded, dict):
            pairs["kind"] = (recorded.get("kind"), terms.get("kind"))  # before the prompt, which it changes
        pairs |= {name: (getattr(old, name), getattr(new, name)) for name in ("model", "k", "sampling", "prompt")}
        if isinstance(recorded, dict):
            pairs |= {name: (recorded.get(name), terms.get(name)) for name in terms if name != "dataset"}
        for name, (before, now) in pairs.items():
            if before != now:
                if isinstance(before, dict) and isinstance(now, dict):  # of the sampling, only what differs
                    name, before, now = _difference(before, now)
                raise self._refusal(f"it was recorded with {name} {before!r}, not {now!r}")

    def _refusal(self, reason: str) -> TraceError:
        return TraceError(f"{self._pool.name} exists and cannot be extended: {reason}; name another output")


def write_recorded_pool(
    output: Path,
    questions: Sequence[RecordQuestion],
    journal: Journal,
    info: PoolInfo,
    earlier: PoolExtension | None,
    *,
    rows_per_part: int | None,
    keep_text: bool,
) -> None:
    """Write the journal's paths as one file, or as a folder of parts with about so many paths each.

    Prompts are kept beside the questions that they belong to. What an earlier pool has of others stays.
    """
    every: list[Recordable] = [*(earlier.others if earlier else ()), *questions]
    keep = partial(write_journal_pool, journal=journal, keep_text=keep_text)
    if rows_per_part is None:
        keep(output, every, info=info)
        return
    info = with_window(info, [one.id for one in every], journal)
    with_kinds = any(one.kind is not None for one in every)
    replacement = FolderReplacement(output)
    try:
        folder = replacement.begin()
        for number, group in enumerate(_groups(every, journal, rows_per_part)):
            prompts = {one.id: info.more["prompts"][one.id] for one in group if one.id in info.more["prompts"]}
            own = replace(info, more=info.more | {"prompts": prompts})
            keep(folder / PART.format(number), group, info=own, keep_kinds=with_kinds)
        replacement.publish(earlier.files if earlier else ())
    except OSError as error:
        raise TraceError(
            f"cannot write {output}: {system_message(error)}. All paths are safe in {journal.file}; "
            "when the folder can be written, give the same command again"
        ) from None


def _groups(questions: Sequence[Recordable], journal: Journal, rows: int) -> Iterator[list[Recordable]]:
    """Questions with at least so many paths together, the last group perhaps with fewer."""
    group: list[Recordable] = []
    size = 0
    for question in questions:
        paths = len(journal.paths.numbers(question.id))
        if not paths:
            continue
        group.append(question)
        size += paths
        if size >= rows:
            yield group
            group, size = [], 0
    if group:
        yield group


def _texts(value: object) -> dict[str, str]:
    """What a file says in a JSON object of texts; other values are left out."""
    return {name: text for name, text in value.items() if isinstance(text, str)} if isinstance(value, dict) else {}


def _difference(before: dict[str, Any], now: dict[str, Any]) -> tuple[str, Any, Any]:
    """The first name with two values, and both."""
    name = next(name for name in {**before, **now} if before.get(name) != now.get(name))
    return name, before.get(name), now.get(name)
