"""Execute a plan: record once, compare all strategies, run them live if asked, and save one result for the report.

Every step leaves its output in the run's folder before the next begins, so the same plan continues after any crash. The
folder has plan.json, pools/*.parquet (with a .journal beside each while it is being recorded), live/runs.jsonl and
results/*.json.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Self

from sureenough import __version__
from sureenough.bench.live import Key, LiveRun, jobs_of, live_terms, read_runs, run_cell, run_of
from sureenough.bench.paper import Experiment, Inputs, experiment
from sureenough.bench.paper.live_tables import NO_QUESTIONS
from sureenough.bench.pipeline import Progress, Source, changed_settings
from sureenough.bench.plan import BenchPlan, DatasetChoice
from sureenough.bench.recording import Model, ProgressMeter, RecordingCell, is_complete, record_cell
from sureenough.bench.replay import fitting
from sureenough.bench.result import ExperimentResult
from sureenough.bench.result import read as read_result
from sureenough.core.options import RunOptions, fitting_warmup
from sureenough.data import BUILTIN_POOL
from sureenough.datasets.load import Loaded, load
from sureenough.errors import TraceError, UsageError
from sureenough.pools import OutputLock
from sureenough.pools.durable import lock_owner, resumable, write_file
from sureenough.pools.journal import JsonLinesFile
from sureenough.spec import parse


@dataclass(frozen=True, slots=True)
class PreparedPlan:
    """A plan with its datasets loaded and its engines made."""

    plan: BenchPlan
    experiment: Experiment
    cells: tuple[RecordingCell, ...]
    pools: tuple[Source, ...]

    @property
    def live(self) -> bool:
        """Whether strategies run on live engines."""
        return bool(self.cells) and (self.plan.live or self.experiment.live == "needed")

    @property
    def records(self) -> bool:
        """Whether pools are recorded: not for what is only measured live."""
        return self.experiment.live != "needed"

    @property
    def strategies(self) -> tuple[str, ...]:
        """What runs live."""
        return self.plan.specs() or tuple(fitting(self.experiment.compared, self.plan.budget)[0])

    @property
    def live_options(self) -> RunOptions:
        return replace(self.plan.options, paths=self.plan.budget)

    def inputs(self, sources: Sequence[Source], runs: Sequence[LiveRun], progress: Progress, command: str) -> Inputs:
        """What the experiment reads; a deadline is for live runs only."""
        plan = self.plan
        options = replace(plan.options, parallel=plan.replay_parallel, hurry=plan.replay_hurry, deadline=None)
        settings, specs = plan.settings, plan.specs()
        return Inputs(sources, options, settings, specs, plan.sweep, runs, progress, command)

    def cell_terms(self) -> dict[str, dict[str, Any]]:
        """What decides each pool."""
        seed = self.plan.options.seed
        return {cell.name: {**cell.terms(seed), "paths": self.plan.budget} for cell in self.cells}

    def terms(self) -> dict[str, Any]:
        """What decides the experiment's numbers, beside the cells' own terms; newer options only if they are set."""
        plan, options, settings = self.plan, self.plan.options, self.plan.settings
        terms: dict[str, Any] = {
            "cells": [cell.name for cell in self.cells],
            "pools": [f"{source.pool.name} {source.digest()[:16]}" for source in self.pools],
            "strategies": list(plan.specs() or ()) or None, "sweep": plan.sweep, "paths": options.paths,
            "window": options.window, "replay_parallel": plan.replay_parallel, "repeats": settings.repeats,
            "seed": options.seed, "equal": settings.equal,
        }  # fmt: skip
        repeats = "repeat" if plan.live_repeats == 1 else "repeats"
        terms["live"] = f"{plan.live_repeats} {repeats}, {options.parallel} paths at once" if self.live else None
        changed = changed_settings(options, settings)
        if plan.replay_hurry is None:
            changed.pop("hurry", None)  # what live runs do is part of their own terms
        return terms | {name: value for name, value in changed.items() if name not in terms and name != "parallel"}


def prepare(plan: BenchPlan, models: Sequence[Model]) -> PreparedPlan:
    """Load every dataset; refuse what is impossible before anything is paid for."""
    chosen = experiment(plan.experiment)
    chosen.check(strategies=plan.strategies, sweep=plan.sweep)
    if plan.live and chosen.live == "no":
        raise UsageError(f"{chosen.name} is computed from recorded paths; leave --live out")
    if models and not plan.datasets:
        raise UsageError("which questions? Name datasets with --dataset, or recorded paths with --pool and no engine")
    if chosen.name == "search" and not plan.datasets:
        raise UsageError(NO_QUESTIONS)
    if plan.live and not models:
        raise UsageError("--live needs questions to ask: give --dataset, and --url and --model for a server")
    loaded = [_load(choice, plan.options.seed) for choice in plan.datasets]
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
    if work.live and plan.settings.grader != "own":
        raise UsageError("live runs are graded by the kind of their answers: leave grader out, or live")
    if plan.options.deadline is not None and not work.live:
        raise UsageError("deadline is a limit for live runs, and this plan has none; leave it out, or add live")
    _refuse_small_budget(work)
    searches = [spec for spec in plan.specs() or () if parse(spec).search is not None]
    if work.records and searches:
        raise UsageError(
            f"{searches[0]} samples as it searches, and {chosen.name} replays recorded paths: use `bench search`"
        )
    return work


def _load(choice: DatasetChoice, seed: int) -> Loaded:
    return load(
        choice.dataset, limit=choice.limit, seed=seed, columns=choice.columns or None, kind=choice.kind,
        template=choice.template,
    )  # fmt: skip


def _refuse_small_budget(work: PreparedPlan) -> None:
    for spec in (*(work.plan.specs() or ()), *(work.strategies if work.live else ())):
        warmup = parse(spec).warmup
        if work.cells and warmup > work.plan.budget:
            raise UsageError(
                f"{spec} warms up with {warmup} paths, the plan records {work.plan.budget}: allow at least {warmup} "
                f"with --paths, or ask for {spec.partition(':')[0]}:warmup={fitting_warmup(work.plan.budget)}"
            )


def execute(
    work: PreparedPlan, folder: RunFolder, meter: ProgressMeter, command: str, progress: Progress
) -> ExperimentResult:
    """Do what is not done yet; the result is in the folder when this returns."""
    name = work.experiment.name
    folder.check_plan(work.cell_terms(), name, work.terms())
    earlier = _earlier_result(folder.result(name))
    if earlier is not None:
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
    folder.write(folder.result(name), result.to_json())
    return result


def _earlier_result(file: Path) -> ExperimentResult | None:
    """The result of the same plan and version, if there is one."""
    with suppress(UsageError, OSError):
        result = read_result(file)
        return result if result.provenance.versions.get("sureenough") == __version__ else None
    return None


def _record(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[Source]:
    if not work.records:
        return []
    plan = work.plan
    meter.cells = len(work.cells) * (1 + (len(work.strategies) if work.live else 0))
    missing = [cell for cell in work.cells if not is_complete(folder.pool(cell.name))]
    meter.phase("paths", sum(len(cell.data.problems) * plan.budget for cell in missing))
    meter.cell = len(work.cells) - len(missing)
    return [
        record_cell(cell, folder.pool(cell.name), paths=plan.budget, keep_text=plan.text, seed=plan.options.seed,
                    parallel=plan.options.parallel * cell.model.servers, meter=meter)
        for cell in work.cells
    ]  # fmt: skip


def _run_live(work: PreparedPlan, folder: RunFolder, meter: ProgressMeter) -> list[LiveRun]:
    if not work.live:
        return []
    plan = work.plan
    options = work.live_options
    if not work.records:
        meter.cells = len(work.cells) * len(work.strategies)
    meter.phase("runs", sum(len(c.data.problems) for c in work.cells) * len(work.strategies) * plan.live_repeats)
    keys: list[Key] = []
    with JsonLinesFile(folder.runs, live_terms(options), "runs") as lines:
        done = {run_of(line, folder.runs).key for _, line in lines}
        for cell in work.cells:
            jobs = [list(jobs_of(cell, strategy, plan.live_repeats)) for strategy in work.strategies]
            run_cell(cell, jobs, lines, done, options, plan.at_once or cell.model.servers, meter)
            keys += [job.key for own in jobs for job in own]
    runs = {run.key: run for run in read_runs(folder.runs)}
    return [runs[key] for key in keys]


Terms = dict[str, Any]
MOST_CHANGES: Final = 8
"""Changes that a refusal names."""


class RunFolder:
    """Used by one process at a time. The same plan continues where it stopped; another plan is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lock = path / "lock"
        if lock.exists() and not (path / "plan.json").exists() and lock_owner(lock) is None:
            raise UsageError(f"{lock} is not the lock of a run, and would be removed; give another folder with -o")
        try:
            for name in ("pools", "live", "results"):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"cannot make the run folder {path}: {error.strerror or error}") from None
        self._lock = OutputLock(lock, path)

    def check_plan(self, cells: dict[str, Terms], experiment: str, terms: Terms) -> None:
        """Refuse a plan that differs from the saved one, naming every change; else save it."""
        plan = self._read() or {"sureenough": __version__, "cells": {}, "experiments": {}}
        cells, terms = json.loads(json.dumps([cells, terms]))
        changed = _changes(plan["experiments"].get(experiment, terms), terms, "")
        for name, cell_terms in cells.items():
            changed += _changes(plan["cells"].get(name, cell_terms), cell_terms, f"{name}: ")
        if changed:
            more = f"; and {len(changed) - MOST_CHANGES} more" if len(changed) > MOST_CHANGES else ""
            raise UsageError(
                f"{self.path} was begun with another plan. What changed: {'; '.join(changed[:MOST_CHANGES])}{more}. "
                "Give the same plan to go on, or another folder with -o to begin anew"
            )
        plan["cells"] |= cells
        plan["experiments"][experiment] = terms
        self._save(plan)

    def _save(self, plan: dict[str, Any]) -> None:
        self.write(self.path / "plan.json", json.dumps(plan, indent=1, ensure_ascii=False).encode() + b"\n")

    def forget(self, experiment: str) -> None:
        """Allow another plan of an experiment that has no result yet; pools keep their terms."""
        plan = self._read()
        if plan is not None and plan["experiments"].pop(experiment, None) is not None:
            self._save(plan)

    def pool(self, cell: str) -> Path:
        return pool_file(self.path, cell)

    @property
    def runs(self) -> Path:
        """Live runs, one line each."""
        return self.path / "live" / "runs.jsonl"

    def result(self, experiment: str) -> Path:
        return self.path / "results" / f"{experiment}.json"

    def _read(self) -> dict[str, Any] | None:
        file = self.path / "plan.json"
        if not file.exists():
            return None
        try:
            plan = json.loads(file.read_text("utf-8"))
            if not isinstance(plan["cells"], dict) or not isinstance(plan["experiments"], dict):
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError):
            raise TraceError(f"{file} is not the plan of a run; give another folder with -o") from None
        return dict(plan)

    def write(self, file: Path, content: bytes) -> None:
        """Write a file of the folder durably; a reader never sees half of it."""
        try:
            write_file(file, content)
        except OSError as error:
            raise TraceError(
                f"cannot write {file}: {error.strerror or error}. All that was sampled is safe in {self.path}; make "
                "room and give the same command again"
            ) from None

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pool_file(folder: Path, cell: str) -> Path:
    """Where a run folder keeps a cell's paths."""
    return folder / "pools" / f"{cell}.parquet"


def _changes(old: Any, new: Any, at: str) -> list[str]:
    """Every difference, by name; a value that one of the two does not have is None."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*new, *(name for name in old if name not in new)]
        return [change for name in names for change in _changes(old.get(name), new.get(name), f"{at}{name} ")]
    return [] if old == new else [f"{at.rstrip()} was {_shown(old)}, is {_shown(new)}"]


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
