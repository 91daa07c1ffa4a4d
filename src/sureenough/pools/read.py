"""A pool is read question by question, a bounded batch of rows at a time, so memory does not grow with the pool."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sureenough.core.options import choose_window
from sureenough.errors import TraceError
from sureenough.pools.parts import PoolPart, check_same, count_values, joined_info, pool_parts
from sureenough.pools.path import Question, RecordedPath
from sureenough.pools.schema import PoolInfo
from sureenough.redact import first_line

BATCH: Final = 512
"""Rows decoded at once."""
READ_ROWS: Final = 1 << 16
"""Rows of the column of questions alone that are read at once."""
SKIPPING: Final = "--skip-damaged of replay, or skip_damaged = true in a plan,"


class Pool:
    """Recorded paths: a Parquet file or a folder of such files, on this machine or at a URI that pyarrow can open.

    Every question is in one file.
    """

    def __init__(self, file: str | Path, *, skip_damaged: bool = False) -> None:
        self.file = Path(file)
        self.skip_damaged = skip_damaged
        self.damaged = 0  # rows left out by the latest pass over the pool
        self.name, self.parts = pool_parts(file)
        self._firsts = [0]  # the row at which each part begins, and their end
        self.tokens = 0  # by the files' footers, nulls included
        infos: list[PoolInfo] = []
        columns: dict[str, pa.DataType] | None = None
        for part in self.parts:
            parquet = part.open()
            own = part.columns(parquet.schema_arrow)
            columns = own if columns is None else columns
            check_same(self.parts[0], columns, part, own)
            self._firsts.append(self._firsts[-1] + parquet.metadata.num_rows)
            self.tokens += count_values("conf", parquet)
            infos.append(part.info(parquet))
        self._columns = columns or {}
        self.rows = self._firsts[-1]
        self.info = joined_info(self.parts, infos)
        if self.rows == 0:
            raise TraceError(f"{self.name} holds no paths; record some with `sureenough record`")

    def __iter__(self) -> Iterator[Question]:
        """Question after question, in the order of the files and their rows."""
        return self.part(0, self.rows)

    def digest(self) -> str:
        """SHA-256 of the file; of a folder, that of its files' digests."""
        digests = [part.digest() for part in self.parts]
        return digests[0] if len(digests) == 1 else hashlib.sha256(" ".join(digests).encode()).hexdigest()

    def _open(self, number: int) -> pq.ParquetFile:
        """A part once more; refuses one that was replaced since the pool was opened."""
        part, rows = self.parts[number], self._firsts[number + 1] - self._firsts[number]
        parquet = part.open()
        if parquet.metadata.num_rows != rows or part.columns(parquet.schema_arrow) != self._columns:
            raise TraceError(f"{part.name} was replaced while the pool was being read; give the same command again")
        return parquet

    def starts(self) -> list[int]:
        """The row at which each question starts; refuses questions whose rows are not together."""
        starts: list[int] = []
        files: dict[bytes | None, int] = {}  # where each question is
        for number, part in enumerate(self.parts):
            row, current = self._firsts[number], cast(bytes | None, ...)
            with part.decoding():
                for batch in self._open(number).iter_batches(READ_ROWS, columns=["question"]):
                    for at, name in _changes(batch.column(0)):
                        if name == current:
                            continue  # it goes on from the batch before
                        if name in files:
                            raise self._scattered(_as_text(name), files[name], number)
                        files[name], current = number, name
                        starts.append(row + at)
                    row += batch.num_rows
        return starts

    def window(self) -> int:
        """Tokens per window: what the pool suggests, else chosen from the lengths of all its paths."""
        return self.info.window or choose_window(self.lengths())

    def lengths(self) -> list[int]:
        """Tokens of all paths. Whoever reads the paths reports damage; here it is left out."""
        lengths = [np.empty(0, np.int32)]
        for number in range(len(self.parts)):
            with suppress(pa.ArrowException, OSError):
                for batch in self._open(number).iter_batches(BATCH, columns=["conf"]):
                    lengths.append(pc.list_value_length(batch.column(0)).drop_null().to_numpy().astype(np.int32))
        return np.concatenate(lengths).tolist()  # type: ignore[no-any-return]

    def part(self, first: int, last: int) -> Iterator[Question]:
        """The questions from row `first` up to row `last`, both where a question starts."""
        self.damaged = 0
        finished: dict[str, int] = {}
        question: Question | None = None
        for number in range(len(self.parts)):
            for own, path in self._rows(number, first, last):
                if question is None or (own.id, number) != (question.id, question.part):
                    if question is not None:
                        finished[question.id] = question.part
                        yield question
                    if own.id in finished:
                        raise self._scattered(own.id, finished[own.id], number)
                    question = replace(own, part=number)
                question.paths.append(path)
        if question is None:
            raise TraceError(f"{self.name}: all of its {self.rows} rows are damaged; record the pool again")
        yield question

    def _scattered(self, question: str | None, before: int, now: int) -> TraceError:
        if before != now:
            return TraceError(
                f"question {question!r} is in {self.parts[before].name} and in {self.parts[now].name}; all paths of a "
                "question belong in one part: write them again with `sureenough record --rows-per-part`"
            )
        name = self.parts[now].name
        return TraceError(f"{name}: the rows of question {question!r} are not together; sort the pool by question")

    def _rows(self, number: int, first: int, last: int) -> Iterator[PoolRow]:
        """The rows of one part that lie between two rows of the pool."""
        part, start = self.parts[number], self._firsts[number]
        if start >= last or self._firsts[number + 1] <= first:
            return
        first, last, start = first - start, last - start, 0  # from here on, rows of the part
        parquet = self._open(number)
        for group in range(parquet.num_row_groups):
            size = parquet.metadata.row_group(group).num_rows
            decoded = 0
            if start + size <= first or start >= last:
                start += size
                continue
            try:
                for batch in parquet.iter_batches(BATCH, row_groups=[group], columns=list(self._columns)):
                    low, high = max(0, first - start - decoded), min(batch.num_rows, last - start - decoded)
                    if low < high:
                        yield from self._decode(part, batch.slice(low, high - low), start + decoded + low)
                    decoded += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                if not self.skip_damaged:
                    raise TraceError(
                        f"{part.name}: rows from {start + decoded} on cannot be decoded ({first_line(error)}); "
                        f"{SKIPPING} reads the rest"
                    ) from None
                self.damaged += size - decoded
            start += size

    def _decode(self, part: PoolPart, batch: pa.RecordBatch, start: int) -> Iterator[PoolRow]:
        for i, row in enumerate(decode_rows(batch, list(self._columns))):
            if not isinstance(row, str):
                yield row
            elif self.skip_damaged:
                self.damaged += 1
            else:
                raise TraceError(f"{part.name}, row {start + i}: {row}; {SKIPPING} leaves such rows out")


def _changes(ids: pa.Array) -> Iterator[tuple[int, bytes | None]]:
    """Where the value of a column differs from the one before, and the value; the first is one."""
    encoded = ids.cast(pa.large_binary()).dictionary_encode()
    numbers = encoded.indices.fill_null(-1).to_numpy(zero_copy_only=False)
    for at in np.flatnonzero(np.diff(numbers, prepend=-2)).tolist():
        number = int(numbers[at])
        yield at, None if number < 0 else encoded.dictionary[number].as_py()


def _as_text(name: bytes | None) -> str | None:
    return None if name is None else name.decode(errors="replace")


PoolRow = tuple[Question, RecordedPath]
"""A path, and its question without any."""


def decode_rows(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[PoolRow | str]:
    """The rows of a batch; if one is damaged, what is wrong with it."""
    columns = {name: _values(batch.column(name)) for name in names if name not in ("peak", "conf")}
    peaks, confs = _signals(batch.column("peak")), _signals(batch.column("conf"))
    for i, (peak, conf) in enumerate(zip(peaks, confs, strict=True)):
        row = {name: column[i] for name, column in columns.items()}
        problem = _row_problem(row, peak, conf)
        yield _row(row, peak, conf) if problem is None else problem


def _row(row: dict[str, Any], peak: Any, conf: Any) -> PoolRow:
    optional: dict[str, Any] = {name: row.get(name) for name in ("text", "seed")}
    path = RecordedPath(row["answer"], peak, conf, number=row["path"], finish=row["finish"] or "stop", **optional)
    return Question(row["question"], row["gold"], row["level"], [], row.get("question_text"), row.get("kind")), path


def _signals(column: pa.ListArray) -> Iterator[Any]:
    """Each row's values as float64, None if the row has none."""
    values = column.values.to_numpy(zero_copy_only=False).astype(np.float64)
    offsets = column.offsets.to_numpy()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    for i, (start, end) in enumerate(pairwise(offsets)):
        yield values[start:end].copy() if valid[i] else None


class _NotText:
    """Stands for bytes that are not UTF-8."""


def _values(column: pa.Array) -> list[Any]:
    """A column's values; bytes that are not UTF-8 spoil their own row only."""
    try:
        values: list[Any] = column.to_pylist()
    except UnicodeDecodeError:
        values = [_text(value) for value in column]
    return values


def _text(value: pa.Scalar) -> Any:
    try:
        return value.as_py()
    except UnicodeDecodeError:
        return _NotText()


def _row_problem(row: dict[str, Any], peak: Any, conf: Any) -> str | None:
    """What is wrong with a row, if anything."""
    broken = [name for name, value in row.items() if isinstance(value, _NotText)]
    if broken:
        return f"its {broken[0]} is not UTF-8 text"
    if row["question"] is None:
        return "it has no question"
    if peak is None or conf is None:
        return "it has no signals"
    if len(peak) != len(conf):
        return f"peak has {len(peak)} values and conf {len(conf)}; both need one per token"
    if not (np.isfinite(peak).all() and np.isfinite(conf).all()):
        return "its signals hold NaN or infinite values"
    return None
