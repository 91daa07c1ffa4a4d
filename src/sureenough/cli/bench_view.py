"""What `sureenough bench` shows: how far it is while it runs, and its tables when it is done."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sureenough.bench.estimate import save_rate
from sureenough.bench.folder import RunFolder
from sureenough.bench.progress import ProgressMeter
from sureenough.bench.report.cells import heading, printed
from sureenough.bench.result import ExperimentResult, Table

EVERY: Final = 10.0
"""Seconds between lines of progress where there is no terminal."""


@contextmanager
def showing(folder: RunFolder) -> Iterator[tuple[ProgressMeter, Callable[[int, int], None]]]:
    """A line that moves on a terminal; elsewhere one every now and then."""
    if not sys.stderr.isatty():
        yield _Lines(folder).both()
        return
    with Progress(
        BarColumn(), TextColumn("{task.description}", markup=False), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("")
        pace = _Now(EVERY)

        def show(meter: ProgressMeter) -> None:
            bar.update(task, description=meter.line(), completed=meter.done, total=meter.total)
            if pace() and meter.units:
                save_rate(folder, meter.rate)

        def replaying(done: int, total: int) -> None:
            bar.update(task, description=f"replaying: {done:,} of {total:,}", completed=done, total=total)

        yield ProgressMeter(show), replaying


class _Now:
    """True every so many seconds."""

    def __init__(self, every: float) -> None:
        self._every, self._last = every, time.monotonic()

    def __call__(self) -> bool:
        if time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True


class _Lines:
    """Progress as lines on standard error."""

    def __init__(self, folder: RunFolder) -> None:
        self._folder, self._now, self._cell = folder, _Now(EVERY), 0

    def both(self) -> tuple[ProgressMeter, Callable[[int, int], None]]:
        """For what is sampled, and for what is replayed."""
        return ProgressMeter(self.meter), self.replaying

    def meter(self, meter: ProgressMeter) -> None:
        if self._now() or meter.cell != self._cell:
            self._cell = meter.cell
            typer.echo(meter.line(), err=True)
            if meter.units:
                save_rate(self._folder, meter.rate)

    def replaying(self, done: int, total: int) -> None:
        if self._now():
            typer.echo(f"replaying: {done:,} of {total:,}", err=True)


def tables(result: ExperimentResult, folder: Path) -> str:
    """What came out; the report has it in every form."""
    lines = [result.title]
    for table in result.tables:
        lines += [
            "",
            table.title + (" (live)" if table.live and "live" not in table.title else ""),
            *_aligned(table),
            *table.notes,
        ]
    return "\n".join([*lines, "", *result.notes, f"`sureenough report {folder}` makes pages and figures of it."])


def _aligned(table: Table) -> list[str]:
    cells = [[heading(column) for column in table.columns]]
    cells += [[printed(cell, column) for cell, column in zip(row, table.columns, strict=True)] for row in table.rows]
    widths = [max(len(line[i]) for line in cells) for i in range(len(table.columns))]
    return ["  ".join(cell.ljust(w) for cell, w in zip(line, widths, strict=True)).rstrip() for line in cells]
