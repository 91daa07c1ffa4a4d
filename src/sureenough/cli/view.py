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
from sureenough.cli.replay import QuestionOption, find_question, recorded_answer_classes
from sureenough.core.events import Action, Ended, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Snapshot
from sureenough.drivers import replay
from sureenough.drivers.lockstep import lockstep, recorded_tokens
from sureenough.drivers.observers import ObservedEvent, PathReport
from sureenough.drivers.run_log import RunLogWriter, read_ends
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Pool, Question, RecordedPath, is_address, is_pool
from sureenough.spec import resolve
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
    if run is None or is_pool(run):
        _view_question(run, question, strategy, port, browser)
    elif question is not None:
        raise UsageError(
            f"--question is for pools, which end in .parquet or are folders of such files; {run} is not one"
        )
    else:
        _view(run if run.is_dir() else run.absolute().parent, _page(run), "showing kept runs", port, browser)


def _view_question(file: Path | None, name: str | None, strategy: str, port: int, browser: bool) -> None:
    from sureenough.server.kept_runs import KeptRuns

    pool, question = find_question(file, name)
    log = run_on_recorded(pool, question, strategy)
    with tempfile.TemporaryDirectory() as folder:
        KeptRuns(Path(folder)).save("recorded", log)
        _view(Path(folder), "/runs/recorded", f"showing {question.id} of {pool.file.name}", port, browser)


def run_on_recorded(pool: Pool, question: Question, strategy: str) -> RunLogWriter:
    """The log of a strategy's run on recorded paths, one at a time."""
    text = question.text or f"Question {question.id} (its text is not in the pool)"
    log = RunLogWriter(
        {"question": text, "model": pool.info.model or "unknown", "strategy": strategy, "begun": time.time()},
        interval=inf,
    )
    chosen = resolve(strategy)
    options = RunOptions(window=pool.window()).with_recorded(len(question.paths), chosen)
    driver = partial(lockstep, observer=_WithTexts(log, question.paths))
    out = replay(question.paths, chosen, options, classes=recorded_answer_classes(pool, question), driver=driver)
    log.end(out)
    return log


class _WithTexts:
    """Observes a replay for a log: the last token and the text of a path, which come with its end, are added to it."""

    def __init__(self, log: RunLogWriter, paths: Sequence[RecordedPath]) -> None:
        self._log, self._paths = log, paths

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        if isinstance(event, Ended):
            path = self._paths[event.path]
            if path.tokens:
                self._log(Tokens(event.path, list(recorded_tokens(path))[-1:]), (), snapshot)
            if path.token_texts is None:
                without_text = "" if path.answer is None else f"\\boxed{{{path.answer}}}"
                self._log(PathReport(event.path, without_text if path.text is None else path.text), (), snapshot)
        self._log(event, actions, snapshot)


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


def _view(folder: Path, page: str, description: str, port: int, browser: bool) -> None:
    from sureenough.server.settings import ServerSettings

    settings = ServerSettings(port=port, keep_runs=folder, view_only=True)
    serve.serve(settings, description, page, webbrowser.open if browser else None)
