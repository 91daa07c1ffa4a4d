"""Strategies on live engines, for their latency: question by question, each outcome on disk before it is counted.

Live and replayed numbers are never mixed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple

import msgspec

from sureenough.api import aask
from sureenough.bench.estimate import ProgressMeter
from sureenough.bench.result import grouped
from sureenough.core.events import Json
from sureenough.core.options import RunOptions
from sureenough.drivers.record import Executor, OpenExecutor, RecordQuestion
from sureenough.drivers.run_log import RunLogWriter
from sureenough.engines.base import Engine, SharedEngine
from sureenough.errors import EngineUnavailable, TraceError
from sureenough.pools.journal import JsonLinesFile, read_lines


class Key(NamedTuple):
    """What a run is known by."""

    dataset: str
    model: str
    strategy: str
    question: str
    repeat: int


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
        return Key(self.dataset, self.model, self.strategy, self.question, self.repeat)

    @property
    def total_seconds(self) -> float:
        return self.init_seconds + self.final_seconds

    @property
    def tokens(self) -> Mapping[str, int]:
        """By bucket, and `total`."""
        tokens: Mapping[str, int] = self.outcome["tokens"]
        return tokens


def read_runs(file: Path) -> list[LiveRun]:
    """All runs of a file; none if the file does not exist."""
    return [_run_of(line, file) for offset, line in read_lines(file) if offset] if file.exists() else []


def _run_of(line: Json, file: Path) -> LiveRun:
    """A line as a run; its values are checked as far as tables read them."""
    try:
        run = msgspec.convert(line, LiveRun)
        out = run.outcome
        _ = out["tiers"], out["reason"]
        for value in (run.tokens["total"], out["steps"], out["started"], out["pruned"], run.total_seconds):
            if not 0 <= value < 2**53:
                raise ValueError(value)
    except (TypeError, KeyError, ValueError, OverflowError, msgspec.ValidationError):
        raise TraceError(
            f"{file} has a line that is not a live run of this version; give another folder with -o"
        ) from None
    return run


async def run_live(
    label: str,
    executor: Executor,
    jobs: Mapping[Key, RecordQuestion],
    lines: JsonLinesFile,
    options: RunOptions,
    at_once: int,
    meter: ProgressMeter,
) -> None:
    """Run what the file does not have, one strategy after another, `at_once` questions at a time, on one engine."""
    done = {run.key for run in read_runs(lines.file)}
    by_strategy = grouped(jobs, lambda key: key.strategy)
    at_once = min(at_once, max(map(len, by_strategy.values())))  # more workers than questions are of no use
    async with AsyncExitStack() as stack:
        ready: OpenExecutor | None = None
        for strategy, keys in by_strategy.items():
            missing = {key: jobs[key] for key in keys if key not in done}
            count = len(keys) - len(missing)
            meter.begin(f"{strategy} live, {label}", count, len(keys), count, len(keys))
            if missing:
                if ready is None:
                    parallel = at_once * options.parallel
                    ready = await stack.enter_async_context(executor(parallel=parallel, calls=at_once))
                await _run_all(missing, ready, lines, options, meter)


async def _run_all(
    jobs: Mapping[Key, RecordQuestion],
    ready: OpenExecutor,
    lines: JsonLinesFile,
    options: RunOptions,
    meter: ProgressMeter,
) -> None:
    remaining = iter(jobs.items())

    async def worker() -> None:
        for key, question in remaining:
            run: LiveRun = await ready.call(run_job, key, question, options)
            lines.add(asdict(run))
            meter.step(run.tokens["total"], True)

    try:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(ready.slots):
                tasks.create_task(worker())
    except ExceptionGroup as group:
        raise group.exceptions[0] from None


async def run_job(engine: Engine, key: Key, question: RecordQuestion, options: RunOptions) -> LiveRun:
    """One question under one strategy; other runs use the engine meanwhile."""
    log = RunLogWriter({"question": question.id, "model": key.model, "strategy": key.strategy}, interval=inf)
    outcome = await aask(
        question.prompt, SharedEngine(engine), key.strategy, kind=question.judge, observers=[log], gives_up=False,
        **asdict(replace(options, seed=options.seed + key.repeat)),
    )  # fmt: skip
    # The vote so far is an answer for a user, but not a measurement.
    if outcome.reason == "interrupted":
        raise asyncio.CancelledError
    if outcome.reason == "engine":
        reason = next((note for note in outcome.notes if "lost" in note), "no response any more")
        raise EngineUnavailable(
            f"the engine was lost during question {key.question} ({key.strategy}, {key.dataset} on {key.model}): "
            f"{reason}. That question is not counted"
        )
    right = await asyncio.to_thread(grade_live, question, outcome.answer)
    return LiveRun(*key, right, *log.view.seconds(), outcome.to_json())


def grade_live(question: RecordQuestion, answer: str | None) -> bool | None:
    """Whether an answer is right; None if the question has no gold answer."""
    if question.gold is None:
        return None
    return answer is not None and question.judge.grade(question.gold, answer)
