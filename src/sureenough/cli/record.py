"""`sureenough record`: sample a dataset into a pool. If it is killed, the same command continues where it stopped."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Container
from pathlib import Path
from typing import Annotated, Any

import typer

from sureenough.answers import resolve_kind
from sureenough.bench.estimate import Sampling, estimate
from sureenough.cli.engine import EngineOptions, Template, print_counts
from sureenough.cli.options import (
    KIND_HELP,
    DryRun,
    Prices,
    RayAddress,
    join,
    option_group,
    rare_option,
    run_options,
    with_options,
)
from sureenough.cli.terminal import echo, plural, progress
from sureenough.core.options import LIVE_DEFAULTS, RunOptions
from sureenough.datasets.files import columns_of, load
from sureenough.datasets.load import record_questions
from sureenough.drivers.record import PoolExtension, RecordQuestion, RecordResult, missing_paths, record, recorded_with
from sureenough.engines.base import Engine
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Journal, OutputLock, PoolInfo, RecordedPath, is_address, write_journal_pool
from sureenough.pools.durable import is_system_file, own_file, resumable
from sureenough.pools.journal import holds_lines, journal_of, recorded_keys
from sureenough.pools.read import is_part
from sureenough.pools.write import FolderReplacement
from sureenough.redact import printable_url
from sureenough.templates import template_of


@with_options(
    server=option_group(EngineOptions, leave_out=("metrics",)),
    run=run_options(LIVE_DEFAULTS, only=("paths", "parallel", "seed")),
    prices=option_group(Prices),
)
def command(
    *,
    call: typer.Context,
    dataset: Annotated[
        Path,
        typer.Argument(help="JSON lines, CSV or Parquet with a column question, and optionally id, gold, kind, level."),
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The pool to write.")],
    rows_per_part: Annotated[
        int | None, rare_option(help="Write a folder of files with about so many paths each, not one file.", min=1)
    ] = None,
    columns: Annotated[str | None, rare_option("--map", help="Columns, such as question=problem,gold=answer.")] = None,
    run: RunOptions,
    limit: Annotated[int | None, rare_option(help="Only the first LIMIT questions.", min=1)] = None,
    kind: Annotated[str, typer.Option(help=f"Kind of answer of rows that have none: {KIND_HELP}.")] = "math",
    template: Template = None,
    window: Annotated[int | None, rare_option(help="The window that the pool suggests.", min=1)] = None,
    text: Annotated[bool, rare_option("--text/--no-text", help="Keep the text of paths.")] = True,
    server: EngineOptions,
    ray: RayAddress = None,
    prices: Prices,
    dry_run: DryRun = False,
) -> None:
    """Sample paths of many questions into a pool that `replay` reads."""
    sampled = server.any_engine(window)
    prompt = template if template is not None else template_of(resolve_kind(kind), sampled.template)
    problems = load(dataset, columns_of(columns))
    questions = record_questions(problems, kind, prompt, own_template=template is not None)[:limit]
    assert run.paths is not None
    if dry_run:
        join(ray, call)
        whole = Sampling(questions, sampled, run.paths, run.parallel, run.seed, recorded_keys(output))
        echo(estimate([whole], prices.cost))
        return
    if output.is_dir() and (output.is_symlink() or output.name == ".."):
        output = output.resolve()  # the folder is replaced, not the link to it
    _check_output(output, rows_per_part)
    call.with_resource(OutputLock(own_file(output, "lock"), output))
    if rows_per_part is not None:
        FolderReplacement(output).recover()
    executor = server.on_cluster(join(ray, call), window)
    journal_file = journal_of(output)
    made_by = "plug-in" if server.plugin else "openai" if server.url else "local"
    terms = {"dataset": dataset.name, "template": prompt, "seed": run.seed, "kind": kind, **sampled.terms()}
    info = PoolInfo(dataset.stem, sampled.model_name(), made_by, sampled.k, sampling=sampled.sampling(), prompt=prompt,
                    window=sampled.window, kind=kind, more=recorded_with(terms, questions))  # fmt: skip
    earlier = PoolExtension(output, questions, info) if output.exists() else None
    if earlier is not None and not holds_lines(journal_file):
        if not _missing(questions, run.paths, earlier.paths):
            raise TraceError(
                f"{output} exists and is complete; more --paths or more questions extend it, or name another output"
            )
        earlier.reopen(journal_file, terms)
    with Journal(journal_file, terms) as journal:
        if earlier is not None:
            earlier.check_journal(journal)
        with resumable(journal_file, journal):
            result = _sample(
                journal, questions, sampled, paths=run.paths, parallel=run.parallel, seed=run.seed, keep_text=text,
                executor=executor,
            )  # fmt: skip
        if journal:
            others = [] if earlier is None else earlier.others
            write_journal_pool(
                output, [*others, *(one.without_paths() for one in questions)], journal, info,
                keep_text=text or (earlier is not None and earlier.text), rows_per_part=rows_per_part,
                replaced=() if earlier is None else earlier.files,
            )  # fmt: skip
    print_counts(sampled)
    missing = _missing(questions, run.paths, journal)
    if missing or result is None:
        failure = f"; the latest failure: {result.lost}" if result is not None and result.lost is not None else ""
        lacking = f"{plural(missing, 'path')} {'is' if missing == 1 else 'are'} missing{failure}"
        kept = f"; {output} holds those recorded so far" if journal else ""
        echo(f"{lacking}. The same command continues{kept}.")
        raise typer.Exit(3 if result is not None else 130)
    journal_file.unlink()
    echo(f"{output}: {plural(len(questions), 'question')}, {plural(len(questions) * run.paths, 'path')}.")


def _missing(questions: list[RecordQuestion], paths: int, recorded: Container[tuple[str, int]]) -> int:
    return sum(1 for _ in missing_paths(questions, paths, recorded))


def _sample(
    journal: Journal, questions: list[RecordQuestion], sampled: Engine, *, paths: int, **options: Any
) -> RecordResult | None:
    """Sample what is missing; None if Ctrl-C ends it."""
    total = len(questions) * paths
    earlier, new, tokens, started = total - _missing(questions, paths, journal), 0, 0, time.monotonic()
    with progress() as show:

        def on_path(question: str, path: RecordedPath) -> None:
            nonlocal new, tokens
            new, tokens = new + 1, tokens + path.tokens
            rate = tokens / max(1e-9, time.monotonic() - started)
            show(f"{earlier + new} of {total} paths, {rate:,.0f} tokens/s", earlier + new, total)

        try:
            return asyncio.run(record(questions, sampled, journal, paths=paths, on_path=on_path, **options))
        except KeyboardInterrupt:
            return None


def _check_output(output: Path, rows_per_part: int | None) -> None:
    """Refuse what would be overwritten, and a place that is not on this machine."""
    if is_address(output):
        raise UsageError(
            f"{printable_url(str(output))} is not on this machine; record to a file here and copy it there"
        )
    if is_system_file(output):
        raise UsageError(f"{output} is not a place for a pool; name a file to write, such as pool.parquet")
    try:
        str(output).encode()
    except UnicodeEncodeError:  # Parquet files can only be opened by names in UTF-8
        raise UsageError(f"{str(output)!r} is not a name in UTF-8; name another output with -o") from None
    if not output.name or (output.is_dir() and rows_per_part is None):
        raise UsageError(
            f"{output} is a folder; name the file to write, such as {output / 'pool.parquet'}, or give --rows-per-part "
            "for a folder of parts"
        )
    if rows_per_part is not None and os.path.lexists(output) and not output.is_dir():
        raise UsageError(f"{output} is a file; with --rows-per-part, the output is a folder")
    if output.is_dir() and not any(output.iterdir()):
        raise UsageError(f"{output} is an empty folder; name one that does not exist yet")
    for entry in output.iterdir() if output.is_dir() else ():
        if not is_part(entry.name) or entry.is_symlink() or not entry.is_file():
            raise UsageError(
                f"{output} holds {entry.name}, which is not a part of the pool and would be lost when the folder is "
                "replaced; move it elsewhere, or name another output"
            )
