"""Runs that were kept as files, and the bench reports beside them."""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import Any, Final

from sureenough.drivers.run_log import PathTokens, RunLogWriter, read_ends, read_log, save_log
from sureenough.errors import TraceError
from sureenough.server.responses import ApiError, sse_event

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
SUFFIX: Final = ".jsonl"
LISTED: Final = 200
EXCERPT: Final = 200
"""Characters of a question or an answer in the list."""
REPORTS: Final = ("*.html", "report/*.html", "*/report/*.html")
BATCH: Final = 64
"""Lines of a run that are read at a time."""
PART_SECONDS: Final = 3600
"""Seconds after which a run that was not saved to its end never will be."""
log: Final = logging.getLogger("sureenough.server")


class KeptRun:
    """A run that was kept, which pages read from its file."""

    judge = None  # it was not kept

    def __init__(self, file: Path) -> None:
        self.file = file

    async def answer(self) -> str | None:
        _, end = await asyncio.to_thread(read_ends, self.file)
        return end.get("result", {}).get("answer")

    async def text(self, number: int) -> PathTokens | None:
        texts = (line["text"] for _, line in read_log(self.file) if "text" in line)
        return await asyncio.to_thread(lambda: next((text for text in texts if text["path"] == number), None))

    async def events(self) -> AsyncGenerator[bytes]:
        """Its log as server-sent events, without the texts, which a page requests one by one."""
        lines = (raw for raw, line in read_log(self.file) if "text" not in line)
        while batch := await asyncio.to_thread(lambda: list(islice(lines, BATCH))):
            yield b"".join(map(sse_event, batch))

    def stop(self) -> None:
        """It has ended."""


class KeptRuns:
    def __init__(self, folder: Path | None) -> None:
        self.folder = folder

    def save(self, name: str, run_log: RunLogWriter) -> None:
        """Write the log of a run that has ended. A full disk must not cost anybody a response."""
        assert self.folder is not None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            save_log(self.folder / f"{name}{SUFFIX}", run_log.with_texts())
        except OSError as error:
            log.error("a run could not be kept in %s: %s", self.folder, error.strerror or error)

    def remove_parts(self) -> None:
        """Remove what servers that were killed while they saved a run have left."""
        for part in () if self.folder is None else self.folder.glob(f".*{SUFFIX}.sureenough-part"):
            with suppress(OSError):
                if time.time() - part.stat().st_mtime > PART_SECONDS:  # else another server may be writing it
                    part.unlink()

    def find(self, name: str) -> KeptRun:
        file = None if self.folder is None or not NAME.fullmatch(name) else self.folder / f"{name}{SUFFIX}"
        if file is None or not file.is_file():
            raise ApiError(404, "This run does not exist; runs are kept only with --keep-runs.", code="run_not_found")
        try:
            read_ends(file)
        except TraceError as error:
            message = str(error).replace(str(file), file.name)
            raise ApiError(404, f"This run cannot be shown: {message}.", code="run_not_found") from None
        return KeptRun(file)

    def listed(self) -> list[dict[str, Any]]:
        """The newest runs, newest first, from the first and the last line of each. Other files are left out."""
        if self.folder is None or not self.folder.is_dir():
            return []
        files = (file for file in self.folder.iterdir() if file.suffix == SUFFIX and NAME.fullmatch(file.stem))
        changed = {file: at for file in files if (at := _changed(file)) is not None}
        newest = sorted(changed, key=changed.__getitem__, reverse=True)[:LISTED]
        return [entry for file in newest if (entry := _entry(file))]

    def reports(self) -> list[str]:
        """The paths of the bench reports in the folder: single files, and those of run folders."""
        if self.folder is None:
            return []
        files = (file for pattern in REPORTS for file in self.folder.glob(pattern) if file.is_file())  # a pipe blocks
        return sorted(file.relative_to(self.folder).as_posix() for file in islice(files, LISTED))

    def report(self, name: str) -> Path:
        if self.folder is None or name not in self.reports():
            raise ApiError(404, "This report does not exist.")
        return self.folder / name


def _changed(file: Path) -> int | None:
    """When it changed; None if it was removed meanwhile, or is a pipe, which would block."""
    try:
        stat = file.stat()
    except OSError:
        return None
    return stat.st_mtime_ns if S_ISREG(stat.st_mode) else None


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
