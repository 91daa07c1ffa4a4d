"""`sureenough bench`: an experiment on recorded pools or live engines. If it is killed, the same command continues."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from sureenough.bench import paper
from sureenough.bench.estimate import ProgressMeter
from sureenough.bench.pipeline import cores
from sureenough.bench.plan import BenchPlan, EngineChoice, read_plan
from sureenough.bench.recommendation import advice
from sureenough.bench.report import build, saved
from sureenough.bench.result import ExperimentResult
from sureenough.bench.run import Model, RunFolder, execute, plan_estimate, prepare
from sureenough.bench.tables import aligned, without_constants
from sureenough.cli.engine import EngineOptions, print_counts
from sureenough.cli.options import (
    GRADER_HELP,
    AsJson,
    DryRun,
    Jobs,
    PoolKind,
    Prices,
    RayAddress,
    Strategies,
    is_typed,
    join,
    option_group,
    rare_option,
    run_options,
    split_strategies,
    with_options,
)
from sureenough.cli.terminal import echo, echo_json, progress
from sureenough.datasets import DATASETS
from sureenough.errors import UsageError
from sureenough.redact import printable_command

Texts = list[str] | None
SAMPLING: Final = ("temperature", "top_p", "max_path_tokens", "completions", "first_token", "stall")
"""Options of an engine that a plan's engines have too."""


@with_options(
    server=option_group(EngineOptions, leave_out=("metrics", "context", "threads")),
    run=run_options(
        None,
        only=("paths", "window", "parallel", "seed"),
        notes={"paths": "512 are recorded by default", "parallel": "per server, 16 by default"},
    ),
    prices=option_group(Prices),
)
def command(
    *,
    context: typer.Context,
    experiment: Annotated[str | None, typer.Argument(help="Its name; without one, all are listed.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A TOML file; the command line takes precedence over it.")] = None,
    pool: Annotated[Texts, typer.Option(help="Recorded paths; repeat it for several.")] = None,
    dataset: Annotated[Texts, typer.Option(help="A name, NAME=FILE, or a FILE of questions; repeatable.")] = None,
    strategy: Strategies = None,
    sweep: Annotated[
        Texts, typer.Option(help="warmup=8,16 for an option of the strategies; 8,16 for the experiment's own sweep.")
    ] = None,
    run: dict[str, Any],
    repeats: Annotated[int | None, typer.Option(help="Orders to replay; 5 by default.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first LIMIT questions of each dataset.")] = None,
    kind: PoolKind = None,
    grader: Annotated[str | None, rare_option(help=GRADER_HELP)] = None,
    live: Annotated[bool | None, typer.Option("--live", help="Run every strategy live as well.")] = None,
    server: EngineOptions,
    ray: RayAddress = None,
    jobs: Jobs = None,
    prices: Prices,
    dry_run: DryRun = False,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Folder of the run; runs/EXPERIMENT.")] = None,
    report: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Only write the report of a finished run again.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Run an experiment of the paper on recorded pools, or on live engines, which are recorded first.

    A plan has more options than these: docs/bench.md.
    """
    if report is not None:
        if experiment is not None or plan is not None:
            raise UsageError("--report writes the report of a finished run: leave the experiment and --plan out")
        results, written = _write_report(report)
        echo("\n".join([*written, *advice(results)]))
        return
    if experiment is None and plan is None:
        (echo_json if as_json else echo)(_list(as_json))
        return
    sampling = {name: value for name, value in asdict(server).items() if name in SAMPLING}
    named = {"engine": server.plugin} if server.plugin else {"url": server.url or [], "model": server.model}
    engines = [{**named, **sampling}] if server.url or server.model or server.plugin else None
    engine_typed = any(is_typed(context, name) for name in ("url", "model", "plugin"))
    option_sweeps, own_sweep = _sweeps(sweep)
    chosen = read_plan(
        plan,
        {
            "experiment": experiment,
            "pools": pool,
            "datasets": [{"dataset": name} | ({"kind": kind} if kind else {}) for name in dataset or ()] or None,
            "engines": engines if engine_typed else None,
            "strategies": split_strategies(strategy),
            "sweeps": option_sweeps or None,
            "sweep": own_sweep,
            "kind": None if dataset else kind,
            **run,
            "repeats": repeats,
            "limit": limit,
            "grader": grader,
            "live": live,
            "jobs": jobs,
        },
        sampling={name: value for name, value in sampling.items() if is_typed(context, name)},
        fallback={"jobs": cores()} | ({"engines": engines} if engines and not engine_typed else {}),
    )
    models = _models(chosen, join(ray, context))
    prepared = prepare(chosen, paper.experiment(chosen.experiment), models)
    path = output or Path("runs") / chosen.experiment
    if dry_run:
        echo(plan_estimate(prepared, path, prices.cost))
        return
    with RunFolder(path) as folder:
        try:
            with progress() as show:
                result = execute(
                    prepared,
                    folder,
                    ProgressMeter(lambda meter: show(meter.line(), meter.done, meter.total)),
                    printable_command(["sureenough", *sys.argv[1:]]),
                    lambda done, total: show(f"replaying: {done:,} of {total:,}", done, total),
                )
        except KeyboardInterrupt:
            echo(f"Interrupted. The results so far are in {folder.path}; the same command continues.", err=True)
            raise typer.Exit(130) from None
        for model in models:
            print_counts(model.engine)
        _, written = _write_report(folder.path)
    if as_json:
        echo_json(result.to_json().decode())
    else:
        echo(tables(result, written))


def tables(result: ExperimentResult, written: Sequence[str] = ()) -> str:
    """A result as text; `written` says which files it is in."""
    lines = [result.title]
    for full in result.tables:
        table, constants = without_constants(full)
        title = table.title + (" (live)" if table.live and "live" not in table.title else "")
        lines += ["", title, *([constants] if constants else []), *aligned(table), *table.notes]
    last = [*result.notes, *written]
    lines += ["", *last] if last else []
    return "\n".join([*lines, *advice([result])])


def _write_report(run: Path) -> tuple[list[ExperimentResult], list[str]]:
    """A run's results, and what was written of them."""
    results = saved(run)
    report = build(results, run / "report", title=f"sureenough: {run.resolve().name}")
    return results, [report.summary(), *([report.missing] if report.missing else [])]


def _list(as_json: bool) -> str:
    """Every experiment and every dataset, in a line."""
    if as_json:
        experiments = {name: one.about for name, one in paper.EXPERIMENTS.items()}
        datasets = {name: {"questions": one.count or None, "about": one.about} for name, one in DATASETS.items()}
        return json.dumps({"experiments": experiments, "datasets": datasets}, ensure_ascii=False)
    lines = ["Experiments: sureenough bench NAME"]
    lines += [f"  {name:14} {one.about}" for name, one in paper.EXPERIMENTS.items()]
    lines += ["", "Datasets: --dataset NAME, NAME=FILE for your own copy, or a FILE of questions"]
    lines += [f"  {name:14} {f'{one.count:,}' if one.count else '':>5}  {one.about}" for name, one in DATASETS.items()]
    return "\n".join(lines)


def _sweeps(texts: Texts) -> tuple[dict[str, list[str]], list[float] | None]:
    """Sweeps of options of the strategies (`warmup=8,16`), and the experiment's own sweep (`8,16`)."""
    options: dict[str, list[str]] = {}
    own: list[float] | None = None
    for text in texts or ():
        name, equals, values = text.rpartition("=")
        if equals:
            options[name.strip()] = [value.strip() for value in values.split(",")]
            continue
        try:
            own = [float(value) for value in values.split(",")]
        except ValueError:
            raise UsageError(
                f"--sweep {text}: give numbers such as 8,16,32, or an option such as warmup=8,16"
            ) from None
    return options, own


def _models(plan: BenchPlan, cluster: Any) -> list[Model]:
    """The engines of the plan; the built-in model if datasets are named without one."""
    choices = plan.engines or ((EngineChoice(),) if plan.datasets else ())
    if cluster is not None and not choices:
        raise UsageError("--ray samples paths from engines, and this plan replays recorded ones: leave it out")
    models = []
    for choice in choices:
        sampling = {name: getattr(choice, name) for name in SAMPLING}
        server = EngineOptions(url=list(choice.urls), model=choice.model, plugin=choice.engine, **sampling)
        engine = server.any_engine()
        name = choice.name or choice.model or choice.engine or engine.model_name()
        models.append(Model(name, engine, server.on_cluster(cluster)))
    return models
