"""The sampling of `sureenough record`: what is missing, and how far it is."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Container, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from sureenough.core.options import RunOptions
from sureenough.drivers.record import Executor, PathCallback, RecordQuestion, RecordResult, record
from sureenough.engines.base import Engine
from sureenough.pools import Journal, RecordedPath


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
                return asyncio.run(
                    record(
                        self.questions, self.engine, journal, paths=self.paths, parallel=self.options.parallel,
                        seed=self.options.seed, keep_text=self.text, on_path=on_path, executor=self.executor,
                    )
                )  # fmt: skip
            except KeyboardInterrupt:
                return None


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
