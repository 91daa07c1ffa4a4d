"""The one pass over recorded pools: a task sees every question once, and its values come back in the file's order.

`compare`, `replay` and every experiment of `bench` run through here, with any number of processes. A task is a
picklable callable of one question, so that the number of processes does not change a bit of the result. Workers are
fresh interpreters (spawn) and read their own part of a file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from sureenough.bench.judging import Equal, Grader, JudgedAnswers, PoolJudge, judge_of, judge_question, read_again
from sureenough.bench.processes import Processes
from sureenough.bench.published_grader import open_grader
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.errors import TraceError
from sureenough.pools import Pool, Question

T = TypeVar("T")
Task = Callable[[Question, JudgedAnswers], T]


@runtime_checkable
class JoiningTask(Protocol[T]):
    """A task whose values of many questions take less memory as one."""

    def join(self, values: Sequence[T]) -> T: ...


Progress = Callable[[int, int], None]
"""Called with the number of paths done and of all paths."""

JOINED_VALUES: Final = 64
"""Values that wait before they are joined."""
PARTS_PER_JOB: Final = 4
"""So that no core waits long for the last part."""


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


class PoolRows(NamedTuple, Generic[T]):
    """A worker's share: rows of one pool, and the answers that are judged already."""

    task_number: int
    file: str | Path
    tokens: int  # of the whole pool
    first: int
    last: int
    skip_damaged: bool
    judged: dict[str, JudgedAnswers]
    equal: Equal
    kind: Any
    grader: Grader
    task: Task[T]


class RowsResult(NamedTuple, Generic[T]):
    """What a task made of them."""

    values: list[T]
    questions: int
    judged: dict[str, JudgedAnswers]  # in this part
    damaged: int


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
    finished = dict(_run_parts(parts, processes, advance))
    for result in results:
        result.opened.questions = result.opened.damaged = 0
    for number, part in enumerate(parts):
        result, rows = results[part.task_number], finished[number]
        result.values += rows.values
        result.opened.judge.add(rows.judged)
        result.opened.questions += rows.questions
        result.opened.damaged += rows.damaged
    for result in results:
        result.opened.judge.save()
    return results


def open_pool(source: Source, settings: ReplaySettings, window: int | None) -> OpenPool:
    """A pool, its judge, and the caller's window or what the pool suggests."""
    pool = Pool(source.pool, skip_damaged=settings.skip_damaged)
    kind = source.kind if settings.kind is None else settings.kind
    size = pool.window() if window is None else window
    return OpenPool(source, pool, PoolJudge(pool, settings.equal, kind, settings.grader), size)


def _parts(task_number: int, opened: OpenPool, task: Task[T], most: int) -> Iterator[PoolRows[T]]:
    """The pool cut between questions; a damaged one is read by one process, from beginning to end."""
    pool, whole = opened.pool, whole_pool(opened, task)
    starts = [0] if pool.skip_damaged or most == 1 else pool.starts()
    rows_per_part = max(1, -(-pool.rows // most))
    cuts = [0]
    for start in starts:
        if start - cuts[-1] >= rows_per_part:
            cuts.append(start)
    cuts.append(pool.rows)
    for first, last in pairwise(cuts):
        yield whole._replace(task_number=task_number, first=first, last=last)


def whole_pool(opened: OpenPool, task: Task[T]) -> PoolRows[T]:
    """All rows of a pool, as one share."""
    pool, judge = opened.pool, opened.judge
    return PoolRows(0, pool.file, pool.tokens, 0, pool.rows, pool.skip_damaged, judge.judged,
                    judge.equal, judge.kind, judge.grader, task)  # fmt: skip


def _run_parts(
    parts: list[PoolRows[T]], processes: Processes, advance: Callable[[int], None]
) -> Iterator[tuple[int, RowsResult[T]]]:
    if processes.jobs == 1 or len(parts) <= 1:
        yield from ((number, run_rows(part, advance)) for number, part in enumerate(parts))
        return
    # Large pools first: long parts should not be left for the end.
    order = sorted(range(len(parts)), key=lambda number: -parts[number].tokens)
    for place, result in processes.run(run_rows, [parts[number] for number in order]):
        part = parts[order[place]]
        yield order[place], result
        advance(part.last - part.first)


def run_rows(part: PoolRows[T], advance: Callable[[int], None] = lambda paths: None) -> RowsResult[T]:
    """Apply the task to every question of a part; runs in a worker if there are several."""
    pool = Pool(part.file, skip_damaged=part.skip_damaged)
    if pool.tokens != part.tokens:
        raise TraceError(f"{pool.name} is not the pool that was opened: it was replaced, or is another one here")
    values: list[T] = []
    newly_judged: dict[str, JudgedAnswers] = {}
    questions = 0
    task: object = part.task
    join = task.join if isinstance(task, JoiningTask) else None
    with open_grader(part.grader) as grader:
        for question in pool.part(part.first, part.last):
            question = read_again(question, part.kind, pool)
            judged = part.judged.get(question.id)
            if judged is None:
                judged = judge_question(question, part.equal, judge_of(question, part.kind, pool), grader)
                newly_judged[question.id] = judged
            values.append(part.task(question, judged))
            questions += 1
            if len(values) > JOINED_VALUES and join is not None:
                values = [join(values)]
            advance(len(question.paths))
    values = values if join is None else [join(values)]
    return RowsResult(values, questions, newly_judged, pool.damaged)
