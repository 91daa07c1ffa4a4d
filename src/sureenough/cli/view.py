"""`sureenough view`: recorded runs and bench reports on a page of this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from sureenough.cli import serve
from sureenough.errors import UsageError


def command(
    run: Annotated[Path, typer.Argument(help="A run that serve kept, a report or run of bench, or a folder of these.")],
    port: Annotated[int, typer.Option(help="0: any free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open it in a browser.")] = True,
) -> None:
    """Look at a run again: every path, the votes, the posterior."""
    serve.installed()
    from sureenough.server.runs import NAME, must_load
    from sureenough.server.settings import ServerSettings

    if not run.exists():
        raise UsageError(f"{run} is not there; `sureenough serve --keep-runs FOLDER` keeps runs")
    place = "/runs"
    if run.suffix == ".html":
        place = f"/reports/{quote(run.name)}"
    elif (run / "report" / "report.html").is_file():
        place = "/reports/report/report.html"
    elif run.is_file():
        must_load(run)
        if run.suffix != ".json" or NAME.fullmatch(run.stem) is None:
            raise UsageError(f"{run}: no page can have this name; call it run-1.json, say (letters, digits, - or _)")
        place = f"/runs/{run.stem}"
    settings = ServerSettings(port=port, keep_runs=run if run.is_dir() else run.absolute().parent, showing=True)
    serve.run(settings, "showing what was kept", place, webbrowser.open if browser else None)
