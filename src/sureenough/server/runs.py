"""Runs that pages watch, which end when no page watches them any more, and runs that were kept as files."""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sureenough.answers import Judge, for_question, resolve_kind
from sureenough.drivers.judging import classes_or_own
from sureenough.drivers.observers import Observer
from sureenough.drivers.run_log import RunLogWriter, read_ends, save_log
from sureenough.errors import TraceError
from sureenough.server.replies import RunResult
from sureenough.server.requests import ConsensusRequest
from sureenough.server.responses import ApiError, cancel_once, shutting_down
from sureenough.server.state import ServerState
from sureenough.spec import render

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
SUFFIX: Final = ".jsonl"
LISTED: Final = 200
EXCERPT: Final = 200
"""Characters of a question or an answer in the list."""
REPORTS: Final = ("*.html", "report/*.html", "*/report/*.html")
RECONNECT: Final = 15.0
"""Seconds that a run waits for its page to come back, as after a reload."""
log: Final = logging.getLogger("sureenough.server")


class KeptRuns:
    """A folder of kept runs. What the list says of a file is cached until the file changes."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._cached: dict[Path, tuple[tuple[int, int], dict[str, Any] | None]] = {}  # time and size, entry

    def save(self, name: str, log: RunLogWriter) -> None:
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        save_log(self.folder / f"{name}{SUFFIX}", log.with_texts())

    def find(self, name: str) -> Path:
        """The file of a kept run, by its id."""
        file = None if self.folder is None or not NAME.fullmatch(name) else self.folder / f"{name}{SUFFIX}"
        if file is None or not file.is_file():
            raise ApiError(404, "This run does not exist; runs are kept only with --keep-runs.", code="run_not_found")
        try:
            read_ends(file)
        except TraceError as error:
            message = str(error).replace(str(file), file.name)
            raise ApiError(404, f"This run cannot be shown: {message}.", code="run_not_found") from None
        return file

    def listed(self) -> list[dict[str, Any]]:
        """The newest runs, newest first, from the first and the last line of each. Other files are left out."""
        if self.folder is None or not self.folder.is_dir():
            return []
        stats = {
            file: stat
            for file in self.folder.iterdir()
            if file.suffix == SUFFIX and NAME.fullmatch(file.stem) and (stat := _stat(file))
        }
        newest = sorted(stats, key=lambda file: stats[file][0], reverse=True)[:LISTED]
        cached = self._cached
        self._cached = {
            file: cached[file] if file in cached and cached[file][0] == stats[file] else (stats[file], _entry(file))
            for file in newest
        }
        return [entry for _, entry in self._cached.values() if entry is not None]

    def reports(self) -> list[str]:
        """The paths of the bench reports in the folder: single files, and those of run folders."""
        if self.folder is None:
            return []
        files = (file for pattern in REPORTS for file in self.folder.glob(pattern))
        return sorted(file.relative_to(self.folder).as_posix() for file in islice(files, LISTED))

    def report(self, name: str) -> Path:
        if self.folder is None or name not in self.reports():
            raise ApiError(404, "This report does not exist.")
        return self.folder / name


def _stat(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:  # removed meanwhile
        return None
    return stat.st_mtime_ns, stat.st_size


def _entry(file: Path) -> dict[str, Any] | None:
    """A run in the list; None if the file is not a run log."""
    try:
        head, end = read_ends(file)
    except TraceError:
        return None
    run, result = head["run"], end.get("result", {})
    return {
        "id": file.stem,
        "question": run.get("question", "")[:EXCERPT],
        "model": run.get("model", "")[:EXCERPT],
        "strategy": run.get("strategy", "")[:EXCERPT],
        "begun": run.get("begun"),
        "answer": (result.get("answer") or "")[:EXCERPT] or None,
        "started": result.get("started"),
        "tokens": result.get("tokens", {}).get("total"),
        "reason": result.get("reason", "")[:EXCERPT] or None,
        "error": str(end.get("error", {}).get("message", ""))[:EXCERPT] or None,
    }


class WatchedRun:
    """A run that pages can watch."""

    def __init__(self, request: ConsensusRequest, question: str, notes: Sequence[str]) -> None:
        self.id = secrets.token_urlsafe(24)
        self.model = request.model
        self.judge: Judge = request.options["kind"]
        self.log = RunLogWriter(
            {"id": self.id, "question": question, "model": request.model, "strategy": render(request.strategy),
             "begun": time.time(), "notes": list(notes)}
        )  # fmt: skip
        self.watchers = 0
        self.task: asyncio.Task[RunResult] | None = None

    def stop(self) -> None:
        """End the run with the vote so far."""
        if self.task is not None:
            cancel_once(self.task)


class RunRegistry:
    """The runs that pages watch, by ids that cannot be guessed, and those that were kept."""

    def __init__(self, state: ServerState) -> None:
        self.state = state
        self.kept = KeptRuns(state.settings.keep_runs)
        self.live: dict[str, WatchedRun] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def start_for_client(
        self, request: ConsensusRequest, slot: ExitStack, observer: Observer
    ) -> asyncio.Task[RunResult]:
        """Start a run for a client. Its view is recorded only if runs are kept."""
        if self.kept.folder is None:
            return self.state.start_run(request, slot, observer)
        run = WatchedRun(request, request.question, self.state.upstream.notes(request.model, request.question))
        run.task = self.state.start_run(request, slot, observer, run.log)
        self._record(run)
        return run.task

    def start_for_page(self, request: ConsensusRequest, slot: ExitStack, question: str) -> WatchedRun:
        """Start a run for a page; it holds the slot until it ends."""
        run = WatchedRun(request, question, self.state.upstream.notes(request.model, request.question))
        run.task = self.state.start_run(request, slot, run.log)
        self.live[run.id] = run
        self._forget_later(run)
        self._record(run)
        return run

    def _record(self, run: WatchedRun) -> None:
        task = asyncio.create_task(self._record_end(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _record_end(self, run: WatchedRun) -> None:
        """Log the run's result or error; pages that watch it must see an end in every case."""
        assert run.task is not None
        await asyncio.wait({run.task})
        try:
            run.log.end(run.task.result().outcome)
        except asyncio.CancelledError:
            run.log.end(None, shutting_down().to_json())
        except Exception as error:
            run.log.end(None, self.state.error_response(error, run.model).to_json())
        if self.kept.folder is not None and run.log.view.result is not None:
            try:
                await asyncio.to_thread(self.kept.save, run.id, run.log)
            except OSError as error:
                log.error("a run could not be kept in %s: %s", self.kept.folder, error.strerror or error)

    @contextmanager
    def watched(self, run: WatchedRun) -> Iterator[None]:
        """While a page watches the run, it is not forgotten."""
        run.watchers += 1
        timer = self._timers.pop(run.id, None)
        if timer is not None:
            timer.cancel()
        try:
            yield
        finally:
            run.watchers -= 1
            if run.watchers == 0:
                self._forget_later(run)

    def _forget_later(self, run: WatchedRun) -> None:
        self._timers[run.id] = asyncio.get_running_loop().call_later(RECONNECT, self._forget, run)

    def _forget(self, run: WatchedRun) -> None:
        self.live.pop(run.id, None)
        self._timers.pop(run.id, None)
        run.stop()

    async def find(self, name: str) -> WatchedRun | Path:
        """A run in progress, or the file of one that was kept."""
        live = self.live.get(name)
        return live if live is not None else await asyncio.to_thread(self.kept.find, name)

    async def agree(self, first: str, second: str) -> bool | None:
        """Whether two runs have the same answer, by the judge of the first; None if one of them has none (yet)."""
        runs = [await self.find(name) for name in (first, second)]
        one, other = [await asyncio.to_thread(_answer, run) for run in runs]
        if one is None or other is None:
            return None
        judge = runs[0].judge if isinstance(runs[0], WatchedRun) else resolve_kind(self.state.settings.kind)
        classes, _ = await asyncio.to_thread(classes_or_own, for_question(judge), [one, other])
        return classes[one] == classes[other]


def _answer(run: WatchedRun | Path) -> str | None:
    result = run.log.view.result if isinstance(run, WatchedRun) else read_ends(run)[1].get("result")
    return (result or {}).get("answer")
