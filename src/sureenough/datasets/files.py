"""Files of questions: JSON lines, a JSON array, CSV, TSV or Parquet, all with the same column names.

A file whose columns have other names is read with a map. Errors name the row.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
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


def load(
    file: Path,
    columns: Mapping[str, str] | None = None,
    *,
    source: str = "",
    prefix: str = "",
    read: Callable[[Row], Row] | None = None,
    check: Callable[[DatasetProblem], None] | None = None,
) -> list[DatasetProblem]:
    """All questions of a file.

    Args:
        file: JSON lines, a JSON array, CSV, TSV or Parquet.
        columns: maps our names to its own: {"question": "problem", "gold": "solution"}.
        source: what errors call the file.
        prefix: of the numbers of rows without ids.
        read: converts a row to our columns.
        check: refuses a question.
    """
    source, columns = source or str(file), _check_names(columns or {})
    problems: dict[str, DatasetProblem] = {}
    for place, row in _rows(file):
        try:
            problem = _problem(row if read is None else read(row), f"{prefix}{len(problems) + 1}", columns)
            if problem.kind is not None:
                resolve_kind(problem.kind, registered_only=True)  # a file must not import code
            if problem.id in problems:
                raise UsageError(f"the id {problem.id!r} is used twice; ids must differ")
            if check is not None:
                check(problem)
        except UsageError as error:
            raise UsageError(f"{source}, {place}: {error}") from None
        problems[problem.id] = problem
    if not problems:
        raise UsageError(
            f"{source} holds no questions; it needs a column named question (or problem), and one row per question"
        )
    return list(problems.values())


def _rows(file: Path) -> Iterator[RowAt]:
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


def columns_of(text: str | None, known: Collection[str] = COLUMNS) -> dict[str, str]:
    """A map written as `question=problem,gold=answer`."""
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    incomplete = next((name for name, _, column in pairs if not name.strip() or not column.strip()), None)
    if incomplete is not None:
        raise UsageError(f"{text!r} is not a map of columns; write question=problem,gold=answer")
    return _check_names({name.strip(): column.strip() for name, _, column in pairs}, known)


def _check_names(columns: Mapping[str, str], known: Collection[str] = COLUMNS) -> dict[str, str]:
    unknown = next((name for name in columns if name not in known), None)
    if unknown is not None:
        raise UsageError(f"unknown field {unknown!r} to map; known: {', '.join(known)}")
    return dict(columns)


# -- rows


def _problem(row: Row, number: str, columns: Mapping[str, str]) -> DatasetProblem:
    has = f"it has {', '.join(map(str, row)) or 'nothing'}"
    missing = next((column for column in columns.values() if column not in row), None)
    if missing is not None:
        raise UsageError(f"no column {missing!r}; {has}")
    places = COLUMNS | {name: (column,) for name, column in columns.items()}
    values = {name: _value(row, at) for name, at in places.items()}
    question = values["question"]
    if question is None:
        raise UsageError(
            f"no question; {has}, not {' or '.join(places['question'])}: separate the columns of CSV by commas, and "
            "name other columns with --map question=COLUMN, or as columns in a plan of bench"
        )
    if not isinstance(question, str):
        raise UsageError(f"the question is {question!r:.40}, which is not text")
    texts = {"question": question, **{name: as_text(name, values[name]) for name in ("id", "gold", "kind")}}
    broken = next((name for name, text in texts.items() if text and has_halves(text)), None)
    if broken is not None:
        raise UsageError(f"the {broken} {HOLDS_HALF}")
    return DatasetProblem(texts["id"] or number, question, texts["gold"], texts["kind"], _level(values["level"]))


def _value(row: Row, places: Sequence[str]) -> Any:
    """The first of these columns with a value; empty cells and NaN are no value."""
    values = (row.get(column) for column in places)
    filled = (value for value in values if value is not None and str(value).strip() and repr(value) != "nan")
    return next(filled, None)


def as_text(name: str, value: Any) -> str | None:
    if isinstance(value, bool | dict | list | bytes):
        raise UsageError(f"{name} is {value!r:.40}; it must be text or a number")
    return None if value is None else str(value).strip()


def _level(value: Any) -> int | None:
    """A small whole number, also written as "Level 5"."""
    if value is None:
        return None
    try:
        number = float(value.lower().removeprefix("level") if isinstance(value, str) else value)
        if not isinstance(value, bool) and -128 <= int(number) == number <= 127:
            return int(number)
    except (ValueError, TypeError, OverflowError):
        pass
    raise UsageError(f"level is {value!r:.40}; it must be a whole number from -128 to 127")


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
