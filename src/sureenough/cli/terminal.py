"""Output for people. Text of models, servers and files is hostile: it must not control the terminal."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

import typer

UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 without tab and newline, DEL, C1, line and bidirectional controls, halves of surrogate pairs."""


def printable(text: str) -> str:
    """The text with control characters escaped as in a Python string: `\\x1b]52;` instead of a clipboard command."""
    return UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def plural(number: int, noun: str) -> str:
    """`1 path`, `1,024 paths`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def echo(text: str, err: bool = False) -> None:
    """Print a line that holds text of others."""
    typer.echo(printable(text), err=err)


@contextmanager
def progress(interval: float = 10.0) -> Iterator[Callable[[str, int, int], None]]:
    """Shows in words what is done of a total: a bar on a terminal, elsewhere a line every so many seconds.

    The line of nothing done, with which a piece of work begins, is shown at once.
    """
    if not sys.stderr.isatty():
        shown = time.monotonic()

        def show(line: str, done: int, total: int) -> None:
            nonlocal shown
            if not done or time.monotonic() - shown >= interval:
                shown = time.monotonic()
                echo(line, err=True)

        yield show
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), TextColumn("{task.description}", markup=False), TimeRemainingColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda line, done, total: bar.update(task, description=line, completed=done, total=total)
