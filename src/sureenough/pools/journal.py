"""Paths as they are sampled, a line each, on disk before the next one is counted: a recording survives any end.

The journal lies beside the pool that will be made of it.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Self

import numpy as np

from sureenough.pools.json_lines import JsonLinesFile, Line
from sureenough.pools.path import RecordedPath

Key = tuple[str, int]
"""A question's id and a path's number."""


class JournalPath(Mapping[Key, RecordedPath]):
    """Paths by question and number: where each stands is remembered, the path itself is read when it is asked for."""

    def __init__(self, lines: JsonLinesFile) -> None:
        self._lines = lines
        self._places = {(line["question"], line["path"]): place for place, line in lines}

    def add(self, key: Key, line: Line) -> None:
        """One more."""
        self._places[key] = self._lines.add(line)

    def __getitem__(self, key: Key) -> RecordedPath:
        return _path(self._lines.at(self._places[key]))

    def __contains__(self, key: object) -> bool:
        return key in self._places

    def __iter__(self) -> Iterator[Key]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


class Journal:
    """Append paths; read them back. The first line says how they were sampled, and must not change."""

    def __init__(self, file: Path, terms: dict[str, Any]) -> None:
        self.file = file
        self._lines = JsonLinesFile(file, terms, "paths")
        self.paths = JournalPath(self._lines)

    def add(self, question: str, path: RecordedPath) -> None:
        """Keep one path; it is on disk when this returns."""
        assert path.number is not None
        line = {"question": question, "path": path.number, "answer": path.answer, "finish": path.finish}
        line |= {"seed": path.seed, "text": path.text, "peak": _packed(path.peak), "conf": _packed(path.conf)}
        self.paths.add((question, path.number), line)

    def close(self) -> None:
        """No more lines."""
        self._lines.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def by_question(paths: Mapping[Key, RecordedPath], ids: Iterable[str]) -> Iterator[tuple[str, list[RecordedPath]]]:
    """The paths of every question that has any, in order of their numbers; one question's at a time."""
    numbers: dict[str, list[int]] = {}
    for question, number in paths:
        numbers.setdefault(question, []).append(number)
    for name in ids:
        if name in numbers:
            yield name, [paths[name, number] for number in sorted(numbers[name])]


def _path(line: dict[str, Any]) -> RecordedPath:
    return RecordedPath(
        line["answer"], _unpacked(line["peak"]), _unpacked(line["conf"]), line["path"], line["finish"], line["text"],
        line["seed"],
    )  # fmt: skip


def _packed(values: Any) -> str:
    return base64.b64encode(np.asarray(values, dtype="<f2").tobytes()).decode()


def _unpacked(text: str) -> Any:
    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float64)
