"""Pools, and folders of them, are written under a temporary name, so a reader never sees half of one."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sureenough.errors import TraceError
from sureenough.pools.durable import own_file, publish, sync_folder
from sureenough.pools.path import Question, RecordedPath
from sureenough.pools.read import is_part
from sureenough.pools.schema import SUMMARY, PoolInfo, pool_schema

ROWS: Final = 2048  # rows per row group: a few megabytes


class PoolWriter(AbstractContextManager["PoolWriter"]):
    """Writes questions as they come; the file appears when the writer is closed without an error."""

    def __init__(self, file: str | Path, info: PoolInfo, *, optional: Collection[str] = ()) -> None:
        self.file = Path(file)
        self._schema = pool_schema(info, optional)
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
        self._rows += [_row(question, number, path) for number, path in enumerate(question.paths)]
        if len(self._rows) >= ROWS:
            self._flush()

    def close(self) -> None:
        """Finish the file; it is on disk under its own name when this returns."""
        self._flush()
        self._writer.close()
        publish(self._part, self.file)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        try:
            if kind is None:
                self.close()
        finally:  # a temporary file may have filled the disk
            with suppress(OSError):
                self._writer.close()
            self._part.unlink(missing_ok=True)

    def _flush(self) -> None:
        if self._rows:
            self._writer.write_table(pa.Table.from_pylist(self._rows, schema=self._schema))
            self._rows = []


def system_message(error: OSError) -> str:
    """The operating system's text for an error, without what libraries put around it."""
    return os.strerror(error.errno) if error.errno else str(error)


def write_pool(
    file: str | Path, questions: Iterable[Question], info: PoolInfo, *, optional: Collection[str] = ()
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
        "peak": _float16("peak", path, question.id),
        "conf": _float16("conf", path, question.id),
        "text": path.text,
        "seed": path.seed,
        "tokens": path.tokens,
        "question_text": question.text,
        "kind": question.kind,
        **({name: getattr(path.known[1], name) for name in SUMMARY} if path.known is not None else {}),
    }


def _float16(name: str, path: RecordedPath, question: str) -> Any:
    """A signal as float16, which holds numbers up to 65,504; None if the path has none."""
    if path.signals != "tokens":
        return None
    values = np.asarray(getattr(path, name))
    if len(values) and float(np.abs(values).max()) > 65_504.0:
        raise TraceError(f"question {question!r}: {name} holds numbers above 65,504, which are not confidences")
    return values.astype(np.float16)


# -- folders of parts

MARKER: Final = "made-by-sureenough-record"
PART: Final = "part-{:05d}.parquet"
_UNFINISHED: Final = re.compile(r"\.?part-\d{5,}\.parquet(\.part|\.sureenough-part)?")


class FolderReplacement:
    """Writes the new parts in a hidden folder beside the output; the older ones move there before they are removed.

    The hidden folder has a marker: one without it belongs to somebody else, and is refused.
    """

    def __init__(self, output: Path) -> None:
        self.output = output
        self._hidden = output.with_name(f".{output.name}.sureenough")
        self._new, self._older = self._hidden / "new", self._hidden / "older"

    def recover(self) -> None:
        """Undo or finish the replacement of a process that was killed."""
        if not os.path.lexists(self._hidden):
            return
        if self._hidden.is_symlink() or not self._hidden.is_dir() or not self._is_ours():
            raise TraceError(f"{self._hidden} was not made by `sureenough record`; move it, or name another output")
        if self._older.exists():
            if not os.path.lexists(self.output):
                os.replace(self._older, self.output)
            elif self._new.exists():  # the killed process had no time to rename it, so the output came from elsewhere
                raise TraceError(f"{self._older} holds what was at {self.output} before; move one of the two elsewhere")
            else:
                _remove(self._older, set(filter(is_part, os.listdir(self._older))))
        self._clear()

    def begin(self) -> Path:
        """An empty folder for the new parts."""
        self.recover()
        self._hidden.mkdir()
        (self._hidden / MARKER).touch()
        self._new.mkdir()
        return self._new

    def publish(self, replaced: Collection[str]) -> None:
        """Give the new folder its name. The output is missing, or holds the files `replaced` and no others."""
        sync_folder(self._new)
        if os.path.lexists(self.output):
            for name in os.listdir(self.output):
                if name not in replaced:
                    raise _stranger(self.output / name)
            os.replace(self.output, self._older)
            sync_folder(self._hidden)
        os.replace(self._new, self.output)
        sync_folder(self.output.parent)
        if self._older.exists():
            _remove(self._older, replaced)
        self._clear()

    def _is_ours(self) -> bool:
        """It has the marker; it is empty if a process was killed before making it."""
        return (self._hidden / MARKER).is_file() or not os.listdir(self._hidden)

    def _clear(self) -> None:
        if self._new.exists():
            _remove(self._new, set(filter(_UNFINISHED.fullmatch, os.listdir(self._new))))
        _remove(self._hidden, {MARKER})


def _remove(folder: Path, names: Collection[str]) -> None:
    """Remove a folder that holds these files; one that holds others stays as it is."""
    for name in os.listdir(folder):
        if name not in names:
            raise _stranger(folder / name)
    for name in names:
        (folder / name).unlink(missing_ok=True)
    folder.rmdir()


def _stranger(file: Path) -> TraceError:
    return TraceError(f"{file} is not a part of the pool; move it elsewhere, and give the same command again")
