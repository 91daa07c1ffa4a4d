"""`sureenough view`: kept runs, bench reports and recorded questions on a page of this machine."""

from __future__ import annotations

import os
import tempfile
import time
import webbrowser
from collections.abc import Sequence
from functools import partial
from math import inf
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import typer

from sureenough.cli import serve
from sureenough.cli.options import STRATEGY_HELP, Port
from sureenough.cli.replay import QuestionOption, find_question, replay_question
from sureenough.core.events import Action, Ended, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Snapshot
from sureenough.drivers.lockstep import lockstep, recorded_tokens
from sureenough.drivers.observers import ObservedEvent, PathReport
from sureenough.drivers.run_log import RunLogWriter, read_ends
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Pool, Question, is_address, is_pool
from sureenough.server.settings import ServerSettings
from sureenough.strategies import DEFAULT_STRATEGY


def command(
    run: Annotated[
        Path | None,
        typer.Argument(
            help="A run that serve kept, a report or run of bench, a folder of these, or a pool; by default the "
            "pools that come with the package."
        ),
    ] = None,
    question: QuestionOption = None,
    strategy: Annotated[
        str, typer.Option("-s", "--strategy", help=f"Of a pool's question. {STRATEGY_HELP}")
    ] = DEFAULT_STRATEGY,
    port: Port = 0,
    browser: Annotated[bool, typer.Option(help="Open it in a browser.")] = True,
) -> None:
    """Show a kept run again, or a strategy on a recorded question: every path, the votes, the stop rule."""
    serve.check_installed()
    if run is not None and not os.path.exists(run) and not is_address(run):
        raise UsageError(f"{run} does not exist; `sureenough serve --keep-runs FOLDER` keeps runs")

    def show(folder: Path, page: str, description: str) -> None:
        settings = ServerSettings(port=port, keep_runs=folder, view_only=True)
        serve.serve(settings, description, page, webbrowser.open if browser else None)

    if run is None or is_pool(run):
        from sureenough.server.kept_runs import KeptRuns

        pool, recorded = find_question(run, question)
        log = run_on_recorded(pool, recorded, strategy)
        with tempfile.TemporaryDirectory() as folder:
            KeptRuns(Path(folder)).save("recorded", log)
            show(Path(folder), "/runs/recorded", f"showing {recorded.id} of {pool.file.name}")
    elif question is not None:
        raise UsageError(
            f"--question is for pools, which end in .parquet or are folders of such files; {run} is not one"
        )
    else:
        show(run if run.is_dir() else run.absolute().parent, _page(run), "showing kept runs")


def run_on_recorded(pool: Pool, question: Question, strategy: str) -> RunLogWriter:
    """The log of a strategy's run on recorded paths, one at a time."""
    text = question.text or f"Question {question.id} (its text is not in the pool)"
    log = RunLogWriter(
        {"question": text, "model": pool.info.model or "unknown", "strategy": strategy, "begun": time.time()},
        interval=inf,
    )

    def observe(event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        if isinstance(event, Ended):  # with which the last token and the text of a path come
            path = question.paths[event.path]
            last = list(recorded_tokens(path))[-1:]
            if path.tokens:
                log(Tokens(event.path, last, unread=not last), (), snapshot)
            if path.token_texts is None:
                without_text = "" if path.answer is None else f"\\boxed{{{path.answer}}}"
                log(PathReport(event.path, without_text if path.text is None else path.text), (), snapshot)
        log(event, actions, snapshot)

    log.end(replay_question(pool, question, strategy, RunOptions(), partial(lockstep, observer=observe)))
    return log


def _page(run: Path) -> str:
    """The page that shows a file or a folder."""
    from sureenough.server.kept_runs import NAME, SUFFIX

    if run.suffix == ".html":
        return f"/reports/{quote(run.name)}"
    if (run / "report" / "report.html").is_file():
        return "/reports/report/report.html"
    if run.is_dir():
        return "/runs"
    try:
        read_ends(run)
    except TraceError as error:
        raise UsageError(f"{error}; `sureenough serve --keep-runs FOLDER` keeps runs") from None
    if run.suffix != SUFFIX or NAME.fullmatch(run.stem) is None:
        raise UsageError(f"{run}: rename it, to run-1.jsonl for example; only letters, digits, - and _ work here")
    return f"/runs/{run.stem}"
