"""Files of questions: JSON lines, a JSON array, CSV, TSV or Parquet, all with the same column names.

A file whose columns have other names is read with a map. Errors name the row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from math import isnan
from pathlib import Path
from typing import Any, Final, NamedTuple

from sureenough.answers import resolve_kind
from sureenough.errors import UsageError
from sureenough.json_text import HOLDS_HALF, has_halves

COLUMNS: Final = {
    "id": ("id",),
    "question": ("question", "problem"),
    "gold": ("gold", "answer"),
    "kind": ("kind",),
    "level": ("level",),
}
"""The fields of a row, and the columns in which they are looked for."""

Row = Mapping[str, Any]
RowAt = tuple[str, Row]
"""A row and its place, such as "line 3"."""


class DatasetProblem(NamedTuple):
    """A question of a file; None for fields that the file does not have."""

    id: str
    question: str
    gold: str | None = None
    kind: str | None = None
    level: int | None = None


def load(file: Path, columns: Mapping[str, str] | None = None) -> list[DatasetProblem]:
    """All questions of a file; `columns` maps our names to its own: {"question": "problem", "gold": "solution"}."""
    return [problem for _, problem in parsed(rows_of(file), columns, str(file))]


def rows_of(file: Path) -> Iterator[RowAt]:
    """The rows of a file with their places."""
    reader = READERS.get(file.suffix.lower())
    if reader is None:
        raise UsageError(f"{file}: a file of questions ends in {', '.join(READERS)}")
    try:
        for place, row in reader(file):
            if not isinstance(row, dict):
                raise UsageError(f"{file}, {place} is not a question; {EXAMPLE}")
            yield place, row
    except UnicodeDecodeError:
        raise UsageError(f"{file} is not UTF-8 text: convert it, for example with `iconv -f latin1 -t utf-8`") from None
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror or error}") from None


def parsed(
    rows: Iterable[RowAt], columns: Mapping[str, str] | None, source: str, *, prefix: str = ""
) -> Iterator[tuple[str, DatasetProblem]]:
    """Rows as questions, each with its place; rows without ids get numbers with a prefix."""
    places = COLUMNS | {name: (column,) for name, column in _check_names(columns or {}).items()}
    ids: set[str] = set()
    for number, (place, row) in enumerate(rows, start=1):
        where = f"{source}, {place}"
        problem = _problem(row, f"{prefix}{number}", places, columns or {}, where)
        if problem.kind is not None:
            try:
                resolve_kind(problem.kind, registered_only=True)  # a file must not import code
            except UsageError as error:
                raise UsageError(f"{where}: {error}") from None
        if problem.id in ids:
            raise UsageError(f"{where}: the id {problem.id!r} is used twice; ids must differ")
        ids.add(problem.id)
        yield place, problem
    if not ids:
        raise UsageError(
            f"{source} holds no questions; it needs a column named question (or problem), and one row per question"
        )


def columns_of(text: str | None) -> dict[str, str]:
    """A map written as `question=problem,gold=answer`."""
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    incomplete = next((name for name, _, column in pairs if not name.strip() or not column.strip()), None)
    if incomplete is not None:
        raise UsageError(f"{text!r} is not a map of columns; write question=problem,gold=answer")
    return _check_names({name.strip(): column.strip() for name, _, column in pairs})


def _check_names(columns: Mapping[str, str]) -> dict[str, str]:
    unknown = [name for name in columns if name not in COLUMNS]
    if unknown:
        raise UsageError(f"unknown field {unknown[0]!r} to map; known: {', '.join(COLUMNS)}")
    return dict(columns)


# -- rows


def _problem(
    row: Row, number: str, places: Mapping[str, Sequence[str]], mapped: Mapping[str, str], where: str
) -> DatasetProblem:
    missing = next((column for column in mapped.values() if column not in row), None)
    if missing is not None:
        raise UsageError(f"{where} has no column {missing!r}; it has {', '.join(map(str, row)) or 'none'}")
    values = {name: _value(row, at) for name, at in places.items()}
    question = values["question"]
    if question is None:
        one_cell = len(row) == 1 and any(mark in str(*row) for mark in ";\t|")  # spreadsheets may write such CSV
        fix = (
            "separate the columns by commas"
            if one_cell
            else "name its column with --map question=COLUMN, or as columns in a plan of bench"
        )
        raise UsageError(
            f"{where} has no question; it has {', '.join(map(str, row)) or 'nothing'}, not "
            f"{' or '.join(places['question'])}: {fix}"
        )
    if not isinstance(question, str):
        raise UsageError(f"{where}: the question is {_short(question)}, which is not text")
    texts = {name: _text(name, values[name], where) for name in ("id", "gold", "kind")}
    level = _level(values["level"], where)
    broken = next((name for name, text in {"question": question, **texts}.items() if text and has_halves(text)), None)
    if broken is not None:
        raise UsageError(f"{where}: the {broken} {HOLDS_HALF}")
    return DatasetProblem(texts["id"] or number, question, texts["gold"], texts["kind"], level)


def _value(row: Row, places: Sequence[str]) -> Any:
    """The first of these columns with a value; empty cells and NaN are no value."""
    for column in places:
        value = row.get(column)
        empty = value is None or (isinstance(value, str) and not value.strip())
        if not empty and not (isinstance(value, float) and isnan(value)):
            return value
    return None


def _text(name: str, value: Any, where: str) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool | dict | list | bytes):
        raise UsageError(f"{where}: {name} is {_short(value)}; it must be text or a number")
    return str(value).strip()


def _level(value: Any, where: str) -> int | None:
    """A small whole number, also written as "Level 5"."""
    if value is None:
        return None
    try:
        number = float(value.lower().removeprefix("level") if isinstance(value, str) else value)
        if isinstance(value, bool) or number != int(number) or not -128 <= number <= 127:
            raise ValueError
    except (ValueError, TypeError, OverflowError):
        raise UsageError(f"{where}: level is {_short(value)}; it must be a whole number from -128 to 127") from None
    return int(number)


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 40 else shown[:39] + "…"


# -- files


def _json_lines(file: Path) -> Iterator[RowAt]:
    # Only "\n" ends a line: text may contain the other characters at which Python splits lines.
    for number, line in enumerate(file.read_text("utf-8-sig").split("\n"), start=1):
        if line.strip():
            try:
                yield f"line {number}", json.loads(line)
            except (ValueError, RecursionError) as error:
                raise UsageError(f"{file}, line {number} is not a question ({error}); {EXAMPLE}") from None


def _json(file: Path) -> Iterator[RowAt]:
    text = file.read_text("utf-8-sig")
    if not text.lstrip().startswith("["):
        yield from _json_lines(file)
        return
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"{file} is not JSON: {error}") from None
    yield from _numbered(rows)


def _numbered(rows: Iterable[Row]) -> Iterator[RowAt]:
    return ((f"row {number}", row) for number, row in enumerate(rows, start=1))


def _csv(file: Path, delimiter: str = ",") -> Iterator[RowAt]:
    with open(file, encoding="utf-8-sig", newline="") as handle:
        rows = csv.DictReader(handle, delimiter=delimiter, strict=True)
        try:
            for row in rows:
                place = f"line {rows.line_num}"
                if None in row:
                    raise UsageError(f"{file}, {place} has more cells than the header; quote text that contains commas")
                yield place, row
        except csv.Error as error:
            raise UsageError(f"{file}, line {rows.reader.line_num} is not CSV: {error}") from None


def _parquet(file: Path) -> Iterator[RowAt]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    open(file, "rb").close()  # so that an unreadable file raises the same error as in the other readers
    try:
        # By name and in this thread: an Arrow thread that holds a Python file aborts a process that is exiting.
        with pq.ParquetFile(file) as parquet:
            rows = parquet.read(use_threads=False).to_pylist()
    except pa.ArrowException as error:
        raise UsageError(f"{file} is not Parquet: {str(error).splitlines()[0]}") from None
    return _numbered(rows)


EXAMPLE: Final = 'a line looks like {"id": "1", "question": "…", "gold": "…", "level": 3}'
READERS: Final[dict[str, Callable[[Path], Iterator[RowAt]]]] = {
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".csv": _csv,
    ".tsv": partial(_csv, delimiter="\t"),
    ".parquet": _parquet,
}
