"""`sureenough plugins`: the strategies, judges, engines and datasets that other packages announce."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from sureenough.answers.kinds import REGISTRY as JUDGES
from sureenough.cli.terminal import echo
from sureenough.datasets.load import REGISTRY as DATASETS
from sureenough.engines.plugins import REGISTRY as ENGINES
from sureenough.plugins import report
from sureenough.spec import REGISTRY as STRATEGIES


def command(as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False) -> None:
    """List what other packages add by entry points, and why a plug-in cannot be used."""
    registries = {registry.group: registry for registry in (STRATEGIES, JUDGES, ENGINES, DATASETS)}
    entries = list(report(registries))
    if as_json:
        typer.echo(json.dumps([entry._asdict() for entry in entries]))
        return
    if not entries:
        groups = ", ".join(f"sureenough.{group}" for group in registries)
        typer.echo(f"No plug-ins are installed. A package announces its own by entry points: {groups}.")
    for entry in entries:
        state = "ok" if entry.error is None else f"failed: {entry.error}"
        echo(f"{entry.group}: {entry.name} ({entry.package}) {state}")
