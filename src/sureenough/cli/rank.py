"""`sureenough rank`: how hard a model takes the questions of a dataset to be, for `bench dsc`.

If it is stopped, the same command continues with the replies that its journal holds.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.cli.engine import EngineOptions, client, engine_options, sampling_terms
from sureenough.cli.option_groups import run_options, with_options
from sureenough.cli.terminal import echo, plural
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.datasets.files import columns_of, load
from sureenough.drivers.difficulty import BATCH, ROUNDS, DifficultyRanking, rank_difficulty
from sureenough.drivers.difficulty_journal import ReplyJournal, question_terms
from sureenough.engines.base import Engine
from sureenough.errors import UsageError
from sureenough.pools import OutputLock
from sureenough.pools.durable import check_writable, is_system_file, own_file, resumable, write_file


@with_options(
    server=engine_options(leave_out=("metrics",)),
    run=run_options(LIVE_DEFAULTS, only=("parallel", "seed"), env=("parallel",)),
)
def command(
    *,
    call: typer.Context,
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
    order: dict[str, Any] = {"batch": batch, "rounds": rounds, "seed": run.seed}
    journal: ReplyJournal | None = None
    if not _is_stream(output):
        call.with_resource(OutputLock(own_file(output, "lock"), output))
        terms = {"dataset": dataset.name, "questions": question_terms(questions), **order}
        file = output.with_name(output.name + ".journal")
        journal = call.with_resource(ReplyJournal(file, terms | sampling_terms(client(engine))))
    ranked = _rank(questions, engine, journal, parallel=run.parallel, **order)
    document = {"model": engine.model_name(), "batch": batch, "rounds": rounds, **ranked._asdict()}
    _write(output, json.dumps(document, indent=1, ensure_ascii=False) + "\n", journal)
    unread = f" ({ranked.unreadable:,} without a readable reply)" if ranked.unreadable else ""
    counts = f"{plural(len(questions), 'question')}, {plural(ranked.requests, 'request')}{unread}"
    echo(f"{output}: {counts}, {plural(ranked.tokens, 'token')}.", err=journal is None)


def _rank(
    questions: list[tuple[str, str]], engine: Engine, journal: ReplyJournal | None, **options: Any
) -> DifficultyRanking:
    """Ask for what the journal does not hold; a ranking that is stopped says how it continues."""
    if journal is None:
        return asyncio.run(rank_difficulty(questions, engine, **options))
    try:
        with resumable(journal.file, journal):
            return asyncio.run(rank_difficulty(questions, engine, journal=journal, **options))
    except KeyboardInterrupt:
        echo(f"Interrupted. The replies so far are in {journal.file}; the same command continues.", err=True)
        raise typer.Exit(130) from None


def _is_stream(output: Path) -> bool:
    """Whether the output is such as /dev/stdout: no file can lie beside it, and none may take its place."""
    return is_system_file(output) or (output.exists() and not output.is_file())


def _check_output(output: Path, dataset: Path) -> None:
    """Refuse an output that cannot be written, or that holds the questions, before anything is paid for."""
    if output.is_dir():
        raise UsageError(f"{output} is a folder; name a JSON file")
    if output.exists() and dataset.exists() and output.samefile(dataset):
        raise UsageError(f"{output} holds the questions, and would be replaced; name another output")
    if _is_stream(output):
        if not output.exists():
            raise UsageError(f"cannot write {output}: nothing is open there; name a file")
    else:
        try:
            check_writable(output)
        except OSError as error:
            raise UsageError(f"cannot write {output}: {error.strerror}") from None


def _write(output: Path, text: str, journal: ReplyJournal | None) -> None:
    """Write the ranking; its journal is removed when the ranking is on disk."""
    try:
        if journal is None:
            output.write_text(text, encoding="utf-8")
        else:
            write_file(output, text.encode())
            journal.remove()
    except OSError as error:
        safe = "" if journal is None else f". All replies are safe in {journal.file}; give the same command again"
        raise UsageError(f"cannot write {output}: {error.strerror}{safe}") from None
