"""`sureenough strategies`: every strategy with its options and their defaults."""

from __future__ import annotations

import typer

from sureenough.errors import UsageError
from sureenough.spec import REGISTRY, options
from sureenough.strategies import SEARCHES


def command() -> None:
    """List the strategies, their options and defaults."""
    for name in REGISTRY.names():
        try:
            strategy = REGISTRY.find(name).thing
        except UsageError as error:  # a plug-in that fails to load
            typer.echo(f"{name}: {error}")
            continue
        known = options(strategy)
        typer.echo(f"{name}: {strategy.summary}" + ("" if known else " (no options)"))
        for option in known.values():
            default = option.read(strategy)
            typer.echo(f"  {option.name}={int(default) if isinstance(default, bool) else default}  {option.help}")
    methods = " or ".join(f"{method}+" for method in SEARCHES)
    typer.echo(f"{methods} before any strategy without pruning and probes searches for its paths, such as phi+sure.")
