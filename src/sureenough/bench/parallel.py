"""One pass over pools on several cores: a task sees every question once, values come back in the file's order.

A task is a picklable callable of one question, so that any number of processes gives the same bits. Workers are fresh
interpreters (spawn): nothing of the caller's threads or locks is inherited. They read their own part of a file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Generic, NamedTuple, TypeVar

from sureenough.answers import REPLAY_SECONDS, warm_up
from sureenough.bench.judging import Equal, JudgedAnswers, PoolJudge, judge_question
from sureenough.bench.source import Source
from sureenough.core.options import DEFAULT_WINDOW
from sureenough.errors import SureEnoughError
from sureenough.pools import Pool, Question

T = TypeVar("T")
Task = Callable[[Question, JudgedAnswers], T]
PARTS: Final = 4
"""Parts a process, so that no core waits long for the last one."""


@dataclass(slots=True)
class OpenPool:
    """A source, looked at once: its window, its hash, its judged answers."""

    source: Source
    pool: Pool
    groups: PoolJudge
    sha256: str
    window: int  # what the caller asked for, else what the pool suggests
    questions: int = 0
    damaged: int = 0


@dataclass(slots=True)
class PoolResults(Generic[T]):
    """What a task made of one source, a value a question."""

    opened: OpenPool
    values: list[T] = field(default_factory=list)


class _Part(NamedTuple, Generic[T]):
    """A worker's share: rows of one pool, and what is known of their answers."""

    source: int
    number: int
    file: Path
    first: int
    last: int
    skip_damaged: bool
    known: dict[str, JudgedAnswers]
    symbolic_seconds: float
    equal: Equal
    task: Task[T]


class _Made(NamedTuple, Generic[T]):
    source: int
    number: int
    values: list[T]
    news: dict[str, JudgedAnswers]
    damaged: int
    rows: int


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def map_questions(
    sources: Sequence[Source],
    task_of: Callable[[OpenPool], Task[T]],
    *,
    jobs: int = 1,
    window: int | None = None,
    symbolic_seconds: float | None = None,
    equal: Equal = "meaning",
    skip_damaged: bool = False,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> list[PoolResults[T]]:
    """Every source under its task; `progress` is told of paths looked at."""
    seconds = REPLAY_SECONDS if symbolic_seconds is None else symbolic_seconds
    opened = [_open(source, window, seconds, equal, skip_damaged) for source in sources]
    tasks = [task_of(one) for one in opened]
    parts = [part for i, one in enumerate(opened) for part in _parts(i, one, tasks[i], jobs * PARTS)]
    total, done = sum(one.pool.rows for one in opened), 0
    made: list[_Made[T]] = []
    for result in _work(parts, jobs):
        made.append(result)
        done += result.rows
        progress(done, total)
    seen: list[PoolResults[T]] = [PoolResults(one) for one in opened]
    for result in sorted(made, key=lambda one: (one.source, one.number)):
        mine = seen[result.source]
        mine.values += result.values
        mine.opened.groups.learn(result.news)
        mine.opened.damaged += result.damaged
        mine.opened.questions = len(mine.values)
    for mine in seen:
        mine.opened.groups.save()
    return seen


def _open(source: Source, window: int | None, seconds: float, equal: Equal, skip_damaged: bool) -> OpenPool:
    pool = Pool(source.pool, skip_damaged=skip_damaged)
    size = window if window is not None else pool.info.window or DEFAULT_WINDOW
    return OpenPool(source, pool, PoolJudge(pool, seconds, equal), source.digest(), size)


def _parts(source: int, opened: OpenPool, task: Task[T], most: int) -> Iterator[_Part[T]]:
    """The pool cut where questions start; a damaged one is read by one process, from end to end."""
    pool, groups = opened.pool, opened.groups
    starts = [0] if pool.skip_damaged else pool.starts()
    each = max(1, -(-pool.rows // most))
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= each:
            cuts.append(start)
    cuts.append(pool.rows)
    common = (pool.skip_damaged, groups.known(), groups.symbolic_seconds, groups.equal, task)
    for number, (first, last) in enumerate(pairwise(cuts)):
        yield _Part(source, number, pool.file, first, last, *common)


def _work(parts: list[_Part[T]], jobs: int) -> Iterator[_Made[T]]:
    if jobs <= 1 or len(parts) <= 1:
        yield from map(_do, parts)
        return
    # Large files first: what is long should not be left for the end.
    ordered = sorted(parts, key=lambda part: -part.file.stat().st_size)
    with ProcessPoolExecutor(min(jobs, len(parts)), mp_context=get_context("spawn")) as workers:
        waiting: list[Future[_Made[T]]] = [workers.submit(_do, part) for part in ordered]
        try:
            for future in as_completed(waiting):
                yield future.result()
        except BrokenProcessPool:
            raise SureEnoughError(
                "a worker process died, most likely for want of memory; try --jobs 1. In a script of your own, "
                "call experiments under `if __name__ == '__main__':`"
            ) from None
        finally:
            workers.shutdown(wait=True, cancel_futures=True)


def _do(part: _Part[T]) -> _Made[T]:
    """In a worker: the task on every question of a part."""
    pool = Pool(part.file, skip_damaged=part.skip_damaged)
    values: list[T] = []
    news: dict[str, JudgedAnswers] = {}
    for question in pool.part(part.first, part.last):
        judged = part.known.get(question.id)
        if judged is None:
            warm_up()  # or how many processes start at once would decide which pairs get a verdict
            judged = news[question.id] = judge_question(question, part.symbolic_seconds, part.equal)
        values.append(part.task(question, judged))
    return _Made(part.source, part.number, values, news, pool.damaged, part.last - part.first)
