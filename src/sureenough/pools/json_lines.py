"""A file of JSON lines that survives a crash at any point: each line is on disk before the next thing happens.

The first line holds the terms under which the others were made; they must not change while there are others. Every line
ends with a checksum of its bytes. A last line that a crash cut short is dropped when the file is opened again.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, BinaryIO, Final
from zlib import crc32

from sureenough.errors import TraceError
from sureenough.pools.durable import own_file, publish, sync_folder

Line = dict[str, Any]

TELLING_TERMS: Final = ("model", "dataset", "kind", "template")
"""What a refusal names before all other terms; a kind changes the template, so it comes first."""

_BEGINNING: Final = b'{"terms": '
_LONGEST: Final = 400
"""Characters of a term that a refusal shows."""
_CHECKSUM: Final = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\n\Z')


class JsonLinesFile(AbstractContextManager["JsonLinesFile"]):
    """Append lines; iterate over all of them, or read one again by its offset. Memory does not grow with the file."""

    def __init__(self, file: Path, terms: dict[str, Any], noun: str) -> None:
        self.file = file
        self.noun = noun  # what a line holds, in the plural
        self.count = 0
        try:
            if file.exists():
                self._resume(terms)
            self._handle = open(file, "ab", buffering=0)  # noqa: SIM115  # closed by close()
            self._end = os.fstat(self._handle.fileno()).st_size
            if not self._end:
                self._write({"terms": terms})
                sync_folder(file.parent)
        except OSError as error:
            raise TraceError(f"cannot write {file}: {error.strerror or error}; choose another place with -o") from None

    def add(self, line: Line) -> int:
        """Append one line; it is on disk when this returns its offset."""
        offset = self._end
        try:
            self._write(line)
        except OSError as error:
            raise TraceError(
                f"cannot write {self.file}: {error.strerror or error}. {self.count} {self.noun} are safe in it; "
                "make room and give the same command again"
            ) from None
        self.count += 1
        return offset

    def __iter__(self) -> Iterator[tuple[int, Line]]:
        """Every line but the terms, with its offset."""
        return ((offset, line) for offset, line in read_lines(self.file) if offset)

    def at(self, offset: int) -> Line:
        with open(self.file, "rb") as handle:
            handle.seek(offset)
            return _parse(handle.readline(), f"{self.file}, at byte {offset}")

    def close(self) -> None:
        self._handle.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _write(self, line: Line) -> None:
        """Append a line and its checksum; after a failure nothing of it stays, however often writing fails."""
        data = remaining = encode(line)
        descriptor = self._handle.fileno()
        if os.fstat(descriptor).st_size > self._end:
            os.ftruncate(descriptor, self._end)  # what a failed write left, if it could not be removed then
        try:
            while remaining:  # a disk that fills up takes a part first, and refuses the rest
                remaining = remaining[self._handle.write(remaining) :]
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._end += len(data)

    def _resume(self, terms: dict[str, Any]) -> None:
        with open(self.file, "r+b") as handle:
            size = handle.seek(0, os.SEEK_END)
            end = _end_of_lines(handle, size)
            if end < size:
                if not end:
                    _refuse_foreign(handle, self.file)
                handle.truncate(end)
        begun_with: dict[str, Any] = {}
        for offset, line in read_lines(self.file):
            if offset:
                self.count += 1
            else:
                begun_with = line["terms"]
        changed = changed_terms(begun_with, json.loads(json.dumps(terms)))
        if not self.count:  # a failed start leaves only its terms, and they bind no line
            os.truncate(self.file, 0)
        elif changed is not None:
            noun = self.noun if self.count > 1 else self.noun.removesuffix("s")
            raise TraceError(
                f"{self.file} was begun with {changed}. It holds {self.count:,} {noun}: give the same command to go "
                "on, or name another output with -o or delete this file to begin anew"
            )


def encode(line: Line) -> bytes:
    """A line with its checksum, as it is in the file."""
    body = json.dumps(line, ensure_ascii=False).encode()
    return b'%s, "crc32": "%08x"}\n' % (body[:-1], crc32(body))


def write_lines(file: Path, terms: dict[str, Any], lines: Iterable[Line]) -> None:
    """Write a whole file; it appears when all of it is on disk."""
    part = own_file(file, "part")
    try:
        with open(part, "wb") as handle:
            handle.write(encode({"terms": terms}))
            handle.writelines(map(encode, lines))
        publish(part, file)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise TraceError(f"cannot write {file}: {error.strerror or error}; make room and try again") from None


def holds_lines(file: Path) -> bool:
    """Whether a file exists and has a complete line beside its terms."""
    return file.exists() and any(offset for offset, _ in read_lines(file))


def read_lines(file: Path) -> Iterator[tuple[int, Line]]:
    """All complete lines with their offsets, the terms first."""
    offset = 0
    with open(file, "rb") as handle:
        for number, raw in enumerate(handle, start=1):
            if not raw.endswith(b"\n"):
                return
            if number == 1 and not _CHECKSUM.search(raw):
                raise _not_a_journal(file)
            line = _parse(raw, f"{file}, line {number}")
            if number == 1 and (set(line) != {"terms"} or not isinstance(line["terms"], dict)):
                raise _not_a_journal(file)
            yield offset, line
            offset += len(raw)


def _end_of_lines(handle: BinaryIO, end: int) -> int:
    """The offset after the last complete line; only the last line can be cut short."""
    while end:
        start = max(0, end - 65_536)
        handle.seek(start)
        newline = handle.read(end - start).rfind(b"\n")
        if newline >= 0:
            return start + newline + 1
        end = start
    return 0


def _refuse_foreign(handle: BinaryIO, file: Path) -> None:
    """Refuse a file without a complete line that did not begin as ours; a power failure may leave zeros."""
    handle.seek(0)
    beginning = handle.read(len(_BEGINNING))
    if not _BEGINNING.startswith(beginning) and beginning.strip(b"\0"):
        raise _not_a_journal(file)


def _not_a_journal(file: Path) -> TraceError:
    return TraceError(f"{file} does not start with its terms: it is not a journal, or it is damaged")


def changed_terms(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The most telling difference with both values, and the names of the others; None if there is none."""
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if not changed:
        return None
    first, *others = sorted(changed, key=lambda name: (*TELLING_TERMS, name).index(name))
    more = f" (other differences: {_shortened(', '.join(others))})" if others else ""
    return f"{first} {_shortened(repr(old.get(first)))}, not {_shortened(repr(new.get(first)))}{more}"


def _shortened(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def _parse(raw: bytes, place: str) -> Line:
    """A line without its checksum, which is verified."""
    checksum = _CHECKSUM.search(raw)
    body = b"" if checksum is None else raw[: checksum.start()] + b"}"
    try:
        line = json.loads(body) if checksum is not None and int(checksum[1], 16) == crc32(body) else None
    except (ValueError, RecursionError):
        line = None
    if not isinstance(line, dict):
        raise TraceError(f"{place}: the line is damaged; remove it to keep the rest")
    return line
