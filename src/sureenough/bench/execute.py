"""A plan carried out: record once, compare all, run live where asked, and one result for the report.

Every step leaves what it made in the run's folder before the next begins, so the same plan goes on after any end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sureenough.bench.experiments import Experiment, ExperimentSettings, Inputs, experiment
from sureenough.bench.folder import RunFolder
from sureenough.bench.live import Key, LiveOptions, LiveRun, jobs_of, read_runs, run_cell, run_of
from sureenough.bench.plan import BenchPlan
from sureenough.bench.progress import ProgressMeter
from sureenough.bench.recording import Model, RecordingCell, recorded, whole
from sureenough.bench.result import ExperimentResult
from sureenough.bench.result import read as read_result
from sureenough.bench.source import Source
from sureenough.data import BUILTIN_POOL
from sureenough.datasets.load import Loaded, load
from sureenough.errors import EngineError, TraceError, UsageError
from sureenough.pools.json_lines import JsonLinesFile
from sureenough.spec import parse, render
from sureenough.strategies import COMPARED
from sureenough.version import __version__


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its datasets loaded and its engines made."""

    plan: BenchPlan
    experiment: Experiment
    cells: tuple[RecordingCell, ...]
    pools: tuple[Source, ...]

    @property
    def live(self) -> bool:
        """Whether strategies run for real."""
        return bool(self.cells) and (self.plan.live or self.experiment.live == "needed")

    @property
    def records(self) -> bool:
        """Whether pools are recorded: not for what is only ever measured live."""
        return self.experiment.live != "needed"

    @property
    def strategies(self) -> tuple[str, ...]:
        """What runs live."""
        return self.plan.specs() or tuple(render(parse(name)) for name in COMPARED)

    @property
    def how(self) -> LiveOptions:
        """Live runs."""
        plan = self.plan
        return LiveOptions(plan.budget, plan.window, plan.parallel, plan.seed)

    def settings(self) -> ExperimentSettings:
        """As experiments know them."""
        plan = self.plan
        chosen: dict[str, Any] = {} if plan.jobs is None else {"jobs": plan.jobs}
        return ExperimentSettings(
            strategies=plan.specs(), paths=plan.paths, window=plan.window, parallel=plan.replay_parallel,
            repeats=plan.repeats, seed=plan.seed, equal=plan.equal, sweep=plan.sweep, **chosen,
        )  # fmt: skip

    def cell_terms(self) -> dict[str, dict[str, Any]]:
        """What decides each pool."""
        return {cell.name: {**cell.terms(self.plan.seed), "paths": self.plan.budget} for cell in self.cells}

    def terms(self) -> dict[str, Any]:
        """What decides the experiment's numbers, beside the cells' own terms."""
        plan = self.plan
        said: dict[str, Any] = {
            "cells": [cell.name for cell in self.cells],
            "pools": [f"{source.pool.name} {source.digest()[:16]}" for source in self.pools],
            "strategies": list(plan.specs() or ()) or None, "sweep": plan.sweep, "paths": plan.paths,
            "window": plan.window, "replay_parallel": plan.replay_parallel, "repeats": plan.repeats,
            "seed": plan.seed, "equal": plan.equal,
        }  # fmt: skip
        repeats = "repeat" if plan.live_repeats == 1 else "repeats"
        said["live"] = f"{plan.live_repeats} {repeats}, {plan.parallel} paths at once" if self.live else None
        return said


def prepare(plan: BenchPlan, models: Sequence[Model]) -> PreparedPlan:
    """Load every dataset; refuse what cannot be before anything is paid for."""
    chosen = experiment(plan.experiment)
    if plan.live and chosen.live == "no":
        raise UsageError(f"{chosen.name} is worked out from recorded paths; leave --live out")
    if models and not plan.datasets:
        raise UsageError("which questions? Name datasets with --dataset, or recorded paths with --pool and no engine")
    if plan.live and not models:
        raise UsageError("--live needs questions to ask: give --dataset, and --url and --model for a server")
    loaded = [_loaded(plan, i) for i in range(len(plan.datasets))]
    cells = tuple(RecordingCell(data, model) for model in models for data in loaded)
    names = [cell.name for cell in cells]
    twice = next((cell for cell in cells if names.count(cell.name) > 1), None)
    if twice is not None:
        raise UsageError(
            f"two parts of the plan would be kept as {twice.name}; give a dataset's file, or an engine (name = …), "
            "another name"
        )
    pools = tuple(Source.of(pool) for pool in plan.pools)
    if not cells and not pools:
        pools = (Source.of(BUILTIN_POOL),)
    work = PreparedPlan(plan, chosen, cells, pools)
    _refuse_small_budget(work)
    return work


def _loaded(plan: BenchPlan, number: int) -> Loaded:
    one = plan.datasets[number]
    return load(
        one.dataset, limit=one.limit, seed=plan.seed, columns=one.columns or None, kind=one.kind, template=one.template
    )


def _refuse_small_budget(work: PreparedPlan) -> None:
    for spec in (*(work.plan.specs() or ()), *(work.strategies if work.live else ())):
        warmup = parse(spec).warmup
        if work.cells and warmup > work.plan.budget:
            raise UsageError(
                f"{spec} warms up with {warmup} paths, the plan records {work.plan.budget}: allow at least {warmup} "
                f"with --paths, or ask for {spec.partition(':')[0]}:warmup={work.plan.budget}"
            )


def execute(
    work: PreparedPlan, folder: RunFolder, meter: ProgressMeter, command: str, replaying: Callable[[int, int], None]
) -> ExperimentResult:
    """Do what is not done yet; the result is in the folder when this returns."""
    name = work.experiment.name
    folder.agree(work.cell_terms(), name, work.terms())
    done = _known(folder.result(name))
    if done is not None:
        return done
    with _resumable(folder):
        sources = [*_record(work, folder, meter), *work.pools]
        runs = _run_live(work, folder, meter)
    inputs = Inputs(sources, work.settings(), runs, replaying, command)
    result = work.experiment.run(inputs)
    try:
        result.save(folder.result(name))
    except OSError as error:
        raise TraceError(
            f"cannot write {folder.result(name)}: {error.strerror or error}. All that was sampled is safe in "
            f"{folder.path}; make room and give the same command again"
        ) from None
    return result


@contextmanager
def _resumable(folder: RunFolder) -> Iterator[None]:
    """Whatever an engine says no with, nothing is lost by it."""
    try:
        yield
    except EngineError as error:
        why = str(error) if str(error).endswith(("?", "!", ".")) else f"{error}."
        said = f"{why} What was done is kept in {folder.path}; the same command goes on"
        raise type(error)(said, path=error.path, seed=error.seed, request_id=error.request_id) from None


def _known(file: Path) -> ExperimentResult | None:
    """A result of the same plan and version, where there is one."""
    with suppress(UsageError, OSError):
        result = read_result(file)
        return result if result.provenance.versions.get("sureenough") == __version__ else None
    return None


def _record(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[Source]:
    if not work.records:
        return []
    plan = work.plan
    meter.cells = len(work.cells) * (1 + (len(work.strategies) if work.live else 0))
    missing = [cell for cell in work.cells if not whole(folder.pool(cell.name))]
    meter.phase("paths", sum(len(cell.data.problems) * plan.budget for cell in missing))
    meter.cell = len(work.cells) - len(missing)
    return [
        recorded(cell, folder.pool(cell.name), paths=plan.budget, parallel=plan.parallel * cell.model.servers,
                 seed=plan.seed, keep_text=plan.text, meter=meter)
        for cell in work.cells
    ]  # fmt: skip


def _run_live(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[LiveRun]:
    if not work.live:
        return []
    plan = work.plan
    if not work.records:
        meter.cells = len(work.cells) * len(work.strategies)
    meter.phase("runs", sum(len(c.data.problems) for c in work.cells) * len(work.strategies) * plan.live_repeats)
    wanted: list[Key] = []
    with JsonLinesFile(folder.runs, work.how.terms(), "runs") as lines:
        done = {run_of(line, folder.runs).key for _, line in lines}
        for cell in work.cells:
            for strategy in work.strategies:
                jobs = list(jobs_of(cell, strategy, plan.live_repeats))
                run_cell(jobs, lines, done, work.how, plan.at_once or cell.model.servers, meter)
                wanted += [job.key for job in jobs]
    found = {run.key: run for run in read_runs(folder.runs)}
    return [found[key] for key in wanted]
