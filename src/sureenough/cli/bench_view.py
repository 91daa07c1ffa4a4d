"""What `sureenough bench` prints: its progress while it runs, and its tables at the end."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn

from sureenough.bench.recommendation import advice
from sureenough.bench.recording import ProgressMeter
from sureenough.bench.report.text_tables import aligned, heading, printed, without_constants
from sureenough.bench.result import ExperimentResult

INTERVAL: Final = 10.0
"""Seconds between lines of progress in a pipe."""


@contextmanager
def show_progress() -> Iterator[tuple[ProgressMeter, Callable[[int, int], None]]]:
    """A progress bar on a terminal, elsewhere lines: a meter for sampling, and a callback for replays."""
    if not sys.stderr.isatty():
        lines = _ProgressLines()
        yield ProgressMeter(lines.show_meter), lines.show_replay
        return
    with Progress(
        BarColumn(), TextColumn("{task.description}", markup=False), console=Console(stderr=True), transient=True
    ) as bar:
        task = bar.add_task("")

        def show(meter: ProgressMeter) -> None:
            bar.update(task, description=meter.line(), completed=meter.done, total=meter.total)

        def show_replay(done: int, total: int) -> None:
            bar.update(task, description=f"replaying: {done:,} of {total:,}", completed=done, total=total)

        yield ProgressMeter(show), show_replay


class _ProgressLines:
    """Progress as lines on standard error, at most one per interval and one at the start of each cell."""

    def __init__(self) -> None:
        self._last, self._cell = time.monotonic(), 0

    def show_meter(self, meter: ProgressMeter) -> None:
        self._show(meter.line(), at_once=meter.cell != self._cell)
        self._cell = meter.cell

    def show_replay(self, done: int, total: int) -> None:
        self._show(f"replaying: {done:,} of {total:,}")

    def _show(self, line: str, at_once: bool = False) -> None:
        now = time.monotonic()
        if at_once or now - self._last >= INTERVAL:
            self._last = now
            typer.echo(line, err=True)


def tables(result: ExperimentResult, written: Sequence[str] = ()) -> str:
    """A result as text; `written` says which files it is in."""
    lines = [result.title]
    for full in result.tables:
        table, constants = without_constants(full)
        title = table.title + (" (live)" if table.live and "live" not in table.title else "")
        columns = table.columns
        cells = [[printed(cell, column) for cell, column in zip(row, columns, strict=True)] for row in table.rows]
        body = aligned([[heading(column) for column in columns], *cells])
        lines += ["", title, *([constants] if constants else []), *body, *table.notes]
    last = [*result.notes, *written]
    lines += ["", *last] if last else []
    return "\n".join([*lines, *advice([result])])
