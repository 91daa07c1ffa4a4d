"""`sureenough report`: the results of a run as an HTML page, tables for papers, and figures."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sureenough.bench.recommendation import advice
from sureenough.bench.report import build, saved
from sureenough.cli.terminal import echo


def command(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="A folder that `sureenough bench -o RUN` wrote.")],
    output: Annotated[
        Path | None, typer.Option("-o", "--output", help="The folder to write; RUN/report by default.")
    ] = None,
    title: Annotated[str | None, typer.Option(help="The page's title.")] = None,
) -> None:
    """Write a run's report: a self-contained page, tables as Markdown, LaTeX and CSV, figures as SVG."""
    results = saved(run)
    built = build(results, output or run / "report", title=title or f"sureenough: {run.resolve().name}")
    echo(built.summary())
    for text in advice(results):
        echo(text)
    if built.missing:
        typer.echo(built.missing, err=True)
