"""`sureenough explain`: what a strategy decides on one recorded question, in sentences."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from sureenough.api import replay
from sureenough.cli.option_groups import STRATEGY_HELP, run_options, with_options
from sureenough.cli.terminal import echo
from sureenough.core.options import RunOptions
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question
from sureenough.strategies import DEFAULT_STRATEGY


@with_options(
    run=run_options(
        RunOptions(),
        notes={"paths": "all recorded paths by default"},
    ).without("seed", "deadline")
)
def command(
    *,
    pool: Annotated[
        Path | None, typer.Argument(metavar="POOL", help="A Parquet file; the built-in pool by default.")
    ] = None,
    question: Annotated[
        str | None, typer.Option("-q", "--question", help="The question's id, or its position from 1 on.")
    ] = None,
    strategy: Annotated[str, typer.Option("-s", "--strategy", help=STRATEGY_HELP)] = DEFAULT_STRATEGY,
    run: RunOptions,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Explain what a strategy decided on one recorded question, and why it stopped."""
    source = Pool(pool or BUILTIN_POOL)
    recorded = _find(source, question)
    out = replay(recorded.paths, strategy, **asdict(replace(run, window=run.window or source.window())))
    if as_json:
        typer.echo(json.dumps({"question": recorded.id, "gold": recorded.gold} | out.to_json(), allow_nan=False))
        return
    echo(f"Question {recorded.id}" + (f", gold answer {recorded.gold}." if recorded.gold is not None else "."))
    echo(out.explain())


def _find(pool: Pool, name: str | None) -> Question:
    ids = []
    for position, question in enumerate(pool, start=1):
        if name in (None, question.id, str(position)):
            return question
        ids.append(question.id)
    close = get_close_matches(str(name), ids, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {len(ids)}, from {ids[0]!r} to {ids[-1]!r}"
    raise UsageError(f"{pool.file} has no question {name!r}; {hint}")
