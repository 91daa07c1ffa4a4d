"""`sureenough doctor`: does a server return what strategies need? Exit codes: 0 yes, 1 a check failed, 3 no server."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from typing import Annotated, Final

import typer

from sureenough.cli.doctor_checks import Check, examine
from sureenough.cli.engine import EngineOptions, engine_options
from sureenough.cli.option_groups import with_options
from sureenough.cli.terminal import echo

MARKS: Final = {True: "✓", False: "✗", None: "?"}


@with_options(
    server=engine_options(
        leave_out=("temperature", "top_p", "max_path_tokens", "metrics"), first_token=60.0, stall=30.0
    )
)
def command(
    *, server: EngineOptions, as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False
) -> None:
    """Check a server or a local model: candidates, raw log-probabilities, seeds, closing, counting, chunks."""
    engine = replace(server, temperature=1.0, top_p=1.0).engine()
    checks = asyncio.run(examine(engine, None if as_json else _show))
    well = all(check.good is not False for check in checks)
    if as_json:
        typer.echo(json.dumps({"well": well, "checks": [check._asdict() for check in checks]}))
    else:
        typer.echo("All checks passed." if well else "Some strategies will not work correctly; see the failed checks.")
    raise typer.Exit(0 if well else 1)


def _show(check: Check) -> None:
    echo(f"{MARKS[check.good]} {check.name:10} {check.found}")
    if check.good is not True and check.cure:
        echo(f"  {'':10} fix: {check.cure}")
