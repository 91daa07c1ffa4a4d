"""`sureenough recommend`: which strategy to use for this model and data, and how sure the data can be."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.bench import compare
from sureenough.bench.processes import suitable_jobs
from sureenough.bench.recommendation import sentences, to_json, with_margin
from sureenough.bench.report import saved
from sureenough.bench.result import Recommendation
from sureenough.bench.settings import DEFAULT_REPEATS
from sureenough.cli.learned import LearnedStates, LearnFile, StateFolder
from sureenough.cli.option_groups import STRATEGIES_HELP, run_options, split_strategies, with_options
from sureenough.cli.replay import progress_bar
from sureenough.cli.terminal import echo
from sureenough.core.options import RunOptions
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError
from sureenough.pools import is_pool


@with_options(run=run_options(RunOptions(), notes={"paths": "all recorded paths by default"}).without("deadline"))
def command(
    *,
    sources: Annotated[
        list[Path] | None,
        typer.Argument(metavar="POOL|RUN", help="Recorded paths, or folders of `bench`; the built-in pool by default."),
    ] = None,
    strategy: Annotated[list[str] | None, typer.Option("-s", "--strategy", help=STRATEGIES_HELP)] = None,
    margin: Annotated[float, typer.Option(help="The largest loss of accuracy to accept, in points.")] = 2.0,
    run: RunOptions,
    repeats: Annotated[int, typer.Option(help="Orders of the paths to replay.")] = DEFAULT_REPEATS,
    jobs: Annotated[
        int | None, typer.Option(help="Processes; all cores by default if the pool is large.", min=1)
    ] = None,
    learn: LearnFile = None,
    state: StateFolder = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Recommend a strategy: the cheapest whose accuracy is shown to be at most --margin points below sc's."""
    learned = LearnedStates(learn, state)
    recommendations: list[Recommendation] = []
    for source in sources or [BUILTIN_POOL]:
        if os.path.isdir(source) and not is_pool(source):
            recommendations += _of_run(source)
        else:
            with progress_bar(source.name) as progress:
                options: dict[str, Any] = {name: value for name, value in asdict(run).items() if name != "deadline"}
                names, processes = split_strategies(strategy or ()) or None, jobs or suitable_jobs(source, repeats)
                result = compare(source, names, **options, repeats=repeats, jobs=processes, progress=progress)
            if result.recommendation is None:
                raise UsageError("one strategy alone cannot be compared; name several, sc among them")
            recommendations.append(result.recommendation)
    recommendations = [with_margin(one, margin) for one in recommendations]
    if as_json:
        shown = [
            to_json(one) | ({"learned": learned.of(one.model)} if learned.files else {}) for one in recommendations
        ]
        typer.echo(json.dumps({"recommendations": shown}, indent=2, allow_nan=False))
        return
    texts = [[f"{one.dataset}, {one.model}:", *sentences(one), *learned.lines(one.model)] for one in recommendations]
    echo("\n\n".join("\n".join(lines) for lines in texts))


def _of_run(folder: Path) -> list[Recommendation]:
    """Those of the run's results."""
    recommendations = [one for result in saved(folder) for one in result.recommendations]
    if not recommendations:
        raise UsageError(f"no result in {folder} compares strategies; run `sureenough bench main -o {folder}`")
    return recommendations
