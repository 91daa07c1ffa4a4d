"""`sureenough bench`: a named experiment on recorded pools or on live engines. Killed anywhere, it goes on."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.bench.estimate import Prices, estimate
from sureenough.bench.execute import execute, prepare
from sureenough.bench.experiments import EXPERIMENTS
from sureenough.bench.folder import RunFolder
from sureenough.bench.pipeline import cores
from sureenough.bench.plan import BenchPlan, EngineChoice, read_plan
from sureenough.bench.recording import Model
from sureenough.cli import engine
from sureenough.cli.bench_view import showing, tables
from sureenough.datasets import DATASETS
from sureenough.datasets.files import columns_of
from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.errors import UsageError
from sureenough.redact import printable_command

Texts = list[str] | None


def command(
    context: typer.Context,
    experiment: Annotated[str | None, typer.Argument(help="Its name; without one, all are listed.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A TOML file; what is typed wins over it.")] = None,
    pool: Annotated[Texts, typer.Option(help="Recorded paths; repeat for several.")] = None,
    dataset: Annotated[Texts, typer.Option(help="A name, NAME=FILE, or a FILE of questions; repeat.")] = None,
    url: Annotated[
        Texts, typer.Option(help="A server; several of the same model share the work.", envvar="SUREENOUGH_URL")
    ] = None,
    model: engine.Model = None,
    strategy: Annotated[Texts, typer.Option("-s", "--strategy", help="Such as ddc:tau=0.99; repeat.")] = None,
    sweep: Annotated[
        Texts, typer.Option(help="warmup=8,16 for an option of the strategies; 8,16 for the experiment's own.")
    ] = None,
    paths: Annotated[int | None, typer.Option(help="Budget of paths a question; 512 are recorded by default.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens a window; what pool or engine suggest.")] = None,
    repeats: Annotated[int | None, typer.Option(help="Orders to replay; 5 by default.")] = None,
    parallel: Annotated[int | None, typer.Option(help="Paths at once on each server; 16 by default.")] = None,
    replay_parallel: Annotated[int | None, typer.Option(help="Paths at once in replay; 1 is the paper's.")] = None,
    seed: Annotated[int | None, typer.Option(help="Of paths, orders, choices and made questions.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first so many questions of each dataset.")] = None,
    columns: Annotated[str | None, typer.Option("--map", help="Columns of a file: question=problem,gold=key.")] = None,
    kind: Annotated[str | None, typer.Option(help="Kind of answer in place of the dataset's: math or choice.")] = None,
    template: Annotated[str | None, typer.Option(help="Prompt in place of the dataset's, with {question}.")] = None,
    equal: Annotated[str | None, typer.Option(help="Answers are one candidate by meaning, or by string.")] = None,
    live: Annotated[bool | None, typer.Option("--live", help="Run every strategy for real, too.")] = None,
    live_repeats: Annotated[int | None, typer.Option(help="Live runs a question and strategy; 1.")] = None,
    at_once: Annotated[int | None, typer.Option(help="Questions at once in live runs; one a server.")] = None,
    temperature: engine.Temperature = 0.6,
    top_p: engine.TopP = 0.95,
    max_path_tokens: engine.MaxPathTokens = None,
    completions: engine.Completions = False,
    first_token: engine.FirstToken = 300.0,
    stall: engine.Stall = 60.0,
    text: Annotated[bool | None, typer.Option("--text/--no-text", help="Keep the text of recorded paths.")] = None,
    jobs: Annotated[int | None, typer.Option(help="Processes that replay.")] = None,
    price_in: engine.PriceIn = None,
    price_out: engine.PriceOut = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Estimate tokens, time and money; run nothing.")] = False,
    sample: Annotated[int, typer.Option(help="With --dry-run: sample so many paths, and keep them.")] = 0,
    like: Annotated[Path | None, typer.Option(help="With --dry-run: lengths of paths as in this pool.")] = None,
    output: Annotated[Path | None, typer.Option("-o", "--output", help="Run folder; runs/EXPERIMENT.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as JSON.")] = False,
) -> None:
    """Run an experiment of the paper on recorded pools, or on live engines, which are recorded first."""
    if experiment is None and plan is None:
        typer.echo(_known())
        return
    engine.refuse_bad_prices(price_in, price_out)
    given = {"temperature": temperature, "top_p": top_p, "max_path_tokens": max_path_tokens,
             "completions": completions, "first_token": first_token, "stall": stall}  # fmt: skip
    server = [{"url": list(url or ()), "model": model, **given}] if url or model else None
    named = _typed(context, "url") or _typed(context, "model")
    options, own = _sweeps(sweep)
    chosen = read_plan(plan, {
        "experiment": experiment, "pools": pool, "datasets": _datasets(dataset, columns, kind, template),
        "engines": server if named else None, "strategies": _split(strategy), "sweeps": options,
        "sweep": own, "paths": paths, "window": window, "repeats": repeats, "parallel": parallel,
        "replay_parallel": replay_parallel, "seed": seed, "limit": limit, "equal": equal, "live": live,
        "live_repeats": live_repeats, "at_once": at_once, "text": text, "jobs": jobs,
    }, sampling={name: value for name, value in given.items() if _typed(context, name)},
       fallback={"jobs": cores(), **({"engines": server} if server and not named else {})})  # fmt: skip
    work = prepare(chosen, _models(chosen))
    path = output or Path("runs") / chosen.experiment
    if dry_run:
        typer.echo(estimate(work, path, like=like, sample=sample, prices=Prices(price_in, price_out)))
        return
    with RunFolder(path) as folder:
        try:
            with showing(folder) as (meter, replaying):
                result = execute(work, folder, meter, printable_command(["sureenough", *sys.argv[1:]]), replaying)
        except KeyboardInterrupt:
            typer.echo(f"Interrupted. What was done is kept in {folder.path}; the same command goes on.", err=True)
            raise typer.Exit(130) from None
        typer.echo(result.to_json().decode() if as_json else tables(result, folder.path))


def _typed(context: typer.Context, name: str) -> bool:
    """Whether an option was typed, rather than found in the environment or a file of defaults."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _known() -> str:
    lines = ["Experiments: sureenough bench NAME"]
    lines += [f"  {name:14} {one.about}" for name, one in EXPERIMENTS.items()]
    lines += ["", "Datasets: --dataset NAME, NAME=FILE for a copy of your own, or a FILE of questions"]
    lines += [f"  {name:14} {f'{one.count:,}' if one.count else '':>5}  {one.about}" for name, one in DATASETS.items()]
    return "\n".join(lines)


def _split(strategies: Texts) -> list[str] | None:
    return [name for text in strategies for name in text.split()] if strategies else None


def _datasets(names: Texts, columns: str | None, kind: str | None, template: str | None) -> list[Any] | None:
    if not names:
        if columns or kind or template:
            raise UsageError(
                "--map, --kind and --template are of a --dataset; in a plan they stand beside each dataset"
            )
        return None
    said = {"columns": columns_of(columns), "kind": kind, "template": template}
    return [{"dataset": name, **{key: value for key, value in said.items() if value}} for name in names]


def _sweeps(texts: Texts) -> tuple[dict[str, list[str]] | None, list[float] | None]:
    """`warmup=8,16` is an option's, `8,16` the experiment's own."""
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
    return options or None, own


def _models(plan: BenchPlan) -> list[Model]:
    """The engines; the one that needs no server where datasets are named and no engine is."""
    servers = plan.engines or ((EngineChoice(),) if plan.datasets else ())
    return [_model(server) for server in servers]


def _model(server: EngineChoice) -> Model:
    made: list[Any] = [
        engine.server(
            url, server.model, temperature=server.temperature, top_p=server.top_p,
            max_path_tokens=server.max_path_tokens, completions=server.completions, first_token=server.first_token,
            stall=server.stall,
        )
        for url in server.urls or (None,)
    ]  # fmt: skip
    name = server.name or server.model or getattr(made[0], "name", "built-in")
    one: Engine = made[0] if len(made) == 1 else LoadBalancer(made)
    return Model(str(name), one, len(made))
