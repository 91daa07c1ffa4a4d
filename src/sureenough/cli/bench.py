"""`sureenough bench`: a named experiment on recorded pools or on live engines. Killed anywhere, it goes on."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sureenough.bench.datasets import DATASETS
from sureenough.bench.estimate import Prices, estimate, note_pace
from sureenough.bench.experiments import EXPERIMENTS
from sureenough.bench.folder import RunFolder
from sureenough.bench.meter import Meter
from sureenough.bench.plan import Plan, Server, read_plan
from sureenough.bench.recording import Model
from sureenough.bench.result import Result
from sureenough.bench.run import carry_out, prepare
from sureenough.cli import engine
from sureenough.engines.base import Engine
from sureenough.engines.spread import Spread
from sureenough.errors import UsageError
from sureenough.traces.questions import columns_of

EVERY: Final = 10.0
"""Seconds between lines of progress where there is no terminal."""

Texts = list[str] | None


def command(
    experiment: Annotated[str | None, typer.Argument(help="Its name; nothing lists them.")] = None,
    plan: Annotated[Path | None, typer.Option(help="A TOML file; what is typed wins over it.")] = None,
    pool: Annotated[Texts, typer.Option(help="Recorded paths; repeat for several.")] = None,
    dataset: Annotated[Texts, typer.Option(help="A name, NAME=FILE, or a FILE of questions; repeat.")] = None,
    url: Annotated[Texts, typer.Option(help="A server; several of the same model share the work.")] = None,
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
    server = None
    if url or model:
        server = {"url": list(url or ()), "model": model, "temperature": temperature, "top_p": top_p,
                  "max_path_tokens": max_path_tokens, "completions": completions, "first_token": first_token,
                  "stall": stall}  # fmt: skip
    options, own = _sweeps(sweep)
    chosen = read_plan(plan, {
        "experiment": experiment, "pools": pool, "datasets": _datasets(dataset, columns, kind, template),
        "engines": None if server is None else [server], "strategies": _split(strategy), "sweeps": options,
        "sweep": own, "paths": paths, "window": window, "repeats": repeats, "parallel": parallel,
        "replay_parallel": replay_parallel, "seed": seed, "limit": limit, "equal": equal, "live": live,
        "live_repeats": live_repeats, "at_once": at_once, "text": text, "jobs": jobs or os.cpu_count(),
    })  # fmt: skip
    work = prepare(chosen, _models(chosen))
    with RunFolder(output or Path("runs") / chosen.experiment) as folder:
        if dry_run:
            typer.echo(estimate(work, folder, like=like, sample=sample, prices=Prices(price_in, price_out)))
            return
        try:
            with _showing(folder) as (meter, replaying):
                result = carry_out(work, folder, meter, shlex.join(["sureenough", *sys.argv[1:]]), replaying)
        except KeyboardInterrupt:
            typer.echo(f"Interrupted. What was done is kept in {folder.path}; the same command goes on.", err=True)
            raise typer.Exit(130) from None
        typer.echo(result.to_json().decode() if as_json else _plain(result, folder.path))


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


def _models(plan: Plan) -> list[Model]:
    """The engines; the one that needs no server where datasets are named and no engine is."""
    servers = plan.engines or ((Server(),) if plan.datasets else ())
    return [_model(server) for server in servers]


def _model(server: Server) -> Model:
    made: list[Any] = [
        engine.server(
            url, server.model, temperature=server.temperature, top_p=server.top_p,
            max_path_tokens=server.max_path_tokens, completions=server.completions, first_token=server.first_token,
            stall=server.stall,
        )
        for url in server.urls or (None,)
    ]  # fmt: skip
    name = server.name or server.model or getattr(made[0], "name", "built-in")
    one: Engine = made[0] if len(made) == 1 else Spread(made)
    return Model(str(name), one, len(made))


@contextmanager
def _showing(folder: RunFolder) -> Iterator[tuple[Meter, Callable[[int, int], None]]]:
    """A line that moves on a terminal; elsewhere one every now and then."""
    if not sys.stderr.isatty():
        yield _Lines(folder).both()
        return
    with Progress(BarColumn(), TextColumn("{task.description}"), console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        pace = _Now(EVERY)

        def show(meter: Meter) -> None:
            bar.update(task, description=meter.line(), completed=meter.done, total=meter.total)
            if pace() and meter.made:
                note_pace(folder, meter.rate)

        def replaying(done: int, total: int) -> None:
            bar.update(task, description=f"replaying: {done:,} of {total:,}", completed=done, total=total)

        yield Meter(show), replaying


class _Now:
    """True every so many seconds."""

    def __init__(self, every: float) -> None:
        self._every, self._last = every, time.monotonic()

    def __call__(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True


class _Lines:
    """Progress as lines on standard error."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._now, self._cell = folder, _Now(EVERY), 0

    def both(self) -> tuple[Meter, Callable[[int, int], None]]:
        """For what is sampled, and for what is replayed."""
        return Meter(self.meter), self.replaying

    def meter(self, meter: Meter) -> None:
        if self._now() or meter.cell != self._cell:
            self._cell = meter.cell
            typer.echo(meter.line(), err=True)
            if meter.made:
                note_pace(self._folder, meter.rate)

    def replaying(self, done: int, total: int) -> None:
        if self._now():
            typer.echo(f"replaying: {done:,} of {total:,}", err=True)


def _plain(result: Result, folder: Path) -> str:
    """What came out, in a few lines; the report has all of it."""
    lines = [result.title]
    for table in result.tables:
        lines.append(f"{table.title}: {len(table.rows)} rows" + (" (live)" if table.live else ""))
    return "\n".join([*lines, *result.notes, f"{folder}: `sureenough report {folder}` makes tables and figures of it."])
