"""The one pass over recorded pools: a task sees every question once, and its values come back in the file's order.

`compare`, `replay` and every experiment of `bench` run through here, with any number of processes. A task is a
picklable callable of one question, so that the number of processes does not change a bit of the result. Workers are
fresh interpreters (spawn) and read their own part of a file.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import Field, dataclass, field, fields
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, Protocol, Self, TypeVar, runtime_checkable

from sureenough.answers import resolve_kind
from sureenough.bench.judging import (
    Equal,
    Grader,
    JudgedAnswers,
    PoolJudge,
    check_equal,
    check_grader,
    judge_of,
    judge_question,
    read_again,
)
from sureenough.bench.published_grader import open_grader
from sureenough.core.options import RunOptions, check_count
from sureenough.errors import SureEnoughError, TraceError, UsageError
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


MOST_REPEATS: Final = 10_000
DEFAULT_REPEATS: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplaySettings:
    """Everything but `jobs` can change numbers."""

    repeats: int = DEFAULT_REPEATS  # orders of every question's paths
    equal: Equal = "meaning"
    grader: Grader = "own"
    kind: Any = None  # of answer, of questions that have none of their own; what the pool says by default
    skip_damaged: bool = False
    jobs: int = 1  # processes; more than one needs `if __name__ == "__main__":` in a script

    def __post_init__(self) -> None:
        check_count("repeats", self.repeats)
        check_count("jobs", self.jobs)
        check_equal(self.equal)
        check_grader(self.grader)
        if self.kind is not None:
            resolve_kind(self.kind)
        if self.jobs > 1 and not isinstance(self.kind, str | None):
            _refuse_local(self.kind)
        if self.repeats > MOST_REPEATS:
            raise UsageError(
                f"repeats is {self.repeats}; at most {MOST_REPEATS:,} are allowed, and ten are plenty",
                argument="repeats",
            )

    @classmethod
    def fields(cls) -> dict[str, Field[Any]]:
        return {setting.name: setting for setting in fields(cls)}


def _refuse_local(judge: Any) -> None:
    try:
        pickle.dumps(judge)
    except Exception:
        raise UsageError(
            "this judge cannot be sent to other processes: use jobs=1, or name it as kind='module:attribute'",
            argument="kind",
        ) from None


def changed_settings(*parts: RunOptions | ReplaySettings) -> dict[str, Any]:
    """The values that differ from their defaults, by name; `jobs` changes no number and is left out."""
    values = [(field, getattr(part, name)) for part in parts for name, field in part.fields().items()]
    changed = {field.name: value for field, value in values if value != field.default and field.name != "jobs"}
    if "kind" in changed and not isinstance(changed["kind"], str):
        changed["kind"] = repr(changed["kind"])
    return changed


@dataclass(frozen=True, slots=True)
class Source:
    """One dataset sampled from one model."""

    dataset: str
    model: str
    pool: Path
    kind: str | None = None  # of answer, if it is known from elsewhere than the file

    @classmethod
    def of(cls, pool: str | Path, *, dataset: str | None = None, model: str | None = None) -> Source:
        """Named by the caller, else by the pool's metadata, else by its file or folder name."""
        info = Pool(pool).info
        file = Path(pool)
        return cls(dataset or info.dataset or file.stem, model or _short(info.model) or "unknown model", file)

    @property
    def label(self) -> str:
        """Both names, for a row of a table."""
        return f"{self.dataset}, {self.model}"

    def digest(self) -> str:
        return Pool(self.pool).digest()


def _short(model: str | None) -> str | None:
    """A model's name without a remark in parentheses."""
    return model.split(" (")[0].strip() or None if model is not None else None


A = TypeVar("A")
R = TypeVar("R")
WORTH_PROCESSES: Final = 20_000_000
"""Tokens times repeats: a few seconds in one process, as long as the imports of the others take."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suitable_jobs(pool: Path, repeats: int) -> int:
    """All cores, or one process if starting others would take longer than the replay."""
    return cores() if Pool(pool).tokens * repeats >= WORTH_PROCESSES else 1


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
