"""`sureenough rank`: how hard a model takes the questions of a dataset to be, for `bench dsc`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated

import typer

from sureenough.cli.engine import EngineOptions, engine_options
from sureenough.cli.option_groups import run_options, with_options
from sureenough.cli.terminal import echo, plural
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.datasets.files import columns_of, load
from sureenough.drivers.difficulty import BATCH, ROUNDS, rank_difficulty
from sureenough.errors import UsageError
from sureenough.pools.durable import own_file, write_file


@with_options(
    server=engine_options(leave_out=("metrics",)),
    run=run_options(LIVE_DEFAULTS, only=("parallel", "seed"), env=("parallel",)),
)
def command(
    *,
    dataset: Annotated[Path, typer.Argument(help="JSON lines, CSV or Parquet with a column question.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The JSON file to write.")],
    columns: Annotated[str | None, typer.Option("--map", help="Columns, such as question=problem,id=key.")] = None,
    limit: Annotated[int | None, typer.Option(help="Only the first LIMIT questions.", min=1)] = None,
    batch: Annotated[int, typer.Option(help="Questions that are ordered together.", min=2, max=64)] = BATCH,
    rounds: Annotated[int, typer.Option(help="How often every question is ordered.", min=1, max=100)] = ROUNDS,
    run: RunOptions,
    server: EngineOptions,
) -> None:
    """Let a model order the questions of a dataset by difficulty, and write the ranking that `bench dsc` reads."""
    engine = server.any_engine(quiet=True)  # temperature 0 is right here
    _check_output(output, dataset)
    engine.prepare()
    questions = [(problem.id, problem.question) for problem in load(dataset, columns_of(columns))[:limit]]
    ranked = asyncio.run(
        rank_difficulty(questions, engine, batch=batch, rounds=rounds, seed=run.seed, parallel=run.parallel)
    )
    document = {"model": engine.model_name(), "batch": batch, "rounds": rounds, **ranked._asdict()}
    _write(output, json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    unread = f" ({ranked.unreadable:,} without a readable reply)" if ranked.unreadable else ""
    requests = plural(ranked.requests, "request") + unread
    echo(f"{output}: {plural(len(questions), 'question')}, {requests}, {plural(ranked.tokens, 'token')}.")


def _check_output(output: Path, dataset: Path) -> None:
    """Refuse an output that cannot be written, or that holds the questions, before anything is paid for."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder; name a JSON file")
    if output.exists() and dataset.exists() and output.samefile(dataset):
        raise UsageError(f"{output} holds the questions, and would be replaced; name another output")
    if not output.exists() or output.is_file():
        part = own_file(output, "part")
        try:
            part.touch()
            part.unlink()
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from None


def _write(output: Path, text: str) -> None:
    try:
        if output.exists() and not output.is_file():  # such as /dev/stdout
            output.write_text(text, encoding="utf-8")
        else:
            write_file(output, text.encode())
    except OSError as error:
        raise UsageError(f"cannot write {output}: {error.strerror}") from None
