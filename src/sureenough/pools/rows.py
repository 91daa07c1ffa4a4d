"""Rows of a pool, decoded from a batch of columns; a damaged row is described, not raised."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from sureenough.pools.path import RecordedPath


@dataclass(frozen=True, slots=True, eq=False)
class Question:
    """All recorded paths of one question."""

    id: str
    gold: str | None
    level: int | None
    paths: list[RecordedPath]
    text: str | None = None  # the question as it was written
    kind: str | None = None  # of answer, if not the pool's
    part: int = 0  # which file of the pool holds it


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
