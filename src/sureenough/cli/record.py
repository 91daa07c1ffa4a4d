"""`sureenough record`: sample a dataset into a pool. Killed at any moment, the same command goes on from there."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sureenough.api import TEMPLATE, render_prompt
from sureenough.cli import engine
from sureenough.datasets.files import columns_of, load
from sureenough.drivers.judging import KINDS, extractor_for
from sureenough.drivers.record import PathCallback, RecordQuestion, RecordResult, record
from sureenough.engines.base import Engine, suggested_template
from sureenough.engines.openai.client import OpenAI
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Journal, OutputLock, PoolInfo, RecordedPath, write_journal_pool

FILES = "JSON lines, CSV or Parquet with a column question, and id, gold, kind and level if known."
SAMPLED_FIRST = 4
"""Paths that a dry run samples to estimate from."""


def command(
    call: typer.Context,
    dataset: Annotated[
        Path, typer.Argument(help="JSON lines, CSV or Parquet: question; id, gold, kind and level if known.")
    ],
    output: Annotated[Path, typer.Option("-o", "--output", help="The pool to write.")],
    url: engine.Url = None,
    model: engine.Model = None,
    columns: Annotated[str | None, typer.Option("--map", help="Columns, as question=problem,gold=answer.")] = None,
    paths: Annotated[int, typer.Option(help="Paths a question.")] = 64,
    parallel: Annotated[int, typer.Option(help="Paths sampled at once.", envvar="SUREENOUGH_PARALLEL")] = 16,
    limit: Annotated[int | None, typer.Option(help="Only the first so many questions.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Every path derives its own seed from it.", min=0)] = 0,
    kind: Annotated[str, typer.Option(help="Kind of answer where a row says none: math or choice.")] = "math",
    template: engine.Template = None,
    window: Annotated[int | None, typer.Option(help="The window that the pool suggests.", min=1)] = None,
    text: Annotated[bool, typer.Option(help="Keep the paths' text.")] = True,
    temperature: engine.Temperature = 0.6,
    top_p: engine.TopP = 0.95,
    max_path_tokens: engine.MaxPathTokens = None,
    completions: engine.Completions = False,
    first_token: engine.FirstToken = 300.0,
    stall: engine.Stall = 60.0,
    context: engine.Context = None,
    threads: engine.Threads = None,
    price_in: engine.PriceIn = None,
    price_out: engine.PriceOut = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Sample four paths, estimate the rest.")] = False,
) -> None:
    """Sample paths of many questions into a pool that `replay` reads."""
    engine.refuse_bad_prices(price_in, price_out)
    if min(paths, parallel) < 1:
        raise UsageError("--paths and --parallel must be at least 1")
    server = engine.server(
        url,
        model,
        temperature=temperature,
        top_p=top_p,
        max_path_tokens=max_path_tokens,
        completions=completions,
        first_token=first_token,
        stall=stall,
        context=context,
        threads=threads,
        window=window,
    )
    template = template if template is not None else suggested_template(server) or TEMPLATE
    questions = _questions(dataset, columns, template, kind)[:limit]
    job = _Job(server, questions, paths, parallel, seed, text)
    if dry_run:
        typer.echo(job.estimate(price_in, price_out))
        return
    if not output.name or output.is_dir():
        raise UsageError(f"{output} is a folder; name the file to write, such as {output / 'pool.parquet'}")
    call.with_resource(OutputLock(output.with_name(output.name + ".lock"), output))
    notes = output.with_name(output.name + ".journal")
    if output.exists() and not notes.exists():
        raise TraceError(f"{output} is there already and complete; name another output, or move it away")
    wire = engine.client(server)
    terms = {"dataset": dataset.name, "template": template, "seed": seed, "kind": kind, **_sampling(wire)}
    with Journal(notes, terms) as journal:
        done = job.run(journal)
        info = PoolInfo(dataset.stem, wire.model, engine.kind(server), wire.k, sampling=wire.sampling(),
                        prompt=template, window=wire.window)  # fmt: skip
        if journal.paths:
            write_journal_pool(output, questions, journal, info, keep_text=text)
    missing = len(questions) * paths - job.done(journal)
    if missing or done is None:
        why = f"; the latest failure: {done.lost}" if done is not None and done.lost is not None else ""
        typer.echo(f"{missing} paths are missing{why}. The same command goes on; {output} holds what there is.")
        raise typer.Exit(3 if done is not None else 130)
    notes.unlink()
    typer.echo(f"{output}: {len(questions)} questions, {len(questions) * paths} paths.")


class _Job:
    """What is to be sampled, and how."""

    def __init__(
        self, server: Engine, questions: list[RecordQuestion], paths: int, parallel: int, seed: int, text: bool
    ) -> None:
        self.server, self.questions, self.paths, self.parallel = server, questions, paths, parallel
        self.seed, self.text = seed, text

    def done(self, journal: Journal) -> int:
        """Paths that are wanted and there; an earlier command may have wanted more."""
        return sum((question.id, n) in journal.paths for question in self.questions for n in range(self.paths))

    def run(self, journal: Journal) -> RecordResult | None:
        """Sample what is missing; None where Ctrl-C came first."""
        total = len(self.questions) * self.paths
        with progress(total, self.done(journal)) as told:
            try:
                return asyncio.run(self._sample(self.questions, self.paths, journal, told))
            except KeyboardInterrupt:
                return None

    async def _sample(
        self, questions: list[RecordQuestion], paths: int, journal: Any, told: PathCallback
    ) -> RecordResult:
        return await record(
            questions,
            self.server,
            journal,
            paths=paths,
            parallel=self.parallel,
            seed=self.seed,
            keep_text=self.text,
            told=told,
        )

    def estimate(self, price_in: float | None, price_out: float | None) -> str:
        """Tokens, time and money for all of it, from a few paths spread over the questions."""
        step = max(1, len(self.questions) // SAMPLED_FIRST)
        some = self.questions[::step][:SAMPLED_FIRST]
        began = time.monotonic()
        got = asyncio.run(self._sample(some, 1, _Nowhere(), lambda question, path: None))
        seconds = time.monotonic() - began
        if not got.paths:
            raise got.lost or UsageError("nothing was sampled, so nothing can be estimated")
        total = len(self.questions) * self.paths
        made, prompt = got.tokens / got.paths * total, got.prompt_tokens / got.paths * total
        at_once = min(self.parallel, total) / got.paths
        money = engine.cost(round(prompt), round(made), price_in, price_out)
        return (
            f"{len(self.questions)} questions, {total:,} paths. From {got.paths} paths sampled just now:\n"
            f"about {made:,.0f} tokens ({made / total:,.0f} a path) and {prompt:,.0f} prompt tokens, "
            f"about {_clock(seconds * total / got.paths / at_once)} if {self.parallel} at once go as fast as "
            f"{got.paths}" + (f", about {money:,.2f} at the prices given." if money is not None else ".")
        )


class _Nowhere:
    """A journal that forgets."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], RecordedPath] = {}

    def add(self, question: str, path: RecordedPath) -> None:
        """Do nothing."""


def _questions(dataset: Path, columns: str | None, template: str, kind: str) -> list[RecordQuestion]:
    """The questions of a file, each with its prompt and its own way to find answers."""
    readers = {kind: extractor_for(kind)}
    found = []
    for problem in load(dataset, columns_of(columns), kinds=KINDS):
        its_kind = problem.kind or kind
        extract = readers.setdefault(its_kind, extractor_for(its_kind))
        found.append(
            RecordQuestion(problem.id, render_prompt(problem.question, template), problem.gold, problem.level, extract)
        )
    return found


def _sampling(server: OpenAI) -> dict[str, Any]:
    return {"model": server.model, "k": server.k, "chat": server.chat, **server.sampling()}


@contextmanager
def progress(total: int, done: int) -> Iterator[PathCallback]:
    """A bar on a terminal, now and then a line elsewhere."""
    if sys.stderr.isatty():
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("paths", total=total, completed=done, rate="")
            yield _Teller(done, lambda n, rate: bar.update(task, completed=n, rate=rate), 0.0)
    else:
        yield _Teller(done, lambda n, rate: typer.echo(f"{n} of {total} paths, {rate}", err=True), 10.0)


class _Teller:
    """Counts paths and tokens, and passes them on every so often."""

    def __init__(self, done: int, show: Any, every: float) -> None:
        self._done, self._show, self._every = done, show, every
        self._tokens = 0
        self._began = self._last = time.monotonic()

    def __call__(self, question: str, path: RecordedPath | None) -> None:
        if path is None:
            return
        self._done += 1
        self._tokens += path.tokens
        now = time.monotonic()
        if now - self._last >= self._every:
            self._last = now
            self._show(self._done, f"{self._tokens / max(1e-9, now - self._began):,.0f} tokens/s")


def _clock(seconds: float) -> str:
    hours, rest = divmod(round(seconds), 3600)
    return f"{hours} h {rest // 60} min" if hours else (f"{rest // 60} min" if rest >= 120 else f"{rest} s")
