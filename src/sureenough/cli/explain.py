"""`sureenough explain`: one recorded question under one strategy, in sentences."""

from __future__ import annotations

import json
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated

import typer

from sureenough.api import replay
from sureenough.data import BUILTIN_POOL
from sureenough.errors import UsageError
from sureenough.pools import Pool, Question


def command(
    pool: Annotated[
        Path | None, typer.Argument(metavar="POOL", help="A Parquet file; the built-in pool if none.")
    ] = None,
    question: Annotated[str | None, typer.Option("-q", "--question", help="Its id, or its place from 1 on.")] = None,
    strategy: Annotated[
        str, typer.Option("-s", "--strategy", help="A strategy such as sure or ddc:tau=0.99.")
    ] = "sure",
    paths: Annotated[int | None, typer.Option(help="Budget of paths; all that were recorded by default.")] = None,
    window: Annotated[int | None, typer.Option(help="Tokens a window; what the pool suggests, else 2048.")] = None,
    parallel: Annotated[int, typer.Option(help="Paths that run at once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Say what a strategy decided on one question, and why it stopped."""
    source = Pool(pool or BUILTIN_POOL)
    found = _find(source, question)
    size = window if window is not None else source.info.window
    out = replay(found.paths, strategy, paths=paths, window=size, parallel=parallel)
    if as_json:
        typer.echo(json.dumps({"question": found.id, "gold": found.gold} | out.to_json(), allow_nan=False))
        return
    typer.echo(f"Question {found.id}" + (f", gold answer {found.gold}." if found.gold is not None else "."))
    typer.echo(out.explain())


def _find(pool: Pool, name: str | None) -> Question:
    ids = []
    for place, question in enumerate(pool, start=1):
        if name in (None, question.id, str(place)):
            return question
        ids.append(question.id)
    close = get_close_matches(str(name), ids, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {len(ids)}, from {ids[0]!r} to {ids[-1]!r}"
    raise UsageError(f"{pool.file} has no question {name!r}; {hint}")
