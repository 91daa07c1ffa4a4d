"""Strategies on live engines, for their latency: question by question, each outcome on disk before it is counted.

Live and replayed numbers are never mixed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import NamedTuple

from sureenough.api import aask
from sureenough.bench.recording import ProgressMeter, RecordingCell
from sureenough.core.events import Json
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.drivers.record import OpenExecutor, RecordQuestion
from sureenough.drivers.run_log import RunLogWriter
from sureenough.engines.base import Engine, SharedEngine
from sureenough.errors import EngineUnavailable, TraceError
from sureenough.pools.journal import JsonLinesFile, read_lines

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One question under one strategy on a live engine."""

    dataset: str
    model: str
    strategy: str
    question: str
    repeat: int
    right: bool | None  # None if the question has no gold answer
    init_seconds: float  # from the question to the end of the warm-up; 0 if the strategy has none
    final_seconds: float  # from there to the answer
    outcome: Json  # Outcome.to_json()

    @property
    def key(self) -> Key:
        return self.dataset, self.model, self.strategy, self.question, self.repeat

    @property
    def total_seconds(self) -> float:
        return self.init_seconds + self.final_seconds

    @property
    def tokens(self) -> Mapping[str, int]:
        """By bucket, and `total`."""
        tokens: Mapping[str, int] = self.outcome["tokens"]
        return tokens

    def to_json(self) -> Json:
        """A line of the run's folder."""
        return {name: getattr(self, name) for name in self.__slots__}


def read_runs(file: Path) -> list[LiveRun]:
    """All runs of a file; none if the file does not exist."""
    return [run_of(line, file) for offset, line in read_lines(file) if offset] if file.exists() else []


def read_terms(file: Path) -> Json:
    """The options under which the runs of a file were made, with the defaults of those that it does not name."""
    defaults = {name: option.default for name, option in RunOptions.fields().items()}
    begun_with: Json = next((line["terms"] for _, line in read_lines(file)), {})
    return defaults | {name: value for name, value in begun_with.items() if value is not None}


def run_of(line: Json, file: Path) -> LiveRun:
    """A line as a run; its values are checked as far as tables read them."""
    try:
        run = LiveRun(**line)
        if not all(isinstance(name, str) for name in run.key[:4]) or not isinstance(run.repeat, int):
            raise TypeError
        out = run.outcome
        float(run.total_seconds), out["tiers"], out["reason"]
        int(run.tokens["total"]), int(out["steps"]), int(out["started"]), int(out["pruned"])
    except (TypeError, KeyError, ValueError):
        raise TraceError(
            f"{file} has a line that is not a live run of this version; give another folder with -o"
        ) from None
    return run


class LiveJob(NamedTuple):
    """A question to ask under a strategy."""

    dataset: str
    model: str
    strategy: str
    question: RecordQuestion
    repeat: int

    @property
    def key(self) -> Key:
        return self.dataset, self.model, self.strategy, self.question.id, self.repeat


def live_terms(options: RunOptions) -> Json:
    """The options that decide outcomes."""
    return {name: getattr(options, name) for name in RunOptions.fields()}


def run_cell(
    cell: RecordingCell,
    by_strategy: Sequence[Sequence[LiveJob]],
    lines: JsonLinesFile,
    done: set[Key],
    options: RunOptions,
    at_once: int,
    meter: ProgressMeter,
) -> None:
    """Run the jobs that are not done, one strategy after another, `at_once` questions at a time, on one engine."""
    asyncio.run(_run_strategies(cell, by_strategy, lines, done, options, at_once, meter))


async def _run_strategies(
    cell: RecordingCell,
    by_strategy: Sequence[Sequence[LiveJob]],
    lines: JsonLinesFile,
    done: set[Key],
    options: RunOptions,
    at_once: int,
    meter: ProgressMeter,
) -> None:
    at_once = min(at_once, max(map(len, by_strategy)))  # a worker per question is the most that can be of use
    async with AsyncExitStack() as stack:
        ready: OpenExecutor | None = None
        for jobs in by_strategy:
            missing = [job for job in jobs if job.key not in done]
            label, count = f"{jobs[0].strategy} live, {cell.label}", len(jobs) - len(missing)
            meter.begin(label, count, len(jobs), count, len(jobs))
            if missing and ready is None:
                executor, parallel = cell.model.runs_on, at_once * options.parallel
                ready = await stack.enter_async_context(executor(parallel=parallel, calls=at_once))
            if missing and ready is not None:
                await _run_all(missing, ready, lines, options, meter)
                done.update(job.key for job in missing)


async def _run_all(
    jobs: Iterable[LiveJob], ready: OpenExecutor, lines: JsonLinesFile, options: RunOptions, meter: ProgressMeter
) -> None:
    remaining = iter(jobs)
    errors: list[Exception] = []
    workers: list[asyncio.Task[None]] = []

    async def worker() -> None:
        for job in remaining:
            try:
                run: LiveRun = await ready.call(run_job, job, options)
                lines.add(run.to_json())
            except Exception as error:  # ends the cell and reaches the caller
                errors.append(error)
                for other in workers:
                    other.cancel()
                return
            meter.step(run.tokens["total"], True)

    async with asyncio.TaskGroup() as tasks:
        workers += [tasks.create_task(worker()) for _ in range(ready.slots)]
    if errors:
        raise errors[0]


async def run_job(engine: Engine, job: LiveJob, options: RunOptions) -> LiveRun:
    """One question under one strategy; other runs use the engine meanwhile."""
    question = job.question
    log = RunLogWriter({"question": question.id, "model": job.model, "strategy": job.strategy}, interval=inf)
    own = {name: getattr(options, name) for name in RunOptions.fields()} | {"seed": options.seed + job.repeat}
    outcome = await aask(
        question.prompt, SharedEngine(engine), job.strategy, kind=question.judge, observers=[log], gives_up=False, **own
    )
    _refuse_unfinished(outcome, job)
    right = await asyncio.to_thread(grade_live, question, outcome.answer)
    return LiveRun(*job.key, right, *log.view.seconds(), outcome.to_json())


def grade_live(question: RecordQuestion, answer: str | None) -> bool | None:
    """Whether an answer is right; None if the question has no gold answer."""
    if question.gold is None:
        return None
    return answer is not None and question.judge.grade(question.gold, answer)


def _refuse_unfinished(outcome: Outcome, job: LiveJob) -> None:
    """The vote so far is an answer for a user, but not a measurement."""
    if outcome.reason == "interrupted":
        raise asyncio.CancelledError
    if outcome.reason == "engine":
        reason = next((note for note in outcome.notes if "lost" in note), "no response any more")
        raise EngineUnavailable(
            f"the engine was lost during question {job.question.id} ({job.strategy}, {job.dataset} on {job.model}): "
            f"{reason}. That question is not counted"
        )


def jobs_of(cell: RecordingCell, strategy: str, repeats: int) -> Iterator[LiveJob]:
    """Every question, repeat after repeat."""
    questions = cell.questions()
    names = cell.data.name, cell.model.name, strategy
    return (LiveJob(*names, question, repeat) for repeat in range(repeats) for question in questions)
