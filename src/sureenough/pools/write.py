"""Pools are written row group by row group under a temporary name, so a reader never sees half a file."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sureenough.errors import TraceError
from sureenough.pools.durable import own_file, publish
from sureenough.pools.path import RecordedPath
from sureenough.pools.rows import Question
from sureenough.pools.schema import OPTIONAL, PoolInfo, pool_schema

ROWS: Final = 2048  # rows per row group: a few megabytes


class PoolWriter(AbstractContextManager["PoolWriter"]):
    """Writes questions as they come; the file appears when the writer is closed without an error."""

    def __init__(self, file: str | Path, info: PoolInfo, *, optional: Iterable[str] = ()) -> None:
        self.file = Path(file)
        unknown = set(optional) - set(OPTIONAL)
        if unknown:
            raise TraceError(f"no such optional column: {', '.join(sorted(unknown))}; known: {', '.join(OPTIONAL)}")
        self._schema = pool_schema(info, frozenset(optional))
        self._part = own_file(self.file, "part")
        self._rows: list[dict[str, Any]] = []
        self._ids: set[str] = set()
        try:
            self._writer = pq.ParquetWriter(self._part, self._schema, compression="zstd")
        except OSError as error:
            with suppress(OSError):
                self._part.unlink(missing_ok=True)
            raise TraceError(f"cannot write {self.file}: {system_message(error)}") from error

    def write(self, question: Question) -> None:
        """Append all paths of one question."""
        if question.id in self._ids:
            raise TraceError(f"question {question.id!r} was written already; pass all its paths in one Question")
        self._ids.add(question.id)
        names = self._schema.names
        for number, path in enumerate(question.paths):
            row = _row(question, number, path)
            self._rows.append({name: row[name] for name in names})
        if len(self._rows) >= ROWS:
            self._flush()

    def close(self) -> None:
        """Finish the file; it is on disk under its own name when this returns."""
        self._flush()
        self._writer.close()
        publish(self._part, self.file)

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
        """Remove the temporary file, which may have filled the disk."""
        try:
            self._writer.close()
        except OSError:
            pass  # the error that led here is the one to report
        finally:
            self._part.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


def system_message(error: OSError) -> str:
    """The operating system's text for an error, without what libraries put around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def write_pool(
    file: str | Path, questions: Iterable[Question], info: PoolInfo, *, optional: Sequence[str] = ()
) -> None:
    """Write a whole pool."""
    with PoolWriter(file, info, optional=optional) as writer:
        for question in questions:
            writer.write(question)


def _row(question: Question, number: int, path: RecordedPath) -> dict[str, Any]:
    return {
        "question": question.id,
        "path": number if path.number is None else path.number,
        "gold": question.gold,
        "level": question.level,
        "answer": path.answer,
        "finish": path.finish,
        "peak": _float16("peak", path.peak, question.id),
        "conf": _float16("conf", path.conf, question.id),
        "text": path.text,
        "seed": path.seed,
        "tokens": path.tokens,
        "question_text": question.text,
        "kind": question.kind,
    }


def _float16(name: str, signal: Any, question: str) -> Any:
    """A signal as float16, which holds numbers up to 65,504."""
    values = np.asarray(signal)
    if len(values) and float(np.abs(values).max()) > 65_504.0:
        raise TraceError(f"question {question!r}: {name} holds numbers above 65,504, which are not confidences")
    return values.astype(np.float16)
