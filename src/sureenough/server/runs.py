"""Runs that a page watches, and those that are kept. A run that nobody watches any more is stopped and forgotten."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import re
import secrets
import time
from pathlib import Path
from typing import Any, Final

from sureenough.drivers.observers import Observer
from sureenough.errors import UsageError
from sureenough.server.errors import ApiError, api_error
from sureenough.server.replies import RunResult, consensus_details
from sureenough.server.run_view import RunView, ViewCursor
from sureenough.server.schema import ConsensusRequest
from sureenough.server.state import ServerState

LINGER: Final = 15.0
"""Seconds that a run waits for its page to come back, as after a reload."""
log: Final = logging.getLogger("sureenough.server")
NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
LISTED: Final = 200
REPORTS: Final = ("*.html", "report/*.html", "*/report/*.html")


class WatchedRun:
    """A run that pages can watch."""

    def __init__(self, asked: ConsensusRequest, question: str) -> None:
        self.id = secrets.token_urlsafe(24)
        self.begun = time.time()
        self.asked, self.question = asked, question
        self.watch = RunView()
        self.watchers = 0
        self.task: asyncio.Task[RunResult] | None = None
        self.error: dict[str, Any] | None = None
        self.result: dict[str, Any] | None = None
        self.over = asyncio.Event()

    def head(self) -> dict[str, Any]:
        """What it is."""
        strategy = self.result["strategy"] if self.result else self.asked.strategy.name
        return {"id": self.id, "question": self.question, "model": self.asked.model, "strategy": strategy,
                "begun": self.begun}  # fmt: skip

    def news(self, cursor: ViewCursor, first: bool) -> dict[str, Any]:
        """What a reader has not seen yet."""
        over = self.over.is_set()  # asked first: what comes after it is in the news already
        found = self.watch.news(cursor)
        if first:
            found["run"] = self.head()
        if over:
            found |= {"over": self.result} if self.result is not None else {"error": self.error}
        return found

    def whole(self) -> dict[str, Any]:
        """All of it, as it is kept."""
        words = {n: self.watch.path(n) for n in self.watch.lines}
        return {"schema": 1, **self.news(ViewCursor(), first=True), "words": words}


class RunRegistry:
    """By their ids, which cannot be guessed."""

    def __init__(self, house: ServerState) -> None:
        self.house = house
        self.live: dict[str, WatchedRun] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def recorded(self, asked: ConsensusRequest, observer: Observer) -> asyncio.Task[RunResult]:
        """Start a run for a client; it is watched only where runs are kept."""
        if self.house.settings.keep_runs is None:
            return self.house.run(asked, observer)
        run = WatchedRun(asked, str(asked.prompt.messages[-1].get("content", "")))
        run.task = self.house.run(asked, observer, run.watch)
        self._follow(run)
        return run.task

    def begin(self, asked: ConsensusRequest, question: str) -> WatchedRun:
        """Start a run for a page; it has a place among the requests until it is over."""
        run = WatchedRun(asked, question)
        run.task = self.house.run(asked, run.watch)
        self.live[run.id] = run
        self._wait(run)
        self._follow(run)
        return run

    def _follow(self, run: WatchedRun) -> None:
        task = asyncio.create_task(self._finish(run))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _finish(self, run: WatchedRun) -> None:
        assert run.task is not None
        try:
            run.result = consensus_details(await asyncio.shield(run.task))
        except Exception as error:
            problem = api_error(error, run.asked.model)
            problem.message = self.house.asked.clean(problem.message)
            run.error = problem.body()["error"]
        run.over.set()
        if self.house.settings.keep_runs is not None and run.result is not None:
            folder = self.house.settings.keep_runs
            try:
                await asyncio.to_thread(lambda: keep(folder, run.whole()))
            except OSError as error:
                log.error("a run could not be kept in %s: %s", folder, error.strerror or error)

    def enter(self, run: WatchedRun) -> None:
        """A page watches."""
        run.watchers += 1
        timer = self._timers.pop(run.id, None)
        if timer is not None:
            timer.cancel()

    def leave(self, run: WatchedRun) -> None:
        """A page has gone; it may come back."""
        run.watchers -= 1
        if run.watchers == 0:
            self._wait(run)

    def _wait(self, run: WatchedRun) -> None:
        self._timers[run.id] = asyncio.get_running_loop().call_later(LINGER, self.forget, run.id)

    def forget(self, name: str) -> None:
        """Stop it where it still runs."""
        run = self.live.pop(name, None)
        self._timers.pop(name, None)
        if run is not None and run.task is not None:
            run.task.cancel()

    def find(self, name: str) -> WatchedRun | dict[str, Any]:
        """A run that is live, or one that was kept."""
        if name in self.live:
            return self.live[name]
        folder = self.house.settings.keep_runs
        if folder is not None and NAME.fullmatch(name):
            kept = load(folder / f"{name}.json")
            if kept is not None:
                return kept
        raise ApiError(404, "There is no such run; runs are kept only with --keep-runs.", code="run_not_found")

    def kept(self) -> list[dict[str, Any]]:
        """The heads of the runs that were kept, newest first."""
        folder = self.house.settings.keep_runs
        if folder is None or not folder.is_dir():
            return []
        files = sorted(folder.glob("*.json"), key=_when, reverse=True)
        found = ((file, load(file)) for file in files[:LISTED] if NAME.fullmatch(file.stem))  # one in memory at a time
        return [{**kept["run"], "id": file.stem, "over": kept.get("over")} for file, kept in found if kept]

    def reports(self) -> list[str]:
        """The places of the bench reports in the same folder: loose ones, and those of run folders."""
        folder = self.house.settings.keep_runs
        if folder is None:
            return []
        found = (file for pattern in REPORTS for file in folder.glob(pattern))
        return sorted(file.relative_to(folder).as_posix() for file in found)[:LISTED]

    def report(self, name: str) -> Path:
        """One of them."""
        folder = self.house.settings.keep_runs
        if folder is None or name not in self.reports():
            raise ApiError(404, "There is no such report.")
        return folder / name


def keep(folder: Path, whole: dict[str, Any]) -> Path:
    """Write a run, whole or not at all, for this user's eyes only."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / f"{whole['run']['id']}.json"
    part = file.with_suffix(".part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
        json.dump(whole, out, allow_nan=False)
    part.rename(file)
    return file


def load(file: Path) -> dict[str, Any] | None:
    """A run that was kept; None where there is none."""
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        return None
    return (
        found if isinstance(found, dict) and found.get("schema") == 1 and isinstance(found.get("run"), dict) else None
    )


def must_load(file: Path) -> dict[str, Any]:
    """A run that somebody names on the command line."""
    found = load(file)
    if found is None:
        raise UsageError(f"{file} is no run; `sureenough serve --keep-runs FOLDER` keeps them")
    return found


def _when(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0
