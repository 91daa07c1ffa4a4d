"""All output of the command line. Text of models, servers and files is hostile: it must not control the terminal.

Nothing else in `cli` writes to a terminal, so no text reaches one without being cleaned here.
"""

from __future__ import annotations

import re
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import typer

if TYPE_CHECKING:
    from rich.console import Console

UNPRINTABLE: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""C0 without tab and newline, DEL, C1, line and bidirectional controls, halves of surrogate pairs."""


def printable(text: str) -> str:
    """The text with control characters escaped as in a Python string: `\\x1b]52;` instead of a clipboard command."""
    return UNPRINTABLE.sub(lambda match: ascii(match[0])[1:-1], text.replace("\r\n", "\n"))


def echo(text: str, err: bool = False) -> None:
    """Print text of others, line by line."""
    typer.echo(printable(text), err=err)


def echo_wrapped(text: str, err: bool = False) -> None:
    """Print sentences; on a terminal, their lines break at words."""
    console = terminal(stderr=err)
    if console.is_terminal:
        lines = [textwrap.wrap(line, console.width, break_on_hyphens=False) or [""] for line in text.splitlines()]
        text = "\n".join(part for line in lines for part in line)
    echo(text, err)


def echo_json(text: str) -> None:
    """Print JSON; what controls a terminal is escaped as JSON escapes it."""
    typer.echo(UNPRINTABLE.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def terminal(stderr: bool = False) -> Console:
    """A terminal that shows tables and bars of others' text: all of it is cleaned when it is drawn."""
    from rich.console import Console
    from rich.segment import Segment

    class Terminal(Console):
        def render(self, renderable: Any, options: Any = None) -> Iterator[Segment]:
            for text, style, control in super().render(renderable, options):
                yield Segment(text if control else printable(text), style, control)

    return Terminal(stderr=stderr)


def width() -> int:
    """Columns of standard output; 80 if it is not a terminal."""
    console = terminal()
    return console.width if console.is_terminal else 80


def plural(number: int, noun: str) -> str:
    """`1 path`, `1,024 paths`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = BarColumn(), TextColumn("{task.description}", markup=False), TimeRemainingColumn()
    with Progress(*columns, console=terminal(stderr=True), transient=True) as bar:
        task = bar.add_task("")
        yield lambda line, done, total: bar.update(task, description=line, completed=done, total=total)
