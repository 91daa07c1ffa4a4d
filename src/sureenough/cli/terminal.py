"""Output for people. Text of models, servers and files is hostile: it must not control the terminal."""

from __future__ import annotations

import re
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
