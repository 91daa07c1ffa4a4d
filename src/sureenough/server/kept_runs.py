"""Runs that were kept as files, and bench reports beside them."""

from __future__ import annotations

import json
import os
import re
from itertools import islice
from pathlib import Path
from typing import Any, Final

from sureenough.errors import UsageError
from sureenough.server.errors import ApiError

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
LISTED: Final = 200
REPORTS: Final = ("*.html", "report/*.html", "*/report/*.html")
HEAD_BYTES: Final = 65_536
"""Bytes at the start of a file in which its head is looked for."""


class KeptRuns:
    """A folder of kept runs. The head of every listed file is cached until the file changes."""

    def __init__(self, folder: Path | None) -> None:
        self.folder = folder
        self._heads: dict[str, tuple[tuple[int, int], dict[str, Any] | None]] = {}  # by name: time and size, head

    def save(self, run: dict[str, Any]) -> None:
        """Write a run, whole or not at all, readable by this user only."""
        assert self.folder is not None
        self.folder.mkdir(parents=True, exist_ok=True)
        file = self.folder / f"{run['run']['id']}.json"
        part = file.with_suffix(".part")
        with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as out:
            json.dump(run, out, allow_nan=False)
        part.rename(file)

    def find(self, name: str) -> dict[str, Any]:
        """A kept run by its id."""
        run = load(self.folder / f"{name}.json") if self.folder is not None and NAME.fullmatch(name) else None
        if run is None:
            raise ApiError(404, "This run does not exist; runs are kept only with --keep-runs.", code="run_not_found")
        return run

    def heads(self) -> list[dict[str, Any]]:
        """The heads of the newest runs, newest first. A file that cannot be read is left out."""
        if self.folder is None or not self.folder.is_dir():
            return []
        stats = {
            file: stat for file in self.folder.glob("*.json") if (stat := _stat(file)) and NAME.fullmatch(file.stem)
        }
        newest = sorted(stats, key=lambda file: stats[file][0], reverse=True)[:LISTED]
        cached = self._heads
        self._heads = {
            file.stem: cached[file.stem]
            if cached.get(file.stem, (None,))[0] == stats[file]
            else (stats[file], head(file))
            for file in newest
        }
        return [{**run, "id": name} for name, (_, run) in self._heads.items() if run is not None]

    def reports(self) -> list[str]:
        """The paths of the bench reports in the folder: single files, and those of run folders."""
        if self.folder is None:
            return []
        files = (file for pattern in REPORTS for file in self.folder.glob(pattern))
        return sorted(file.relative_to(self.folder).as_posix() for file in islice(files, LISTED))

    def report(self, name: str) -> Path:
        """A bench report by its path."""
        if self.folder is None or name not in self.reports():
            raise ApiError(404, "This report does not exist.")
        return self.folder / name


def _stat(file: Path) -> tuple[int, int] | None:
    try:
        stat = file.stat()
    except OSError:  # removed meanwhile
        return None
    return stat.st_mtime_ns, stat.st_size


def head(file: Path) -> dict[str, Any] | None:
    """A run's description and result. New files have them at the start; an older one is read whole."""
    decode = json.JSONDecoder().raw_decode
    try:
        with file.open() as opened:
            text = opened.read(HEAD_BYTES)
        prefix = '{"schema": 1, "run": '
        run, end = decode(text, len(prefix)) if text.startswith(prefix) else (None, 0)
        if isinstance(run, dict) and text.startswith(', "over": ', end):
            return {**run, "over": decode(text, end + len(', "over": '))[0]}
    except (OSError, ValueError, RecursionError):
        pass
    whole = load(file)
    return None if whole is None else {**whole["run"], "over": whole.get("over")}


def load(file: Path) -> dict[str, Any] | None:
    """A kept run; None if the file is missing or is not one."""
    try:
        run = json.loads(file.read_text())
    except (OSError, ValueError, RecursionError):
        return None
    valid = isinstance(run, dict) and run.get("schema") == 1 and isinstance(run.get("run"), dict)
    return run if valid else None


def load_named(file: Path) -> dict[str, Any]:
    """A kept run that the command line names."""
    run = load(file)
    if run is None:
        raise UsageError(f"{file} is not a kept run; `sureenough serve --keep-runs FOLDER` keeps runs")
    return run
