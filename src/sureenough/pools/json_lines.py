"""A file of JSON lines that survives any end: each line is on disk before the next thing happens.

The first line says under which terms the others were made, and must not change. A line that was cut by a crash is
dropped when the file is opened again; every other line is whole.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Self

from sureenough.errors import TraceError

Line = dict[str, Any]


class JsonLinesFile:
    """Append lines; read all of them, or one again by its place. Memory does not grow with the file."""

    def __init__(self, file: Path, terms: dict[str, Any], what: str) -> None:
        self.file = file
        self.what = what  # what a line is, in the plural
        self.kept = 0
        try:
            if file.exists():
                self._resume(terms)
            self._handle = open(file, "ab", buffering=0)  # noqa: SIM115  # closed by close()
            if not self._handle.tell():
                self._write({"terms": terms})
        except OSError as error:
            raise TraceError(f"cannot write {file}: {error.strerror or error}; choose another place with -o") from None

    def add(self, line: Line) -> int:
        """Keep one line; it is on disk when this returns its place."""
        whole = self._handle.tell()
        try:
            self._write(line)
        except OSError as error:
            os.ftruncate(self._handle.fileno(), whole)  # take back what was half written
            raise TraceError(
                f"cannot write {self.file}: {error.strerror or error}. {self.kept} {self.what} are safe in it; "
                "make room and give the same command again"
            ) from None
        self.kept += 1
        return whole

    def __iter__(self) -> Iterator[tuple[int, Line]]:
        """Every line but the terms, with its place."""
        return (placed for placed in read_lines(self.file) if placed[0])

    def at(self, place: int) -> Line:
        """The line at a place."""
        with open(self.file, "rb") as handle:
            handle.seek(place)
            return _line(handle.readline(), self.file, "at a place that was written before")

    def close(self) -> None:
        """No more lines."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: Line) -> None:
        left = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        while left:  # a disk that fills up takes a part first, and refuses the rest
            left = left[self._handle.write(left) :]
        os.fsync(self._handle.fileno())

    def _resume(self, terms: dict[str, Any]) -> None:
        with open(self.file, "r+b") as handle:
            end = handle.seek(0, os.SEEK_END)
            whole = _whole(handle, end)
            if whole < end:
                handle.truncate(whole)
        for place, line in read_lines(self.file):
            if place == 0:
                _same_terms(line.get("terms", {}), json.loads(json.dumps(terms)), self.file)
            else:
                self.kept += 1


def read_lines(file: Path) -> Iterator[tuple[int, Line]]:
    """All whole lines with their places, the terms first."""
    place = 0
    with open(file, "rb") as handle:
        for number, raw in enumerate(handle, start=1):
            if not raw.endswith(b"\n"):
                return
            yield place, _line(raw, file, f"line {number}")
            place += len(raw)


def _whole(handle: BinaryIO, end: int) -> int:
    """Up to where the lines are whole: only the last one can be cut."""
    while end:
        start = max(0, end - 65_536)
        handle.seek(start)
        found = handle.read(end - start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _same_terms(old: dict[str, Any], new: dict[str, Any], file: Path) -> None:
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if changed:
        name = changed[0]
        raise TraceError(
            f"{file} was begun with {name} {old.get(name)!r}, not {new.get(name)!r}: give the same command to go on, "
            "or another output to begin anew"
        )


def _line(raw: bytes, file: Path, place: str) -> Line:
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise TraceError(f"{file}, {place}: not a line of a journal; remove that line to keep the rest")
    return line
