"""The one pass over recorded pools: a task sees every question once, and its values come back in the file's order.

`compare`, `replay` and every experiment of `bench` run through here, with any number of processes. A task is a
picklable callable of one question, so that the number of processes does not change a bit of the result. Workers are
fresh interpreters (spawn) and read their own part of a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Self, TypeVar

from sureenough.answers import warm_up
from sureenough.answers.boxed_kinds import Math
from sureenough.bench.judging import Equal, JudgedAnswers, PoolJudge, judge_of, judge_question, read_again
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.drivers.judging import PoolVerdicts
from sureenough.errors import SureEnoughError
from sureenough.pools import Pool, Question

T = TypeVar("T")
A = TypeVar("A")
R = TypeVar("R")
Task = Callable[[Question, JudgedAnswers], T]
Progress = Callable[[int, int], None]
"""Called with the number of paths done and of all paths."""

PARTS_PER_JOB: Final = 4
"""So that no core waits long for the last part."""
WORTH_PROCESSES: Final = 20_000_000
"""Tokens times repeats: a few seconds in one process, as long as the imports of the others take."""


@dataclass(slots=True)
class OpenPool:
    """A source with its window, its hash and its judged answers."""

    source: Source
    pool: Pool
    judge: PoolJudge
    window: int  # the caller's, else what the pool suggests
    questions: int = 0
    damaged: int = 0
    notes: list[str] = field(default_factory=list)  # about the choice of strategies


@dataclass(slots=True)
class PoolResults(Generic[T]):
    """A task's values on one source, one per question."""

    opened: OpenPool
    values: list[T] = field(default_factory=list)


class _Part(NamedTuple, Generic[T]):
    """A worker's share: rows of one pool, and the answers that are judged already."""

    task_number: int
    number: int
    file: Path
    first: int
    last: int
    skip_damaged: bool
    judged: dict[str, JudgedAnswers]
    symbolic_seconds: float
    equal: Equal
    kind: Any
    task: Task[T]


class _PartResult(NamedTuple, Generic[T]):
    task_number: int
    number: int
    values: list[T]
    judged: dict[str, JudgedAnswers]  # in this part
    damaged: int


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suitable_jobs(pool: Path, repeats: int) -> int:
    """All cores, or one process if starting others would take longer than the replay."""
    return cores() if Pool(pool).tokens * repeats >= WORTH_PROCESSES else 1


def map_questions(
    sources: Sequence[Source],
    task_of: Callable[[OpenPool], Task[T]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[PoolResults[T]]:
    """Apply a task to every question of every source."""
    opened = [open_pool(source, settings, window) for source in sources]
    tasks = [(pool, task_of(pool)) for pool in opened]
    counter = PathCounter(progress, sum(pool.pool.rows for pool in opened))
    with Processes(settings.jobs) as processes:
        return run_tasks(tasks, processes, counter)


class PathCounter:
    """Reports progress over one or several passes."""

    def __init__(self, progress: Progress, total: int) -> None:
        self._progress, self._total, self._done = progress, total, 0

    def __call__(self, paths: int) -> None:
        self._done += paths
        self._progress(self._done, self._total)


def run_tasks(
    tasks: Sequence[tuple[OpenPool, Task[T]]], processes: Processes, advance: Callable[[int], None]
) -> list[PoolResults[T]]:
    """Apply each task to every question of its pool."""
    most = 1 if processes.jobs == 1 else processes.jobs * PARTS_PER_JOB
    results: list[PoolResults[T]] = [PoolResults(opened) for opened, _ in tasks]
    parts = [part for i, (opened, task) in enumerate(tasks) for part in _parts(i, opened, task, most)]
    finished = sorted(_run_parts(parts, processes, advance), key=lambda part: (part.task_number, part.number))
    damaged = [0] * len(tasks)
    for part in finished:
        results[part.task_number].values += part.values
        results[part.task_number].opened.judge.add(part.judged)
        damaged[part.task_number] += part.damaged
    for result, rows in zip(results, damaged, strict=True):
        result.opened.questions, result.opened.damaged = len(result.values), rows
        result.opened.judge.save()
    return results


def open_pool(source: Source, settings: ReplaySettings, window: int | None) -> OpenPool:
    """A pool, its judge, and the caller's window or what the pool suggests."""
    pool = Pool(source.pool, skip_damaged=settings.skip_damaged)
    kind = source.kind if settings.kind is None else settings.kind
    size = pool.window() if window is None else window
    return OpenPool(source, pool, PoolJudge(pool, settings.symbolic_seconds, settings.equal, kind), size)


def _parts(task_number: int, opened: OpenPool, task: Task[T], most: int) -> Iterator[_Part[T]]:
    """The pool cut between questions; a damaged one is read by one process, from beginning to end."""
    pool, judge = opened.pool, opened.judge
    starts = [0] if pool.skip_damaged or most == 1 else pool.starts()
    rows_per_part = max(1, -(-pool.rows // most))
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= rows_per_part:
            cuts.append(start)
    cuts.append(pool.rows)
    common = (pool.skip_damaged, judge.judged, judge.symbolic_seconds, judge.equal, judge.kind, task)
    for number, (first, last) in enumerate(pairwise(cuts)):
        yield _Part(task_number, number, pool.file, first, last, *common)


def _run_parts(parts: list[_Part[T]], processes: Processes, advance: Callable[[int], None]) -> Iterator[_PartResult[T]]:
    if processes.jobs == 1 or len(parts) <= 1:
        for part in parts:
            yield _run_part(part, advance)
        return
    # Large files first: long parts should not be left for the end.
    ordered = sorted(parts, key=lambda part: -part.file.stat().st_size)
    for number, result in processes.run(_run_part, ordered):
        yield result
        advance(ordered[number].last - ordered[number].first)


class Processes:
    """Up to `jobs` processes that several passes share: they are started when there is work for more than one."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Call a function with each argument; (position, result) as they finish."""
        if self.jobs == 1 or len(arguments) <= 1:
            yield from ((number, function(argument)) for number, argument in enumerate(arguments))
            return
        self._workers = self._workers or ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))
        futures = {self._workers.submit(function, argument): number for number, argument in enumerate(arguments)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise SureEnoughError(
                "a worker process died, most likely because memory ran out; try one job. In a script of your own, "
                "call this under `if __name__ == '__main__':`"
            ) from None


def _run_part(part: _Part[T], advance: Callable[[int], None] = lambda paths: None) -> _PartResult[T]:
    """Apply the task to every question of a part; runs in a worker if there are several."""
    pool = Pool(part.file, skip_damaged=part.skip_damaged)
    values: list[T] = []
    newly_judged: dict[str, JudgedAnswers] = {}
    verdicts = PoolVerdicts.read(pool.info)
    for question in pool.part(part.first, part.last):
        question = read_again(question, part.kind, pool)
        judged = part.judged.get(question.id)
        if judged is None:
            judge = judge_of(question, part.kind, pool)
            if isinstance(judge, Math):
                warm_up()  # otherwise the speed of its start would decide which pairs get a verdict
            judged = judge_question(question, part.symbolic_seconds, part.equal, judge, verdicts)
            newly_judged[question.id] = judged
        values.append(part.task(question, judged))
        advance(len(question.paths))
    return _PartResult(part.task_number, part.number, values, newly_judged, pool.damaged)
