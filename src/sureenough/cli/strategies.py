"""`sureenough strategies`: every strategy with its options and their defaults."""

from __future__ import annotations

import typer

from sureenough.spec import options
from sureenough.strategies import STRATEGIES


def command() -> None:
    """List the strategies, their options and defaults."""
    for name, strategy in STRATEGIES.items():
        known = options(strategy)
        typer.echo(f"{name}: {strategy.summary}" + ("" if known else " (no options)"))
        for option in known.values():
            typer.echo(f"  {option.name}={option.read(strategy)}  {option.help}")
