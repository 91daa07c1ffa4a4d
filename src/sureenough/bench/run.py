"""Execute a plan: record once, compare all strategies, run them live if asked, and save one result for the report.

Every step leaves its output in the run's folder before the next begins, so the same plan continues after any crash. The
folder has plan.json, pools/*.parquet (with a .journal beside each while it is being recorded), live/runs.jsonl and
results/*.json.
"""

from __future__ import annotations

import asyncio
import re
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from sureenough import __version__
from sureenough.bench.comparison import compare
from sureenough.bench.estimate import NO_RUNS, LiveRuns, Money, ProgressMeter, Sampling, estimate
from sureenough.bench.experiment import Experiment, Inputs
from sureenough.bench.live import Key, LiveRun, read_runs, run_live
from sureenough.bench.pipeline import Progress, Source
from sureenough.bench.plan import BenchPlan
from sureenough.bench.replay import fitting
from sureenough.bench.result import ExperimentResult
from sureenough.bench.result import read as read_result
from sureenough.core.options import RunOptions
from sureenough.data import BUILTIN_POOL
from sureenough.datasets.load import Loaded, load
from sureenough.drivers.record import Executor, RecordQuestion, in_process, record
from sureenough.engines.base import Engine
from sureenough.errors import EngineError, TraceError, UsageError
from sureenough.pools import Journal, OutputLock, PoolInfo, RecordedPath, write_journal_pool
from sureenough.pools.durable import lock_owner, resumable, write_file
from sureenough.pools.journal import JsonLinesFile, journal_of, recorded_keys
from sureenough.spec import parse

Terms = dict[str, Any]


class Model(NamedTuple):
    """An engine with its name in tables and files."""

    name: str
    engine: Engine
    executor: Executor | None = None  # what samples instead of this process


@dataclass(frozen=True, slots=True)
class Cell:
    """One dataset on one model."""

    data: Loaded
    model: Model

    @property
    def name(self) -> str:
        """For files."""
        return f"{_slug(self.data.name)}--{_slug(self.model.name)}"

    @property
    def label(self) -> str:
        """For messages."""
        return f"{self.data.name} on {self.model.name}"

    @property
    def template(self) -> str:
        """The caller's template, else for mathematics the engine's, else the dataset's."""
        suggested = None if self.data.own_template or self.kind is not None else self.model.engine.template
        return self.data.template if suggested is None else suggested

    @property
    def kind(self) -> str | None:
        """Of answer, if it is not mathematics."""
        return None if self.data.dataset.kind == "math" else self.data.dataset.kind

    def questions(self) -> list[RecordQuestion]:
        """The questions with their prompts for this model."""
        return self.data.record_questions(self.template)

    def terms(self, seed: int) -> Terms:
        """What decides every recorded path, but not how many there are; the engine's address does not."""
        data = self.data
        terms = {"dataset": data.name, "questions": len(data.problems), "content": data.digest()}
        return {**terms, "template": self.template, "seed": seed, **self.model.engine.terms()}


def _slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its datasets loaded and its engines made."""

    plan: BenchPlan
    experiment: Experiment
    cells: tuple[Cell, ...]
    pools: tuple[Source, ...]

    @property
    def records(self) -> bool:
        """Whether pools are recorded: not for what is only measured live."""
        return self.experiment.live in ("no", "optional")

    @property
    def live(self) -> bool:
        """Whether strategies run on live engines."""
        return bool(self.cells) and (self.plan.live or not self.records)

    @property
    def options(self) -> RunOptions:
        """With the budget of what is sampled."""
        return replace(self.plan.options, paths=self.plan.budget)

    @property
    def strategies(self) -> tuple[str, ...]:
        """What runs live."""
        return self.plan.specs() or tuple(fitting(self.experiment.compared, self.plan.budget)[0])

    def parallel(self, cell: Cell) -> int:
        """Paths at once on all servers of an engine."""
        return self.plan.options.parallel * cell.model.engine.servers

    def live_jobs(self, cell: Cell) -> dict[Key, RecordQuestion]:
        """Every question under every strategy, repeat after repeat."""
        questions = cell.questions()
        return {
            Key(cell.data.name, cell.model.name, strategy, question.id, repeat): question
            for strategy in self.strategies
            for repeat in range(self.plan.live_repeats)
            for question in questions
        }

    def inputs(self, sources: Sequence[Source], runs: Sequence[LiveRun], progress: Progress, command: str) -> Inputs:
        """What the experiment reads; a deadline is for live runs only."""
        plan = self.plan
        options = replace(plan.options, parallel=plan.replay_parallel, hurry=plan.replay_hurry, deadline=None)
        return Inputs(sources, options, plan.settings, plan.specs(), plan.sweep, runs, progress, command)

    def terms(self) -> Terms:
        """What decides the experiment's numbers, beside the cells' own terms."""
        plan = self.plan
        repeats = f"{plan.live_repeats} {'repeat' if plan.live_repeats == 1 else 'repeats'}"
        terms = asdict(plan.options) | asdict(plan.settings) | {
            "cells": [cell.name for cell in self.cells],
            "pools": [f"{source.pool.name} {source.digest()[:16]}" for source in self.pools],
            "strategies": plan.specs(),
            "sweep": plan.sweep,
            "parallel": plan.replay_parallel,
            "hurry": plan.replay_hurry,
            "live": f"{repeats}, {plan.options.parallel} paths at once" if self.live else None,
        }  # fmt: skip
        del terms["jobs"]
        return terms


def prepare(plan: BenchPlan, chosen: Experiment, models: Sequence[Model]) -> PreparedPlan:
    """Load every dataset; refuse what is impossible before anything is paid for."""
    chosen.check(strategies=plan.strategies, sweep=plan.sweep)
    if plan.live and chosen.live == "no":
        raise UsageError(f"{chosen.name} is computed from recorded paths; leave --live out")
    if models and not plan.datasets:
        raise UsageError("which questions? Name datasets with --dataset, or recorded paths with --pool and no engine")
    if chosen.live == "only" and not plan.datasets:
        raise UsageError(chosen.no_questions)
    if plan.live and not models:
        raise UsageError("--live needs questions to ask: give --dataset, and --url and --model for a server")
    loaded = [load(**asdict(choice), seed=plan.options.seed) for choice in plan.datasets]
    cells = tuple(Cell(data, model) for model in models for data in loaded)
    names = [cell.name for cell in cells]
    if twice := next((name for name in names if names.count(name) > 1), None):
        raise UsageError(
            f"two parts of the plan would be kept as {twice}; give a dataset's file, or an engine (name = …), another "
            "name"
        )
    pools = tuple(map(Source.of, plan.pools or (() if cells else (BUILTIN_POOL,))))
    work = PreparedPlan(plan, chosen, cells, pools)
    if work.live and plan.settings.grader != "own":
        raise UsageError("live runs are graded by the kind of their answers: leave grader out, or live")
    if plan.options.deadline is not None and not work.live:
        raise UsageError("deadline is a limit for live runs, and this plan has none; leave it out, or add live")
    for strategy in map(parse, work.strategies if cells else plan.specs() or ()):
        if cells:
            work.options.check_budget(strategy)
        if work.records and strategy.search is not None:
            raise UsageError(
                f"{strategy.name} samples as it searches, and {chosen.name} replays recorded paths: use `bench search`"
            )
    return work


def execute(
    work: PreparedPlan, folder: RunFolder, meter: ProgressMeter, command: str, progress: Progress
) -> ExperimentResult:
    """Do what is not done yet; the result is in the folder when this returns."""
    name, plan = work.experiment.name, work.plan
    cells = {cell.name: {**cell.terms(plan.options.seed), "paths": plan.budget} for cell in work.cells}
    folder.check_plan(cells, name, work.terms())
    file = folder.path / "results" / f"{name}.json"
    with suppress(UsageError, OSError):
        earlier = read_result(file)
        if earlier.provenance.versions.get("sureenough") == __version__:
            return earlier
    with resumable(folder.path):
        sources = [*_record(work, folder, meter), *work.pools]
        runs = _run_live(work, folder, meter)
    try:
        result = work.experiment.run(work.inputs(sources, runs, progress, command))
    except UsageError:
        if not work.live:
            folder.forget(name)  # an option was wrong: the command with the right one is not another plan
        raise
    folder.write(file, result.to_json())
    return result


def _record(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[Source]:
    """The pools of the cells; samples the paths that are missing."""
    if not work.records:
        return []
    pools = [(cell, pool_file(folder.path, cell)) for cell in work.cells]
    meter.cells = len(work.cells) * (1 + (len(work.strategies) if work.live else 0))
    missing = [(cell, pool) for cell, pool in pools if not is_complete(pool)]
    meter.phase("paths", sum(len(cell.data.problems) * work.plan.budget for cell, _ in missing))
    meter.cell = len(work.cells) - len(missing)
    for cell, pool in missing:
        _record_cell(work, cell, pool, meter)
    return [Source(cell.data.name, cell.model.name, pool, cell.kind) for cell, pool in pools]


def _record_cell(work: PreparedPlan, cell: Cell, pool: Path, meter: ProgressMeter) -> None:
    plan, engine, questions = work.plan, cell.model.engine, cell.questions()
    paths, seed, kind = plan.budget, plan.options.seed, cell.data.dataset.kind
    keep_text = plan.text and not cell.data.dataset.hidden  # whose authors ask not to publish the questions
    with Journal(journal_of(pool), cell.terms(seed)) as journal:
        have = Counter(question for question, _ in journal)
        left = {one.id: paths - have[one.id] for one in questions}
        complete = sum(not missing for missing in left.values())
        meter.begin(f"recording {cell.label}", len(journal), len(questions) * paths, complete, len(questions))

        def count(question: str, path: RecordedPath) -> None:
            left[question] -= 1
            meter.step(path.tokens, not left[question])

        result = asyncio.run(
            record(questions, engine, journal, paths=paths, parallel=work.parallel(cell), seed=seed,
                   keep_text=keep_text, on_path=count, executor=cell.model.executor)
        )  # fmt: skip
        missing = len(questions) * paths - len(journal)
        if missing:
            raise EngineError(f"{missing} paths of {cell.label} are missing; the latest failure: {result.lost}")
        info = PoolInfo(
            cell.data.name, cell.model.name, type(engine).__name__.lower(), engine.k,
            sampling=engine.sampling(), prompt=cell.template, window=engine.window, kind=kind,
        )  # fmt: skip
        write_journal_pool(pool, [one.without_paths() for one in questions], journal, info, keep_text=keep_text)
    journal_of(pool).unlink()


def _run_live(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[LiveRun]:
    if not work.live:
        return []
    file, plan = folder.path / "live" / "runs.jsonl", work.plan
    jobs = [work.live_jobs(cell) for cell in work.cells]
    if not work.records:
        meter.cells = len(work.cells) * len(work.strategies)
    meter.phase("runs", sum(map(len, jobs)))
    with JsonLinesFile(file, asdict(work.options), "runs") as lines:
        for cell, own in zip(work.cells, jobs, strict=True):
            executor = cell.model.executor or partial(in_process, cell.model.engine)
            at_once = plan.at_once or cell.model.engine.servers
            asyncio.run(run_live(cell.label, executor, own, lines, work.options, at_once, meter))
    runs = {run.key: run for run in read_runs(file)}
    return [runs[key] for own in jobs for key in own]


class SavedPlan(msgspec.Struct):
    """The terms of recorded cells and of experiments, by name."""

    cells: dict[str, Terms]
    experiments: dict[str, Terms]


class RunFolder(AbstractContextManager["RunFolder"]):
    """Used by one process at a time. The same plan continues where it stopped; another plan is refused."""

    def __init__(self, path: Path) -> None:
        self.path, self._file = path, path / "plan.json"
        lock = path / "lock"
        if lock.exists() and not self._file.exists() and lock_owner(lock) is None:
            raise UsageError(f"{lock} is not the lock of a run, and would be removed; give another folder with -o")
        try:
            for name in ("pools", "live", "results"):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"cannot make the run folder {path}: {error.strerror or error}") from None
        self._lock = OutputLock(lock, path)

    def check_plan(self, cells: dict[str, Terms], experiment: str, terms: Terms) -> None:
        """Refuse a plan that differs from the saved one, naming every change; else save it."""
        saved = self._read()
        cells, terms = msgspec.json.decode(msgspec.json.encode([cells, terms]))
        changed = _changes(saved.experiments.get(experiment, terms), terms)
        for name, of_cell in cells.items():
            changed += _changes(saved.cells.get(name, of_cell), of_cell, f"{name}: ")
        if changed:
            raise UsageError(
                f"{self.path} was begun with another plan. What changed: {'; '.join(changed)}. "
                "Give the same plan to go on, or another folder with -o to begin anew"
            )
        self._save(SavedPlan(saved.cells | cells, saved.experiments | {experiment: terms}))

    def forget(self, experiment: str) -> None:
        """Allow another plan of an experiment that has no result yet; pools keep their terms."""
        saved = self._read()
        del saved.experiments[experiment]
        self._save(saved)

    def _read(self) -> SavedPlan:
        if not self._file.exists():
            return SavedPlan({}, {})
        try:
            return msgspec.json.decode(self._file.read_bytes(), type=SavedPlan)
        except (OSError, ValueError, msgspec.DecodeError):
            raise TraceError(f"{self._file} is not the plan of a run; give another folder with -o") from None

    def _save(self, plan: SavedPlan) -> None:
        self.write(self._file, msgspec.json.format(msgspec.json.encode(plan), indent=1) + b"\n")

    def write(self, file: Path, content: bytes) -> None:
        """Write a file of the folder durably; a reader never sees half of it."""
        try:
            write_file(file, [content])
        except OSError as error:
            raise TraceError(
                f"cannot write {file}: {error.strerror or error}. All that was sampled is safe in {self.path}; make "
                "room and give the same command again"
            ) from None

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def pool_file(folder: Path, cell: Cell) -> Path:
    """Where a run folder keeps a cell's paths."""
    return folder / "pools" / f"{cell.name}.parquet"


def is_complete(pool: Path) -> bool:
    """Whether no path is missing: the journal is removed when the pool is written."""
    return pool.exists() and not journal_of(pool).exists()


def _changes(old: Terms, new: Terms, at: str = "") -> list[str]:
    """Every difference, by name; a value that one of the two does not have is None."""
    pairs = {name: (old.get(name), new.get(name)) for name in new | old}
    return [f"{at}{name} was {_shown(was)}, is {_shown(now)}" for name, (was, now) in pairs.items() if was != now]


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)
    return text if len(text) <= 120 else text[:119] + "…"


def plan_estimate(work: PreparedPlan, folder: Path, money: Money) -> str:
    """The cost of a plan that is to be kept in this folder."""
    if not work.cells:
        return f"{work.experiment.name} replays recorded paths: it generates no tokens and costs nothing but time."
    plan, samplings = work.plan, []
    for cell in work.cells:
        pool, live = pool_file(folder, cell), NO_RUNS
        if work.live:
            live = LiveRuns(len(work.live_jobs(cell)), *(_live_costs(work, pool) or (plan.budget, None)))
        paths = plan.budget if work.records else 0
        samplings.append(
            Sampling(
                cell.questions(), cell.model.engine, paths, work.parallel(cell), plan.options.seed,
                recorded_keys(pool), live, cell.label,
            )
        )  # fmt: skip
    return estimate(samplings, money)


def _live_costs(work: PreparedPlan, pool: Path) -> tuple[float, float] | None:
    """Paths and tokens per live run, the mean of all strategies, from a replay; None without a complete pool."""
    if not is_complete(pool):
        return None
    given = {name: getattr(work.plan.options, name) for name in RunOptions.fields(live=False)}
    rows = compare(pool, work.strategies, repeats=1, **given | {"max_tokens": None}).rows
    return sum(row.width for row in rows) / len(rows), sum(row.tokens for row in rows) / len(rows)
