"""`sureenough view`: kept runs and bench reports on a page of this machine."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from sureenough.cli import serve
from sureenough.errors import TraceError, UsageError


def command(
    run: Annotated[Path, typer.Argument(help="A run that serve kept, a report or run of bench, or a folder of these.")],
    port: Annotated[int, typer.Option(help="Port to listen on; 0: any free one.", min=0, max=65535)] = 0,
    browser: Annotated[bool, typer.Option(help="Open it in a browser.")] = True,
) -> None:
    """Show a kept run again: every path, the votes, the stop rule."""
    serve.check_installed()
    from sureenough.drivers.run_log_files import read_ends
    from sureenough.server.kept_runs import NAME, SUFFIXES
    from sureenough.server.settings import ServerSettings

    if not run.exists():
        raise UsageError(f"{run} does not exist; `sureenough serve --keep-runs FOLDER` keeps runs")
    page = "/runs"
    if run.suffix == ".html":
        page = f"/reports/{quote(run.name)}"
    elif (run / "report" / "report.html").is_file():
        page = "/reports/report/report.html"
    elif run.is_file():
        try:
            read_ends(run)
        except TraceError as error:
            raise UsageError(f"{error}; `sureenough serve --keep-runs FOLDER` keeps runs") from None
        if run.suffix not in SUFFIXES or NAME.fullmatch(run.stem) is None:
            raise UsageError(f"{run}: rename it, to run-1.jsonl for example; only letters, digits, - and _ work here")
        page = f"/runs/{run.stem}"
    settings = ServerSettings(port=port, keep_runs=run if run.is_dir() else run.absolute().parent, view_only=True)
    serve.run(settings, "showing kept runs", page, webbrowser.open if browser else None)
