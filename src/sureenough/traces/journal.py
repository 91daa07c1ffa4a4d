"""Paths as they are sampled, a line each, on disk before the next one is counted: a recording survives any end.

The journal lies beside the pool that will be made of it. A line that was cut by a crash is dropped when it is opened
again; every other line is whole.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import numpy as np

from sureenough.errors import TraceError
from sureenough.traces.path import RecordedPath

Key = tuple[str, int]
"""A question's id and a path's number."""


class Journal:
    """Append paths; read them back. The first line says how they were sampled, and must not change."""

    def __init__(self, file: Path, terms: dict[str, Any]) -> None:
        self.file = file
        self.paths: dict[Key, RecordedPath] = {}
        try:
            if file.exists():
                self._resume(terms)
            self._handle = open(file, "ab", buffering=0)  # noqa: SIM115  # closed by close()
            if not self._handle.tell():
                self._write({"terms": terms})
        except OSError as error:
            raise TraceError(f"cannot write {file}: {error.strerror or error}; choose another place with -o") from None

    def add(self, question: str, path: RecordedPath) -> None:
        """Keep one path; it is on disk when this returns."""
        assert path.number is not None
        line = {"question": question, "path": path.number, "answer": path.answer, "finish": path.finish}
        line |= {"seed": path.seed, "text": path.text, "peak": _packed(path.peak), "conf": _packed(path.conf)}
        whole = self._handle.tell()
        try:
            self._write(line)
        except OSError as error:
            os.ftruncate(self._handle.fileno(), whole)  # take back what was half written
            raise TraceError(
                f"cannot write {self.file}: {error.strerror or error}. {len(self.paths)} paths are safe in it; "
                "make room and give the same command again"
            ) from None
        self.paths[question, path.number] = path

    def close(self) -> None:
        """No more lines."""
        self._handle.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _write(self, line: dict[str, Any]) -> None:
        left = json.dumps(line, ensure_ascii=False).encode() + b"\n"
        while left:  # a disk that fills up takes a part first, and refuses the rest
            left = left[self._handle.write(left) :]
        os.fsync(self._handle.fileno())

    def _resume(self, terms: dict[str, Any]) -> None:
        data = self.file.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        if len(whole) < len(data):
            with open(self.file, "r+b") as handle:
                handle.truncate(len(whole))
        lines = [_line(raw, self.file, n) for n, raw in enumerate(whole.splitlines(), start=1)]
        if not lines:
            return
        _same_terms(lines[0].get("terms", {}), json.loads(json.dumps(terms)), self.file)
        for line in lines[1:]:
            self.paths[line["question"], line["path"]] = _path(line)


def by_question(paths: dict[Key, RecordedPath], ids: Iterable[str]) -> Iterator[tuple[str, list[RecordedPath]]]:
    """The paths of every question that has any, in order of their numbers."""
    found: dict[str, list[RecordedPath]] = {}
    for (question, _), path in sorted(paths.items(), key=lambda item: item[0][1]):
        found.setdefault(question, []).append(path)
    for name in ids:
        if name in found:
            yield name, found[name]


def _same_terms(old: dict[str, Any], new: dict[str, Any], file: Path) -> None:
    changed = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    if changed:
        name = changed[0]
        raise TraceError(
            f"{file} was begun with {name} {old.get(name)!r}, not {new.get(name)!r}: give the same command to go on, "
            "or another output to begin anew"
        )


def _line(raw: bytes, file: Path, number: int) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        line = None
    if not isinstance(line, dict):
        raise TraceError(f"{file}, line {number}: not a line of a journal; remove that line to keep the rest")
    return line


def _path(line: dict[str, Any]) -> RecordedPath:
    return RecordedPath(
        line["answer"], _unpacked(line["peak"]), _unpacked(line["conf"]), line["path"], line["finish"], line["text"],
        line["seed"],
    )  # fmt: skip


def _packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f2").tobytes()).decode()


def _unpacked(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float64)
