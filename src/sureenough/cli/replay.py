"""`sureenough replay`: every strategy on the same recorded paths, in a table."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from sureenough.answers import REPLAY_SECONDS
from sureenough.bench import Comparison, compare
from sureenough.bench.pipeline import Progress as ReplayProgress
from sureenough.bench.pipeline import cores
from sureenough.bench.settings import COMPARED, DEFAULT_REPEATS
from sureenough.bench.tables import csv_table, json_table, plain_table, rich_table
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError


def command(
    pools: Annotated[
        list[Path] | None, typer.Argument(metavar="POOL", help="Parquet files; the built-in pool if none.")
    ] = None,
    strategy: Annotated[
        list[str] | None,
        typer.Option("-s", "--strategy", help="A strategy such as ddc:tau=0.99; repeat, or give several in quotes."),
    ] = None,
    paths: Annotated[int | None, typer.Option(help="Budget of paths a question; the pool's own by default.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens a window; what the pool suggests, else 2048.")] = None,
    parallel: Annotated[int, typer.Option(help="Paths that run at once; 1 is the paper's algorithm.")] = 1,
    repeats: Annotated[
        int, typer.Option(help="Orders of the paths to try, the same for every strategy.")
    ] = DEFAULT_REPEATS,
    seed: Annotated[int, typer.Option(help="Seed of the orders and of the bootstrap.")] = 0,
    max_tokens: Annotated[int | None, typer.Option(help="Cap on the tokens of a question.")] = None,
    count: Annotated[str, typer.Option(help="Count votes in order of start, or of finish.")] = "start",
    planned: Annotated[
        bool, typer.Option("--planned", help="Run no more paths at once than twice what a strategy needs at least.")
    ] = False,
    guard: Annotated[
        bool, typer.Option("--guard", help="Let sure stop believing confidence that has misled it.")
    ] = False,
    equal: Annotated[str, typer.Option(help="Answers are one candidate by meaning, or by string.")] = "meaning",
    symbolic_seconds: Annotated[
        float, typer.Option(help="Time a question for comparing answers symbolically; what is open then is different.")
    ] = REPLAY_SECONDS,
    skip_damaged: Annotated[bool, typer.Option("--skip-damaged", help="Leave damaged rows out; count them.")] = False,
    jobs: Annotated[int | None, typer.Option(help="Processes; all cores by default.", min=1)] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    as_csv: Annotated[bool, typer.Option("--csv", help="Print CSV.")] = False,
) -> None:
    """Compare strategies on recorded paths: accuracy, tokens, steps, and why runs stopped."""
    if as_json and as_csv:
        raise UsageError("--json and --csv exclude each other")
    names = [name for text in strategy or COMPARED for name in text.split()]
    results = []
    for pool in pools or [BUILTIN_POOL]:
        with _progress(pool.name) as told:
            result = compare(
                pool,
                names,
                paths=paths,
                window=window,
                parallel=parallel,
                repeats=repeats,
                seed=seed,
                max_tokens=max_tokens,
                count=count,  # type: ignore[arg-type]  # refused by compare where it is neither
                planned=planned,
                guard=guard,
                equal=equal,  # type: ignore[arg-type]  # likewise
                symbolic_seconds=symbolic_seconds,
                skip_damaged=skip_damaged,
                jobs=jobs or cores(),
                progress=told,
            )
        results.append(result)
        if not as_json and not as_csv:
            show(result)
    if as_json:
        typer.echo(json.dumps(json_table(results), indent=2, allow_nan=False))
    elif as_csv:
        typer.echo(csv_table(results))


def show(result: Comparison) -> None:
    console = Console()
    if console.is_terminal:
        console.print(rich_table(result, console.width))
    else:
        typer.echo(plain_table(result))


@contextmanager
def _progress(name: str) -> Iterator[ReplayProgress | None]:
    """A bar on a terminal, nothing in a pipe."""
    if not sys.stderr.isatty():
        yield None
        return
    columns = (TextColumn(name), BarColumn(), TextColumn("{task.percentage:>3.0f}%"), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(name)
        yield lambda done, total: bar.update(task, completed=done, total=total)
