"""The one pass over recorded pools: a task sees every question once, with its answers judged.

`compare`, `replay` and every experiment of `bench` run through here, with any number of processes. A task is picklable
and makes one value of a part of a pool, so that the number of processes does not change a bit of the result. Workers
are fresh interpreters (spawn) and read their own parts.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import Field, dataclass, field, fields
from functools import partial
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sureenough.answers import resolve_kind
from sureenough.bench.judging import Equal, Grader, JudgedAnswers, PoolJudge, check_equal, check_grader
from sureenough.bench.published_grader import open_grader
from sureenough.core.options import RunOptions, check_count
from sureenough.errors import SureEnoughError, UsageError
from sureenough.pools import Pool, Question

A = TypeVar("A")
T = TypeVar("T")
JudgedQuestions = Iterator[tuple[Question, JudgedAnswers]]
Task = Callable[[JudgedQuestions], T]
Progress = Callable[[int, int], None]
"""Called with the number of paths done and of all paths."""

DEFAULT_REPEATS: Final = 5
MOST_REPEATS: Final = 10_000


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
    def of(cls, pool: str | Path) -> Source:
        """Named by the pool's metadata, else by its file or folder name."""
        info, file = Pool(pool).info, Path(pool)
        model = (info.model or "").split(" (")[0].strip()  # without a remark in parentheses
        return cls(info.dataset or file.stem, model or "unknown model", file)

    @property
    def label(self) -> str:
        """Both names, for a row of a table."""
        return f"{self.dataset}, {self.model}"

    def digest(self) -> str:
        return Pool(self.pool).digest()


@dataclass(slots=True)
class OpenPool:
    """A source with its window and its judged answers."""

    source: Source
    pool: Pool
    judge: PoolJudge
    window: int  # the caller's, else what the pool suggests
    damaged: int = 0
    notes: list[str] = field(default_factory=list)  # about the choice of strategies


def open_pools(sources: Sequence[Source], settings: ReplaySettings, window: int | None) -> list[OpenPool]:
    """Each with its judge, and the caller's window or what the pool suggests."""
    opened = []
    for source in sources:
        pool = Pool(source.pool, skip_damaged=settings.skip_damaged)
        kind = source.kind if settings.kind is None else settings.kind
        judge = PoolJudge(pool, settings.equal, kind, settings.grader)
        opened.append(OpenPool(source, pool, judge, pool.window() if window is None else window))
    return opened


class PoolResults(NamedTuple, Generic[T]):
    """A function's values on one source, one per question."""

    opened: OpenPool
    values: list[T]


def map_questions(
    sources: Sequence[Source],
    function_for: Callable[[OpenPool], Callable[[Question, JudgedAnswers], T]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[PoolResults[T]]:
    """Apply a function to every question of every source; values come back in the files' order."""
    results: list[PoolResults[T]] = [PoolResults(opened, []) for opened in open_pools(sources, settings, window)]
    tasks = [(one.opened, partial(_each, function_for(one.opened))) for one in results]
    for number, values in run_tasks(tasks, settings.jobs, progress):
        results[number].values.extend(values)
    return results


def _each(function: Callable[[Question, JudgedAnswers], T], questions: JudgedQuestions) -> list[T]:
    return [function(question, judged) for question, judged in questions]


class _Part(NamedTuple, Generic[T]):
    """Rows of a pool, from one question's first to another's, and what is to be made of them."""

    number: int  # of the pool
    opened: OpenPool
    task: Task[T]
    first: int
    last: int


PARTS_PER_JOB: Final = 4
"""So that no core waits long for the last part."""
MOST_ROWS: Final = 1 << 16
"""Of a part; what is made of a few parts fits in memory, however large the pool is."""


def run_tasks(
    tasks: Sequence[tuple[OpenPool, Task[T]]], jobs: int, progress: Progress = lambda done, total: None
) -> Iterator[tuple[int, T]]:
    """The value of each part with the number of its pool; those of one pool in the order of its rows."""
    # Large pools first: long parts should not be left for the end.
    order = sorted(range(len(tasks)), key=lambda number: -tasks[number][0].pool.tokens)
    parts = [part for number in order for part in _parts(number, *tasks[number], jobs)]
    done, total = 0, sum(opened.pool.rows for opened, _ in tasks)

    def advance(paths: int) -> None:
        nonlocal done
        done += paths
        progress(done, total)

    together = jobs > 1 and len(parts) > 1
    results = in_processes(_run_part, parts, jobs) if together else (_run_part(part, advance) for part in parts)
    for part, (value, judged, damaged) in zip(parts, results, strict=True):
        part.opened.judge.new.update(judged)
        part.opened.damaged += damaged
        yield part.number, value
        if together:
            advance(part.last - part.first)
    for opened, _ in tasks:
        opened.judge.save()


def _parts(number: int, opened: OpenPool, task: Task[T], jobs: int) -> Iterator[_Part[T]]:
    """The pool cut between questions; a damaged one is read by one process, from beginning to end."""
    pool, cuts = opened.pool, [0]
    if jobs > 1 and not pool.skip_damaged:
        least = min(MOST_ROWS, -(-pool.rows // (jobs * PARTS_PER_JOB)))
        for start in pool.starts():
            if start - cuts[-1] >= least:
                cuts.append(start)
    return (_Part(number, opened, task, first, last) for first, last in pairwise([*cuts, pool.rows]))


def _run_part(
    part: _Part[T], advance: Callable[[int], None] = lambda paths: None
) -> tuple[T, dict[str, JudgedAnswers], int]:
    """What the task makes of the part, what was judged for it, and how many rows are damaged; runs in a worker."""
    pool, judge = part.opened.pool, part.opened.judge

    def questions() -> JudgedQuestions:
        for question in pool.part(part.first, part.last):
            yield judge.judge(question, grader)
            advance(len(question.paths))

    with open_grader(judge.grader) as grader:
        return part.task(questions()), judge.new, pool.damaged


WORTH_PROCESSES: Final = 20_000_000
"""Tokens times repeats: a few seconds in one process, as long as the imports of the others take."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suitable_jobs(pool: Path, repeats: int) -> int:
    """All cores, or one process if starting others would take longer than the replay."""
    return cores() if Pool(pool).tokens * repeats >= WORTH_PROCESSES else 1


def in_processes(function: Callable[[A], T], arguments: Iterable[A], jobs: int) -> Iterator[T]:
    """Call a function with each argument in so many processes; results in order, a few of them ahead of the caller."""
    workers = ProcessPoolExecutor(jobs, mp_context=get_context("spawn"))
    ahead: deque[Future[T]] = deque()
    try:
        for argument in arguments:
            ahead.append(workers.submit(function, argument))
            if len(ahead) > 2 * jobs:
                yield ahead.popleft().result()
        while ahead:
            yield ahead.popleft().result()
    except BrokenProcessPool:
        raise SureEnoughError(
            "a worker process died, most likely because memory ran out; try one job. In a script of your own, "
            "call this under `if __name__ == '__main__':`"
        ) from None
    finally:
        workers.shutdown(wait=True, cancel_futures=True)
