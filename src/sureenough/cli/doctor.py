"""`sureenough doctor`: does this server honour the contract? Exit codes: 0 all well, 1 a cross, 3 nobody there."""

from __future__ import annotations

import asyncio
import json
from typing import Annotated, Final

import typer

from sureenough.cli import engine
from sureenough.cli.doctor_checks import Check, examine

MARKS: Final = {True: "✓", False: "✗", None: "?"}


def command(
    url: engine.Url = None,
    model: engine.Model = None,
    completions: engine.Completions = False,
    first_token: engine.FirstToken = 60.0,
    stall: engine.Stall = 30.0,
    context: engine.Context = None,
    threads: engine.Threads = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Check a server or a local model: candidates, raw log-probabilities, seeds, closing, counting, chunks."""
    server = engine.server(
        url,
        model,
        temperature=1.0,
        top_p=1.0,
        max_path_tokens=None,
        completions=completions,
        first_token=first_token,
        stall=stall,
        context=context,
        threads=threads,
    )
    checks = asyncio.run(examine(server, None if as_json else _show))
    well = all(check.good is not False for check in checks)
    if as_json:
        typer.echo(json.dumps({"well": well, "checks": [check._asdict() for check in checks]}))
    else:
        typer.echo("All is well." if well else "Some strategies will not work as they should; see the crosses.")
    raise typer.Exit(0 if well else 1)


def _show(check: Check) -> None:
    typer.echo(f"{MARKS[check.good]} {check.name:10} {check.found}")
    if check.good is not True and check.cure:
        typer.echo(f"  {'':10} cure: {check.cure}")
