"""A pool is read question by question, a bounded batch of rows at a time, so memory does not grow with the pool."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sureenough.core.options import choose_window
from sureenough.errors import TraceError
from sureenough.pools.path import RecordedPath, RecordedProbe
from sureenough.pools.schema import KEY, REQUIRED, PoolInfo

BATCH: Final = 512
"""Rows decoded at once."""


QUESTIONS: Final = (".csv", ".tsv", ".json", ".jsonl")
"""Files of questions, which are not pools yet."""


def _what_a_pool_is(questions: str) -> str:
    return (
        "a pool is a Parquet file of paths that a model has sampled: "
        f"`sureenough record {questions} -o pool.parquet` makes one from a file of questions"
    )


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """All recorded paths of one question."""

    id: str
    gold: str | None
    level: int | None
    paths: list[RecordedPath]
    text: str | None = None  # the question as it was written
    kind: str | None = None  # of answer, if not the pool's


class Pool:
    """A file of recorded paths."""

    def __init__(self, file: str | Path, *, skip_damaged: bool = False) -> None:
        self.file = Path(file)
        self.skip_damaged = skip_damaged
        self.damaged = 0  # rows left out by the latest pass over the pool
        parquet = self._open()
        self.rows: int = parquet.metadata.num_rows
        if self.rows == 0:
            raise TraceError(f"{self.file} holds no paths; record some with `sureenough record`")
        self._columns = self._checked_columns(parquet.schema_arrow)
        self.tokens: int = _count_values("conf", parquet)  # by the file's footer, nulls included
        self.info = PoolInfo.parse((parquet.schema_arrow.metadata or {}).get(KEY), str(self.file))

    def __iter__(self) -> Iterator[Question]:
        """Question after question, in the file's order."""
        return self.part(0, self.rows)

    def starts(self) -> list[int]:
        """The row at which each question starts; refuses questions whose rows are not together."""
        ids = self._open().read(columns=["question"]).column(0).combine_chunks().dictionary_encode()
        numbers = ids.indices.fill_null(-1).to_numpy(zero_copy_only=False)
        starts = np.flatnonzero(np.diff(numbers, prepend=-2))
        if len(starts) != len(np.unique(numbers)):
            twice = next(n for i, n in enumerate(numbers[starts]) if n in numbers[starts][:i])
            raise self._scattered(ids.dictionary[int(twice)].as_py() if twice >= 0 else None)
        rows: list[int] = starts.tolist()
        return rows

    def window(self) -> int:
        """Tokens per window: what the pool suggests, else chosen from the lengths of all its paths."""
        return self.info.window or choose_window(self._lengths())

    def _lengths(self) -> list[int]:
        """Whoever reads the paths reports damage; here it is left out."""
        lengths: list[int] = []
        with suppress(pa.ArrowException, OSError):
            for batch in self._open().iter_batches(BATCH, columns=["conf"]):
                lengths += pc.list_value_length(batch.column(0)).drop_null().to_pylist()
        return lengths

    def part(self, first: int, last: int) -> Iterator[Question]:
        """The questions from row `first` up to row `last`, both where a question starts."""
        self.damaged = 0
        finished: set[str] = set()
        question: Question | None = None
        for row in self._rows(first, last):
            if question is None or row.question != question.id:
                if question is not None:
                    yield question
                if row.question in finished:
                    raise self._scattered(row.question)
                finished.add(row.question)
                question = Question(row.question, row.gold, row.level, [], row.question_text, row.kind)
            question.paths.append(row.path)
        if question is None:
            raise TraceError(f"{self.file}: all of its {self.rows} rows are damaged; record the pool again")
        yield question

    def _scattered(self, question: str | None) -> TraceError:
        return TraceError(f"{self.file}: the rows of question {question!r} are not together; sort the pool by question")

    def _open(self) -> pq.ParquetFile:
        questions = self.file.name if self.file.suffix.lower() in QUESTIONS else "questions.csv"
        if not self.file.exists():
            raise TraceError(f"no such file: {self.file}; {_what_a_pool_is(questions)}")
        if questions == self.file.name:
            raise TraceError(f"{self.file} is not a pool; {_what_a_pool_is(questions)}")
        if self.file.is_dir():
            raise TraceError(f"{self.file} is a folder; name the Parquet file in it")
        try:
            return pq.ParquetFile(self.file)
        except PermissionError:
            raise TraceError(f"{self.file} may not be read; check its permissions") from None
        except (pa.ArrowInvalid, OSError) as error:
            raise TraceError(
                f"{self.file} is not a whole Parquet file ({_first_line(error)}); was it cut while being copied?"
            ) from None

    def _checked_columns(self, schema: pa.Schema) -> list[str]:
        missing = [name for name in REQUIRED if name not in schema.names]
        if missing:
            raise TraceError(
                f"{self.file} has no column {', '.join(missing)}; a pool needs {', '.join(REQUIRED)}: "
                + _what_a_pool_is(self.file.name)
            )
        for name in ("peak", "conf"):
            kind = schema.field(name).type
            if not _is_list_of_floats(kind):
                raise TraceError(f"{self.file}: column {name} is {kind}; it must be a list of floats")
        for name in ("question", "gold", "answer", "finish", "text", "question_text", "kind"):
            if name not in schema.names:
                continue
            kind = schema.field(name).type
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
                raise TraceError(f"{self.file}: column {name} is {kind}; it must be a string")
        return [name for name in (*REQUIRED, "text", "seed", "question_text", "kind", "probes") if name in schema.names]

    def _rows(self, first: int, last: int) -> Iterator[_Row]:
        parquet, start = self._open(), 0
        for group in range(parquet.num_row_groups):
            size = parquet.metadata.row_group(group).num_rows
            decoded = 0
            if start + size <= first or start >= last:
                start += size
                continue
            try:
                for batch in parquet.iter_batches(BATCH, row_groups=[group], columns=self._columns):
                    low, high = max(0, first - start - decoded), min(batch.num_rows, last - start - decoded)
                    if low < high:
                        yield from self._decode(batch.slice(low, high - low), start + decoded + low)
                    decoded += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                if not self.skip_damaged:
                    raise TraceError(
                        f"{self.file}: rows from {start + decoded} on cannot be decoded ({_first_line(error)}); "
                        "--skip-damaged reads the rest"
                    ) from None
                self.damaged += size - decoded
            start += size

    def _decode(self, batch: pa.RecordBatch, start: int) -> Iterator[_Row]:
        columns = {name: _values(batch.column(name)) for name in self._columns if name not in ("peak", "conf")}
        peaks, confs = _signals(batch.column("peak")), _signals(batch.column("conf"))
        for i, (peak, conf) in enumerate(zip(peaks, confs, strict=True)):
            row = {name: column[i] for name, column in columns.items()}
            problem = _row_problem(row, peak, conf)
            if problem is None:
                yield _row(row, peak, conf)
            elif self.skip_damaged:
                self.damaged += 1
            else:
                raise TraceError(f"{self.file}, row {start + i}: {problem}; --skip-damaged leaves such rows out")


@dataclass(frozen=True, slots=True, eq=False)
class _Row:
    question: str
    gold: str | None
    level: int | None
    path: RecordedPath
    question_text: str | None
    kind: str | None


def _row(values: dict[str, Any], peak: Any, conf: Any) -> _Row:
    path = RecordedPath(
        values["answer"],
        peak,
        conf,
        number=values["path"],
        finish=values["finish"] or "stop",
        text=values.get("text"),
        seed=values.get("seed"),
        probes=values.get("probes"),
    )
    return _Row(
        values["question"], values["gold"], values["level"], path, values.get("question_text"), values.get("kind")
    )


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
    """What is wrong with a row, if anything; its probes are parsed on the way."""
    broken = [name for name, value in row.items() if isinstance(value, _NotText)]
    if broken:
        return f"its {broken[0]} is not UTF-8 text"
    if row["question"] is None:
        return "it has no question"
    if peak is None or conf is None:
        return "it has no signals"
    try:
        row["probes"] = RecordedProbe.of(row.get("probes"))
    except ValueError as error:
        return f"its probes cannot be read ({error})"
    if len(peak) != len(conf):
        return f"peak has {len(peak)} values and conf {len(conf)}; both need one per token"
    if not (np.isfinite(peak).all() and np.isfinite(conf).all()):
        return "its signals hold NaN or infinite values"
    return None


def _count_values(name: str, parquet: pq.ParquetFile) -> int:
    """The number of values in the lists of a column, from the footer alone."""
    metadata = parquet.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    return sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] == name)


def _is_list_of_floats(kind: pa.DataType) -> bool:
    a_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(a_list and pa.types.is_floating(kind.value_type))


def _first_line(error: BaseException) -> str:
    return str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
