"""Pools are written row group by row group under a temporary name: a reader never sees half a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sureenough.errors import TraceError
from sureenough.pools.path import RecordedPath
from sureenough.pools.read import Question
from sureenough.pools.schema import OPTIONAL, PoolInfo, pool_schema

ROWS: Final = 2048
"""Rows a group: a few megabytes."""


class PoolWriter:
    """Writes questions as they come; the file appears when the writer is closed without an error."""

    def __init__(self, file: str | Path, info: PoolInfo, *, optional: Iterable[str] = ()) -> None:
        self.file = Path(file)
        unknown = set(optional) - set(OPTIONAL)
        if unknown:
            raise TraceError(f"no such optional column: {', '.join(sorted(unknown))}; known: {', '.join(OPTIONAL)}")
        self._schema = pool_schema(info, frozenset(optional))
        self._part = self.file.with_name(self.file.name + ".part")
        self._waiting: list[dict[str, Any]] = []
        self._written: set[str] = set()
        try:
            self._writer = pq.ParquetWriter(self._part, self._schema, compression="zstd")
        except OSError as error:
            raise TraceError(f"cannot write {self.file}: {why(error)}") from None

    def write(self, question: Question) -> None:
        """Append all paths of one question."""
        if question.id in self._written:
            raise TraceError(f"question {question.id!r} was written already; all its paths belong into one Question")
        self._written.add(question.id)
        names = self._schema.names
        for number, path in enumerate(question.paths):
            row = _plain(question, number, path)
            self._waiting.append({name: row[name] for name in names})
        if len(self._waiting) >= ROWS:
            self._flush()

    def close(self) -> None:
        """Finish the file and put it in its place."""
        self._flush()
        self._writer.close()
        os.replace(self._part, self.file)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            self.close()
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        """Leave nothing behind, least of all on a full disk."""
        try:
            self._writer.close()
        except OSError:
            pass  # the error under way says it already
        finally:
            self._part.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.Table.from_pylist(self._waiting, schema=self._schema))
            self._waiting = []


def why(error: OSError) -> str:
    """What the system said, without what libraries put around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def write_pool(
    file: str | Path, questions: Iterable[Question], info: PoolInfo, *, optional: Sequence[str] = ()
) -> None:
    """Write a whole pool."""
    with PoolWriter(file, info, optional=optional) as writer:
        for question in questions:
            writer.write(question)


def _plain(question: Question, number: int, path: RecordedPath) -> dict[str, Any]:
    return {
        "question": question.id,
        "path": number if path.number is None else path.number,
        "gold": question.gold,
        "level": question.level,
        "answer": path.answer,
        "finish": path.finish,
        "peak": _halved("peak", path.peak, question.id),
        "conf": _halved("conf", path.conf, question.id),
        "text": path.text,
        "seed": path.seed,
        "tokens": path.tokens,
    }


def _halved(name: str, signal: Any, question: str) -> Any:
    """As float16, which holds numbers up to 65,504."""
    values = np.asarray(signal)
    if len(values) and float(np.abs(values).max()) > 65_504.0:
        raise TraceError(f"question {question!r}: {name} holds numbers above 65,504, which no confidence is")
    return values.astype(np.float16)
