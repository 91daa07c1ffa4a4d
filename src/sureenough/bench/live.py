"""Strategies run for real, for their latency: question by question, each outcome on disk before the next is counted.

Live and replayed numbers are never mixed: these rows know nothing of pools.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from sureenough.answers import grade
from sureenough.api import aask
from sureenough.bench.progress import ProgressMeter
from sureenough.bench.recording import RecordingCell
from sureenough.core.events import Action, Json, Start, Stop, Token
from sureenough.core.outcome import Outcome
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent, RunStarted
from sureenough.drivers.record import RecordQuestion
from sureenough.engines.base import Engine, Prompt, opened
from sureenough.errors import EngineUnavailable, TraceError
from sureenough.pools.json_lines import JsonLinesFile, read_lines

Key = tuple[str, str, str, str, int]


@dataclass(frozen=True, slots=True)
class LiveRun:
    """One question under one strategy on a live engine."""

    dataset: str
    model: str
    strategy: str
    question: str
    repeat: int
    right: bool | None  # None where the question has no gold answer
    init_seconds: float  # from the question to the end of the warm-up; 0 where the strategy has none
    final_seconds: float  # from there to the answer
    outcome: Json  # as Outcome.to_json has it

    @property
    def key(self) -> Key:
        """What makes it the same run."""
        return self.dataset, self.model, self.strategy, self.question, self.repeat

    @property
    def total_seconds(self) -> float:
        """From the question to the answer."""
        return self.init_seconds + self.final_seconds

    @property
    def reason(self) -> str:
        """Why it ended."""
        return str(self.outcome["reason"])

    @property
    def answer(self) -> str | None:
        """What it came to."""
        answer: str | None = self.outcome["answer"]
        return answer

    @property
    def tokens(self) -> Mapping[str, int]:
        """By bucket, and `total`."""
        tokens: Mapping[str, int] = self.outcome["tokens"]
        return tokens

    @property
    def started(self) -> int:
        """Paths."""
        return int(self.outcome["started"])

    @property
    def pruned(self) -> int:
        """Paths."""
        return int(self.outcome["pruned"])

    @property
    def tiers(self) -> Mapping[str, int]:
        """Paths pruned by each test."""
        tiers: Mapping[str, int] = self.outcome["tiers"]
        return tiers

    @property
    def steps(self) -> int:
        """The longest chain of tokens."""
        return int(self.outcome["steps"])

    def to_json(self) -> Json:
        """A line of the run's folder."""
        return {name: getattr(self, name) for name in self.__slots__}


def read_runs(file: Path) -> list[LiveRun]:
    """All outcomes in a folder's file, none where there is no file."""
    return [run_of(line, file) for place, line in read_lines(file) if place] if file.exists() else []


def run_of(line: Json, file: Path) -> LiveRun:
    """A line as a run."""
    try:
        return LiveRun(**line)
    except TypeError:
        raise TraceError(
            f"{file} holds a line that is no live run of this version; give another folder with -o"
        ) from None


class LiveJob(NamedTuple):
    """A question to be asked under a strategy."""

    cell: RecordingCell
    strategy: str
    asked: RecordQuestion
    repeat: int

    @property
    def key(self) -> Key:
        """As the run that it becomes."""
        return self.cell.data.name, self.cell.model.name, self.strategy, self.asked.id, self.repeat


@dataclass(frozen=True, slots=True)
class LiveOptions:
    """What all live runs of a plan have in common."""

    paths: int
    window: int | None
    parallel: int  # paths at once a question
    seed: int

    def terms(self) -> Json:
        """What decides the outcomes."""
        return {"paths": self.paths, "window": self.window, "parallel": self.parallel, "seed": self.seed}


def run_cell(
    jobs: Sequence[LiveJob], lines: JsonLinesFile, done: set[Key], how: LiveOptions, at_once: int, meter: ProgressMeter
) -> None:
    """Ask what was not asked before, so many questions at once."""
    missing = [job for job in jobs if job.key not in done]
    cell = jobs[0].cell
    label = f"{jobs[0].strategy} live, {cell.label}"
    meter.begin(label, len(jobs) - len(missing), len(jobs), len(jobs) - len(missing), len(jobs))
    if missing:
        asyncio.run(_all(missing, cell.model.engine, lines, how, at_once, meter))
        done.update(job.key for job in missing)


async def _all(
    jobs: Iterable[LiveJob], engine: Engine, lines: JsonLinesFile, how: LiveOptions, at_once: int, meter: ProgressMeter
) -> None:
    left = iter(jobs)
    broken: list[Exception] = []
    workers: list[asyncio.Task[None]] = []

    async def worker(shared: Engine) -> None:
        for job in left:
            try:
                run = await _run(job, shared, how)
                lines.add(run.to_json())
            except Exception as error:  # ends the cell and reaches the caller
                broken.append(error)
                for one in workers:
                    one.cancel()
                return
            meter.step(run.tokens["total"], True)

    async with opened(engine, at_once * how.parallel) as ready, asyncio.TaskGroup() as tasks:
        workers += [tasks.create_task(worker(_Shared(ready))) for _ in range(at_once)]
    if broken:
        raise broken[0]


class _Shared(Engine):
    """An engine that is open already, without the server's counters: they count for all questions together."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self.window, self.stops_at_once = engine.window, engine.stops_at_once

    def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """One path of the engine."""
        return self._engine.stream(prompt, seed=seed)


async def _run(job: LiveJob, engine: Engine, how: LiveOptions) -> LiveRun:
    clock = _Clock()
    asked = job.asked
    out = await aask(
        asked.prompt, engine, job.strategy, paths=how.paths, window=how.window, parallel=how.parallel,
        seed=how.seed + job.repeat, extract=asked.extract, observers=[clock],
    )  # fmt: skip
    _refuse_half(out, job)
    right = None if asked.gold is None else await asyncio.to_thread(grade, asked.gold, out.answer)
    init, final = clock.seconds(out)
    data, model, strategy, question, repeat = job.key
    return LiveRun(data, model, strategy, question, repeat, right, init, final, out.to_json())


def _refuse_half(out: Outcome, job: LiveJob) -> None:
    """The vote so far is an answer for a user, and no measurement."""
    if out.reason == "interrupted":
        raise asyncio.CancelledError
    if out.reason == "engine":
        why = next((note for note in out.notes if "lost" in note), "nobody answers any more")
        raise EngineUnavailable(
            f"the engine was lost in the middle of question {job.asked.id} ({job.strategy}, {job.cell.label}): {why}. "
            "That question is not counted"
        )


class _Clock:
    """When the run began, when its warm-up was over, when it was decided."""

    def __init__(self) -> None:
        self.began = self.warm = self.over = 0.0

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        now = time.perf_counter()
        if isinstance(event, RunStarted):
            self.began = now
        for action in actions:
            past = isinstance(action, Start) and not action.warmup
            if not self.warm and (past or isinstance(action, Stop)):
                self.warm = now
            if isinstance(action, Stop):
                self.over = now

    def seconds(self, out: Outcome) -> tuple[float, float]:
        """Of the warm-up, and of the rest; a run without warm-up has none."""
        warm = self.warm if out.tokens.init else self.began
        return round(warm - self.began, 6), round(self.over - warm, 6)


def jobs_of(cell: RecordingCell, strategy: str, repeats: int) -> Iterator[LiveJob]:
    """Every question, repeat after repeat."""
    asked = cell.asked()
    return (LiveJob(cell, strategy, one, repeat) for repeat in range(repeats) for one in asked)
