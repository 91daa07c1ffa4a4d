"""Paths as they are sampled, one line each, on disk before the next one is counted: a recording survives any crash.

The journal lies beside the pool that is written from it when the recording is complete.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from sureenough.core.options import choose_window
from sureenough.errors import TraceError, UsageError
from sureenough.pools.json_lines import JsonLinesFile, Line, holds_lines, read_lines, write_lines
from sureenough.pools.parts import is_pool
from sureenough.pools.path import RecordedPath
from sureenough.pools.read import Pool
from sureenough.pools.rows import Question
from sureenough.pools.schema import PoolInfo
from sureenough.pools.write import PoolWriter, system_message

Key = tuple[str, int]
"""A question's id and a path's number."""


class JournalPaths(Mapping[Key, RecordedPath]):
    """Paths by question and number. Only their offsets are in memory; a path is read when it is looked up."""

    def __init__(self, lines: JsonLinesFile) -> None:
        self._lines = lines
        self._offsets: dict[Key, int] = {}
        for offset, line in lines:
            self._offsets[_key(line, lines.file, offset)] = offset
        self._numbers: dict[str, list[int]] = {}
        for question, number in self._offsets:
            self._numbers.setdefault(question, []).append(number)

    def add(self, key: Key, line: Line) -> None:
        offset = self._lines.add(line)
        if key not in self._offsets:
            self._numbers.setdefault(key[0], []).append(key[1])
        self._offsets[key] = offset

    def numbers(self, question: str) -> list[int]:
        """The numbers of a question's paths, in order."""
        return sorted(self._numbers.get(question, ()))

    def __getitem__(self, key: Key) -> RecordedPath:
        offset = self._offsets[key]
        return _path(self._lines.at(offset), self._lines.file, offset)

    def __contains__(self, key: object) -> bool:
        return key in self._offsets

    def __iter__(self) -> Iterator[Key]:
        return iter(self._offsets)

    def __len__(self) -> int:
        return len(self._offsets)


class Journal(AbstractContextManager["Journal"]):
    """Append paths; read them back. The first line says how they were sampled, and must not change."""

    def __init__(self, file: Path, terms: dict[str, Any]) -> None:
        self.file = file
        self._lines = JsonLinesFile(file, terms, "paths")
        try:
            self.paths = JournalPaths(self._lines)
        except BaseException:
            self._lines.close()
            raise

    def add(self, question: str, path: RecordedPath) -> None:
        """Append one path; it is on disk when this returns."""
        assert path.number is not None
        self.paths.add((question, path.number), _line(question, path))

    def close(self) -> None:
        self._lines.close()

    def __exit__(self, *_: object) -> None:
        self.close()


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


class Recordable(Protocol):
    """What a pool keeps of a question beside its paths."""

    @property
    def id(self) -> str: ...
    @property
    def gold(self) -> str | None: ...
    @property
    def level(self) -> int | None: ...
    @property
    def text(self) -> str | None: ...
    @property
    def kind(self) -> str | None: ...


def write_journal_pool(
    pool: Path,
    questions: Iterable[Recordable],
    journal: Journal,
    info: PoolInfo,
    *,
    keep_text: bool,
    keep_kinds: bool | None = None,
) -> None:
    """Write the pool of the journal's paths. It is on disk when this returns, so the journal may be removed.

    By default it has a column of kinds if any question has its own.
    """
    by_id = {question.id: question for question in questions}
    if keep_kinds is None:
        keep_kinds = any(question.kind is not None for question in by_id.values())
    info = with_window(info, by_id, journal)
    optional = ["seed", "tokens", *(["question_text", "text"] if keep_text else [])]
    optional += ["kind"] if keep_kinds else []
    try:
        with PoolWriter(pool, info, optional=optional) as writer:
            for name, paths in by_question(journal.paths, by_id):
                question = by_id[name]
                writer.write(Question(name, question.gold, question.level, paths, question.text, question.kind))
    except (OSError, TraceError) as error:
        cause = error if isinstance(error, OSError) else error.__cause__
        if not isinstance(cause, OSError):
            raise
        raise TraceError(
            f"cannot write {pool}: {system_message(cause)}. All paths are safe in {journal.file}; "
            "make room and give the same command again"
        ) from None


def with_window(info: PoolInfo, ids: Iterable[str], journal: Journal) -> PoolInfo:
    """The metadata with a suggested window: by default one that suits the lengths of the paths."""
    if info.window is not None:
        return info
    lengths = [path.tokens for _, paths in by_question(journal.paths, ids) for path in paths]
    return replace(info, window=choose_window(lengths))


def by_question(paths: JournalPaths, ids: Iterable[str]) -> Iterator[tuple[str, list[RecordedPath]]]:
    """The paths of every question that has any, in order of their numbers; one question's at a time."""
    for name in ids:
        numbers = paths.numbers(name)
        if numbers:
            yield name, [paths[name, number] for number in numbers]


def _line(question: str, path: RecordedPath) -> Line:
    line: Line = {"question": question, "path": path.number, "answer": path.answer, "finish": path.finish}
    return line | {"seed": path.seed, "text": path.text, "peak": _packed(path.peak), "conf": _packed(path.conf)}


def _key(line: Line, file: Path, offset: int) -> Key:
    question, number = line.get("question"), line.get("path")
    if not isinstance(question, str) or not isinstance(number, int) or isinstance(number, bool):
        raise _damaged(file, offset)
    return question, number


def _path(line: Line, file: Path, offset: int) -> RecordedPath:
    try:
        peak, conf = (
            np.frombuffer(base64.b64decode(line[name], validate=True), dtype="<f2") for name in ("peak", "conf")
        )
        finish, text, seed = line["finish"], line["text"], line["seed"]
        if not isinstance(finish, str) or not isinstance(text, str | None) or not isinstance(seed, int | None):
            raise _damaged(file, offset)
        return RecordedPath(
            line["answer"], peak.astype(np.float64), conf.astype(np.float64), line["path"], finish, text, seed,
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, UsageError):
        raise _damaged(file, offset) from None


def _damaged(file: Path, offset: int) -> TraceError:
    return TraceError(f"{file}, at byte {offset}: the line is not a recorded path; remove it to keep the rest")


def _packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f2").tobytes()).decode()
