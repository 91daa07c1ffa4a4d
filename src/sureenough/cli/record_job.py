"""The sampling of `sureenough record`: what is missing, what all of it would cost, and how far it is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sureenough.bench.progress import duration
from sureenough.cli import engine
from sureenough.cli.terminal import plural
from sureenough.core.options import RunOptions
from sureenough.drivers.executor import Executor
from sureenough.drivers.record import PathCallback, RecordQuestion, RecordResult, record
from sureenough.engines.base import Engine
from sureenough.errors import UsageError
from sureenough.pools import Journal, RecordedPath

SAMPLED_FIRST: Final = 4
"""Paths that a dry run samples to estimate from."""


@dataclass(frozen=True, slots=True)
class RecordJob:
    """What is sampled, and how."""

    engine: Engine
    questions: list[RecordQuestion]
    options: RunOptions
    text: bool
    executor: Executor | None = None  # what samples instead of this process

    @property
    def paths(self) -> int:
        """Paths per question."""
        assert self.options.paths is not None
        return self.options.paths

    @property
    def total(self) -> int:
        """Paths of all questions."""
        return len(self.questions) * self.paths

    def missing(self, recorded: Container[tuple[str, int]]) -> int:
        """Wanted paths that are not recorded; an earlier command may have recorded more."""
        return sum((question.id, n) not in recorded for question in self.questions for n in range(self.paths))

    def run(self, journal: Journal) -> RecordResult | None:
        """Sample what is missing; None if Ctrl-C ends it."""
        with progress(self.total, self.total - self.missing(journal.paths)) as on_path:
            try:
                return asyncio.run(self._sample(self.questions, self.paths, journal, on_path))
            except KeyboardInterrupt:
                return None

    async def _sample(
        self, questions: list[RecordQuestion], paths: int, journal: Any, on_path: PathCallback
    ) -> RecordResult:
        return await record(
            questions,
            self.engine,
            journal,
            paths=paths,
            parallel=self.options.parallel,
            seed=self.options.seed,
            keep_text=self.text,
            on_path=on_path,
            executor=self.executor,
        )

    def estimate(
        self, price_in: float | None, price_out: float | None, recorded: Container[tuple[str, int]] = ()
    ) -> str:
        """Tokens, time and money for what is missing, from a few paths spread over the questions."""
        missing = self.missing(recorded)
        wanted = f"{plural(len(self.questions), 'question')}, {plural(self.total, 'path')}"
        if not missing:
            return f"{wanted}, all of them recorded: there is nothing to sample."
        step = max(1, len(self.questions) // SAMPLED_FIRST)
        started = time.monotonic()
        sample = self._sample(self.questions[::step][:SAMPLED_FIRST], 1, _NoJournal(), lambda question, path: None)
        result = asyncio.run(sample)
        seconds = time.monotonic() - started
        if not result.paths:
            raise result.lost or UsageError("no path was sampled, so there is nothing to estimate from")
        scale = missing / result.paths
        generated, prompt = result.tokens * scale, result.prompt_tokens * scale
        speedup = min(self.options.parallel, missing) / result.paths
        money = engine.cost(round(prompt), round(generated), price_in, price_out)
        rest = "" if missing == self.total else f", of which {missing:,} are missing"
        return (
            f"{wanted}{rest}. Estimated from {plural(result.paths, 'sampled path')}:\n"
            f"about {generated:,.0f} tokens ({generated / missing:,.0f} per path) and {prompt:,.0f} prompt tokens, "
            f"about {duration(seconds * scale / speedup)} if {self.options.parallel} paths at once run as fast as "
            f"{result.paths}" + (f", about {money:,.2f} at the given prices." if money is not None else ".")
        )


class _NoJournal:
    """A journal that stores nothing."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], RecordedPath] = {}

    def add(self, question: str, path: RecordedPath) -> None: ...


@contextmanager
def progress(total: int, done: int) -> Iterator[PathCallback]:
    """A progress bar on a terminal, elsewhere a line every ten seconds."""
    if sys.stderr.isatty():
        columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[rate]}"), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True)) as bar:
            task = bar.add_task("paths", total=total, completed=done, rate="")
            yield _PathCounter(done, lambda n, rate: bar.update(task, completed=n, rate=rate), 0.0)
    else:
        yield _PathCounter(done, lambda n, rate: typer.echo(f"{n} of {total} paths, {rate}", err=True), 10.0)


class _PathCounter:
    """Counts paths and tokens, and reports them at most every `interval` seconds."""

    def __init__(self, done: int, report: Callable[[int, str], None], interval: float) -> None:
        self._done, self._report, self._interval = done, report, interval
        self._tokens = 0
        self._started = self._reported = time.monotonic()

    def __call__(self, question: str, path: RecordedPath | None) -> None:
        if path is None:
            return
        self._done += 1
        self._tokens += path.tokens
        now = time.monotonic()
        if now - self._reported >= self._interval:
            self._reported = now
            self._report(self._done, f"{self._tokens / max(1e-9, now - self._started):,.0f} tokens/s")
