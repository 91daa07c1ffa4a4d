"""Files of JSON lines that survive a crash at any point, and the journal of a recording, which is one.

Each line is on disk before the next thing happens, and ends with a checksum of its bytes. The first holds the terms
under which the others were made; they must not change while there are others. A last line that a crash cut short is
dropped when the file is opened again. A journal has a line per path, and lies beside the pool that is written from it
when the recording is complete.
"""

from __future__ import annotations

import base64
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeGuard
from zlib import crc32

import numpy as np

from sureenough.core.options import choose_window
from sureenough.errors import TraceError, UsageError
from sureenough.json_text import has_halves
from sureenough.pools.durable import sync_folder, write_file
from sureenough.pools.path import Question, RecordedPath
from sureenough.pools.read import Pool, is_pool
from sureenough.pools.schema import PoolInfo
from sureenough.pools.write import PART, FolderReplacement, PoolWriter, system_message

Line = dict[str, Any]

TELLING_TERMS: Final = ("model", "dataset", "kind", "template")
"""What a refusal names before all other terms; a kind changes the template, so it comes first."""

_BEGINNING: Final = b'{"terms": '
_CHECKSUM: Final = re.compile(rb', "crc32": "([0-9a-f]{8})"\}\n\Z')


class JsonLinesFile(AbstractContextManager["JsonLinesFile"]):
    """Append lines; read one again by its offset. Memory does not grow with the file.

    Args:
        file: may hold lines already.
        terms: of all lines.
        noun: what a line holds, in the plural.
        on_line: receives every line that the file holds already, with its offset.
    """

    def __init__(
        self,
        file: Path,
        terms: dict[str, Any],
        noun: str,
        on_line: Callable[[int, Line], object] = lambda offset, line: None,
    ) -> None:
        self.file, self.noun, self._on_line = file, noun, on_line
        self.count = 0
        try:
            self._end = self._resume(terms) if file.exists() else 0
            self._handle = open(file, "ab", buffering=0)  # noqa: SIM115  # closed by close()
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
            os.ftruncate(descriptor, self._end)  # what a failed write or a crash left
        try:
            while remaining:  # a disk that fills up takes a part first, and refuses the rest
                remaining = remaining[self._handle.write(remaining) :]
            os.fsync(descriptor)
        except OSError:
            with suppress(OSError):
                os.ftruncate(descriptor, self._end)
            raise
        self._end += len(data)

    def _resume(self, terms: dict[str, Any]) -> int:
        """Where the next line belongs; a last line that was cut short does not count."""
        end = 0
        begun_with: dict[str, Any] = {}
        for offset, after, line in _complete_lines(self.file):
            end = after
            if offset:
                self.count += 1
                self._on_line(offset, line)
            else:
                begun_with = line["terms"]
        if not self.count:
            return 0  # a failed start leaves only its terms, and they bind no line
        changed = changed_terms(begun_with, json.loads(json.dumps(terms)))
        if changed is not None:
            noun = self.noun if self.count > 1 else self.noun.removesuffix("s")
            raise TraceError(
                f"{self.file} was begun with {changed}. It holds {self.count:,} {noun}: give the same command to go "
                "on, or name another output with -o or delete this file to begin anew"
            )
        return end


def encode(line: Line) -> bytes:
    """A line with its checksum, as it is in the file."""
    body = json.dumps(line, ensure_ascii=False).encode()
    return b'%s, "crc32": "%08x"}\n' % (body[:-1], crc32(body))


def write_lines(file: Path, terms: dict[str, Any], lines: Iterable[Line]) -> None:
    """Write a whole file; it appears when all of it is on disk."""
    try:
        write_file(file, map(encode, chain([{"terms": terms}], lines)))
    except OSError as error:
        raise TraceError(f"cannot write {file}: {error.strerror or error}; make room and try again") from None


def holds_lines(file: Path) -> bool:
    """Whether a file exists and has a complete line beside its terms."""
    return file.exists() and any(offset for offset, _ in read_lines(file))


def read_lines(file: Path) -> Iterator[tuple[int, Line]]:
    """All complete lines with their offsets, the terms first."""
    return ((offset, line) for offset, _, line in _complete_lines(file))


def _complete_lines(file: Path) -> Iterator[tuple[int, int, Line]]:
    """Each with its offset and that of the next; only the last line can be cut short."""
    foreign = TraceError(f"{file} does not start with its terms: it is not a journal, or it is damaged")
    with open(file, "rb") as handle:
        beginning = handle.read(len(_BEGINNING))
        if not _BEGINNING.startswith(beginning) and beginning.strip(b"\0"):  # a power failure may leave zeros
            raise foreign
        offset = handle.seek(0)
        for number, raw in enumerate(handle, start=1):
            if not raw.endswith(b"\n"):
                return
            line = _parse(raw, f"{file}, line {number}")
            if number == 1 and not isinstance(line.get("terms"), dict):
                raise foreign
            yield offset, offset + len(raw), line
            offset += len(raw)


def changed_terms(old: dict[str, Any], new: dict[str, Any]) -> str | None:
    """The most telling difference with both values, and the names of the others; None if there is none."""
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if not changed:
        return None
    first, *others = sorted(changed, key=lambda name: (*TELLING_TERMS, name).index(name))
    more = f" (other differences: {', '.join(others):.400})" if others else ""
    return f"{first} {old.get(first)!r:.400}, not {new.get(first)!r:.400}{more}"


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


Key = tuple[str, int]
"""A question's id and a path's number."""


class Journal(Mapping[Key, RecordedPath], AbstractContextManager["Journal"]):
    """Recorded paths by question and number. Only their offsets are in memory; a path is read when it is looked up.

    The first line of the file says how they were sampled, and must not change.
    """

    def __init__(self, file: Path, terms: dict[str, Any]) -> None:
        self.file = file
        self._offsets: dict[str, dict[int, int]] = {}
        self._lines = JsonLinesFile(file, terms, "paths", self._keep_offset)

    def _keep_offset(self, offset: int, line: Line) -> None:
        question, number = _key(line, self.file, offset)
        self._offsets.setdefault(question, {})[number] = offset

    def add(self, question: str, path: RecordedPath) -> None:
        """Append one path; it is on disk when this returns."""
        assert path.number is not None
        line = _line(question, path)
        self._keep_offset(self._lines.add(line), line)

    def numbers(self, question: str) -> list[int]:
        """The numbers of a question's paths, in order."""
        return sorted(self._offsets.get(question, ()))

    def paths(self, question: str) -> list[RecordedPath]:
        """A question's paths, in order of their numbers."""
        return [self[question, number] for number in self.numbers(question)]

    def __getitem__(self, key: Key) -> RecordedPath:
        question, number = key
        offset = self._offsets[question][number]
        return _path(self._lines.at(offset), self.file, offset)

    def __contains__(self, key: object) -> bool:
        return isinstance(key, tuple) and key[1] in self._offsets.get(key[0], ())

    def __iter__(self) -> Iterator[Key]:
        return ((question, number) for question, numbers in self._offsets.items() for number in numbers)

    def __len__(self) -> int:
        return sum(map(len, self._offsets.values()))

    def __exit__(self, *_: object) -> None:
        self._lines.close()


def journal_of(output: Path) -> Path:
    """Where `record` keeps the journal of a pool."""
    return output.with_name(output.name + ".journal")


def recorded_keys(output: Path) -> set[Key]:
    """The paths that earlier recordings have left: those of the journal, else those of the pool. Nothing is changed."""
    if output.name and holds_lines(journal := journal_of(output)):
        return {_key(line, journal, offset) for offset, line in read_lines(journal) if offset}
    pool = Pool(output) if output.is_file() or (output.is_dir() and is_pool(output)) else ()
    return {(question.id, path.number) for question in pool for path in question.paths if path.number is not None}


def reopen(pool: Pool, file: Path, terms: dict[str, Any]) -> None:
    """Write the journal of a finished pool, so that recording can go on; it appears whole or not at all."""
    write_lines(file, terms, (_line(question.id, path) for question in pool for path in question.paths))


def write_journal_pool(
    output: Path,
    questions: Sequence[Question],
    journal: Journal,
    info: PoolInfo,
    *,
    keep_text: bool,
    rows_per_part: int | None = None,
    replaced: Collection[str] = (),
) -> None:
    """Write the pool of the journal's paths. It is on disk when this returns, so the journal may be removed.

    Args:
        output: the file, or the folder of parts.
        questions: what the pool keeps of them beside their paths, which are the journal's.
        journal: has the paths.
        info: by default, the window suits the lengths of the paths.
        keep_text: of questions and paths.
        rows_per_part: write parts with about so many paths each.
        replaced: the parts of an older folder.
    """
    if info.window is None:
        info = replace(info, window=choose_window([path.tokens for one in questions for path in journal.paths(one.id)]))
    optional = ["seed", *(["question_text", "text"] if keep_text else [])]
    optional += ["kind"] if any(one.kind is not None for one in questions) else []

    def write(file: Path, group: Sequence[Question]) -> None:
        with PoolWriter(file, info.of_questions([one.id for one in group]), optional=optional) as writer:
            for one in group:
                if paths := journal.paths(one.id):
                    writer.write(replace(one, paths=paths))

    try:
        if rows_per_part is None:
            write(output, questions)
            return
        replacement = FolderReplacement(output)
        folder = replacement.begin()
        for number, group in enumerate(_groups(questions, journal, rows_per_part)):
            write(folder / PART.format(number), group)
        replacement.publish(replaced)
    except (OSError, TraceError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise TraceError(
            f"cannot write {output}: {system_message(cause)}. All paths are safe in {journal.file}; "
            "make room and give the same command again"
        ) from None


def _groups(questions: Iterable[Question], journal: Journal, rows: int) -> Iterator[list[Question]]:
    """Questions with at least so many paths together, the last group perhaps with fewer."""
    group: list[Question] = []
    size = 0
    for question in questions:
        if not (paths := len(journal.numbers(question.id))):
            continue
        group.append(question)
        size += paths
        if size >= rows:
            yield group
            group, size = [], 0
    if group:
        yield group


def _line(question: str, path: RecordedPath) -> Line:
    line: Line = {"question": question, "path": path.number, "answer": path.answer, "finish": path.finish}
    return line | {"seed": path.seed, "text": path.text, "peak": _packed(path.peak), "conf": _packed(path.conf)}


def _key(line: Line, file: Path, offset: int) -> Key:
    question, number = line.get("question"), line.get("path")
    if not _is_text(question) or type(number) is not int or not 0 <= number < 2**31:
        raise _damaged(file, offset)
    return question, number


def _is_text(value: object) -> TypeGuard[str]:
    """Whether a pool can hold it as a text."""
    return isinstance(value, str) and not has_halves(value)


def _path(line: Line, file: Path, offset: int) -> RecordedPath:
    try:
        peak, conf = (
            np.frombuffer(base64.b64decode(line[name], validate=True), dtype="<f2") for name in ("peak", "conf")
        )
        finish, answer, text, seed = (line[name] for name in ("finish", "answer", "text", "seed"))
        texts = [finish, *(value for value in (answer, text) if value is not None)]
        if not all(map(_is_text, texts)) or not (seed is None or (type(seed) is int and -(2**63) <= seed < 2**63)):
            raise _damaged(file, offset)
        return RecordedPath(
            answer, peak.astype(np.float64), conf.astype(np.float64), line["path"], finish, text, seed,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, UsageError):
        raise _damaged(file, offset) from None


def _damaged(file: Path, offset: int) -> TraceError:
    return TraceError(f"{file}, at byte {offset}: the line is not a recorded path; remove it to keep the rest")


def _packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f2").tobytes()).decode()
