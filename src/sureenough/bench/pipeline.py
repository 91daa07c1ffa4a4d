"""The one pass over recorded pools: a function sees every question once, with its answers judged.

`compare`, `replay` and every experiment of `bench` run through here, with any number of processes. The function is
picklable and makes a value of each question, so that the number of processes does not change a bit of the result.
Workers are fresh interpreters (spawn) and read their own parts.
"""

from __future__ import annotations

import os
import pickle
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import Field, dataclass, field, fields, replace
from itertools import pairwise
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Final, Generic, NamedTuple, TypeVar

from sureenough.answers import resolve_kind
from sureenough.bench.judging import Equal, Grader, JudgedAnswers, check_judging, judge_of, judge_question, read_again
from sureenough.bench.published_grader import MathVerify, open_grader
from sureenough.core.options import RunOptions, check_count
from sureenough.errors import SureEnoughError, UsageError
from sureenough.pools import Pool, Question

A = TypeVar("A")
T = TypeVar("T")
Work = Callable[[Question, JudgedAnswers], T]
"""What is made of a question."""
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
        check_judging(self.equal, self.grader)
        if self.kind is not None:
            resolve_kind(self.kind)
        if self.jobs > 1:
            _check_picklable(self.kind)
        if self.repeats > MOST_REPEATS:
            raise UsageError(
                f"repeats is {self.repeats}; at most {MOST_REPEATS:,} are allowed, and ten are plenty",
                argument="repeats",
            )

    @classmethod
    def fields(cls) -> dict[str, Field[Any]]:
        return {setting.name: setting for setting in fields(cls)}


def _check_picklable(judge: Any) -> None:
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
    """A source with its window, and what one pass over it finds."""

    source: Source
    pool: Pool
    settings: ReplaySettings
    window: int  # the caller's, else what the pool suggests
    damaged: int = 0
    judged: int = 0  # questions
    lost: int = 0  # answers that math-verify did not grade in time
    notes: list[str] = field(default_factory=list)  # about the choice of strategies
    paths: list[int] = field(default_factory=list)  # recorded ones, by question, once it was replayed
    questions: list[tuple[str, str | None]] = field(default_factory=list)  # likewise: id and gold answer

    def judge(self, question: Question, grader: MathVerify | None) -> tuple[Question, JudgedAnswers]:
        """The question, read again if the caller's kind asks for that, and its judged answers."""
        kind = self.source.kind if self.settings.kind is None else self.settings.kind
        question = read_again(question, kind, self.pool)
        judged = judge_question(question, self.settings.equal, judge_of(question, kind, self.pool), grader)
        self.judged += 1
        self.lost += judged.lost
        return question, judged


def open_pools(sources: Sequence[Source], settings: ReplaySettings, window: int | None) -> list[OpenPool]:
    """Each with the caller's window or what the pool suggests."""
    opened = []
    for source in sources:
        pool = Pool(source.pool, skip_damaged=settings.skip_damaged)
        opened.append(OpenPool(source, pool, settings, pool.window() if window is None else window))
    return opened


class _Part(NamedTuple, Generic[T]):
    """Rows of a pool, from one question's first to another's, and what is to be made of them."""

    number: int  # of the pool
    opened: OpenPool
    work: Work[T]
    first: int
    last: int

    def values(self, advance: Callable[[int], None] = lambda paths: None) -> Iterator[T]:
        """What is made of its questions, one after another; counts damaged rows at the end."""
        opened = self.opened
        with open_grader(opened.settings.grader) as grader:
            for question in opened.pool.part(self.first, self.last):
                yield self.work(*opened.judge(question, grader))
                advance(len(question.paths))
        opened.damaged += opened.pool.damaged


def _in_worker(part: _Part[T]) -> tuple[list[T], tuple[int, int, int]]:
    """A part's values, and the questions, lost answers and damaged rows of it."""
    opened = replace(part.opened, judged=0, lost=0, damaged=0)
    return list(part._replace(opened=opened).values()), (opened.judged, opened.lost, opened.damaged)


PARTS_PER_JOB: Final = 4
"""So that no core waits long for the last part."""
MOST_ROWS: Final = 1 << 16
"""Of a part; what is made of a few parts fits in memory, however large the pool is."""


def map_questions(
    pools: Sequence[tuple[OpenPool, Work[T]]], jobs: int, progress: Progress = lambda done, total: None
) -> Iterator[tuple[int, T]]:
    """What is made of every question, with the number of its pool; the questions of a pool come in its order."""
    # Large pools first: long parts should not be left for the end.
    order = sorted(range(len(pools)), key=lambda number: -pools[number][0].pool.tokens)
    parts = [part for number in order for part in _parts(number, *pools[number], jobs)]
    done, total = 0, sum(opened.pool.rows for opened, _ in pools)

    def advance(paths: int) -> None:
        nonlocal done
        done += paths
        progress(done, total)

    if jobs == 1 or len(parts) == 1:
        for part in parts:
            yield from ((part.number, value) for value in part.values(advance))
    else:
        for part, (values, counts) in zip(parts, in_processes(_in_worker, parts, jobs), strict=True):
            for name, count in zip(("judged", "lost", "damaged"), counts, strict=True):
                setattr(part.opened, name, getattr(part.opened, name) + count)
            yield from ((part.number, value) for value in values)
            advance(part.last - part.first)


def _parts(number: int, opened: OpenPool, work: Work[T], jobs: int) -> Iterator[_Part[T]]:
    """The pool cut between questions; a damaged one is read by one process, from beginning to end."""
    pool, cuts = opened.pool, [0]
    if jobs > 1 and not pool.skip_damaged:
        least = min(MOST_ROWS, -(-pool.rows // (jobs * PARTS_PER_JOB)))
        for start in pool.starts():
            if start - cuts[-1] >= least:
                cuts.append(start)
    return (_Part(number, opened, work, first, last) for first, last in pairwise([*cuts, pool.rows]))


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
