"""A pool is read question by question, a bounded batch of rows at a time, so memory does not grow with the pool.

Its files are one or a folder of parts, on this machine or on any file system that pyarrow knows.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from html import escape
from itertools import pairwise, repeat
from math import inf
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import unquote

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs

from sureenough.core.events import Summary
from sureenough.core.options import choose_window
from sureenough.errors import TraceError, UsageError
from sureenough.pools.footer import Footer, read_footer
from sureenough.pools.path import Question, RecordedPath, Signals
from sureenough.pools.schema import KEY, OPTIONAL, REQUIRED, SUMMARY, PoolInfo
from sureenough.redact import HIDDEN, first_line, redact

Row = dict[str, Any]
BATCH: Final = 512
"""Rows decoded at once."""
READ_ROWS: Final = 1 << 16
"""Rows of the column of questions alone that are read at once."""
SKIPPING: Final = "--skip-damaged of replay, or skip_damaged = true in a plan,"
QUESTIONS: Final = (".csv", ".tsv", ".json", ".jsonl")
"""Files of questions, which are not pools yet."""
COLUMNS: Final = REQUIRED | OPTIONAL
"""What is read of a pool, as far as it is there."""
SHARED: Final = ("model", "k", "logprobs", "sampling", "prompt", "kind")
"""What the parts of a pool must have in common; datasets may differ, if each part was recorded from its own file."""
SCHEMES: Final = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
WHAT_A_POOL_IS: Final = (
    "a pool is a Parquet file of paths that a model has sampled: `sureenough record questions.csv -o pool.parquet` "
    "makes one from a file of questions"
)
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # two letters: C:/ is a drive


@dataclass(frozen=True, slots=True)
class PoolPart:
    """A Parquet file of recorded paths."""

    name: str  # in messages
    path: str  # on its file system
    filesystem: fs.FileSystem | None  # None: this machine's

    def open(self) -> pq.ParquetFile:
        return self.open_checked()[0]

    def open_checked(self) -> tuple[pq.ParquetFile, Footer]:
        """The file and its footer, which promises no more than a file of its size can hold."""
        if self.filesystem is None and os.path.exists(self.path) and not os.path.isfile(self.path):
            raise TraceError(f"{self.name} is not a regular file; copy its content to one")
        try:
            file = (self.filesystem or fs.LocalFileSystem()).open_input_file(self.path)
            footer = read_footer(file, self.name)
            parquet = pq.ParquetFile(file)
            _ = parquet.schema_arrow.names  # which may not be UTF-8
            return parquet, footer
        except UnicodeEncodeError:
            name = self.name.encode(errors="backslashreplace").decode()
            raise TraceError(f"{name}: its name is not UTF-8 text; rename it") from None
        except (PermissionError, FileNotFoundError) as error:
            raise TraceError(
                f"{self.name} cannot be read ({first_line(error)}); check its permissions and links"
            ) from None
        except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
            raise TraceError(
                f"{self.name} is not a whole Parquet file ({first_line(error).rstrip('.')}); "
                "give a pool of recorded paths, and copy it again if it was cut"
            ) from None

    @contextmanager
    def decoding(self) -> Iterator[None]:
        """Errors of columns that are read whole."""
        try:
            yield
        except (pa.ArrowException, OSError) as error:
            raise TraceError(f"{self.name} cannot be decoded ({first_line(error)}); record it again") from None

    def digest(self) -> str:
        """SHA-256 of the file."""
        content = hashlib.sha256()
        with self.decoding(), (self.filesystem or fs.LocalFileSystem()).open_input_stream(self.path) as stream:
            while block := stream.read(1 << 20):
                content.update(block)
        return content.hexdigest()

    def info(self, parquet: pq.ParquetFile | None = None) -> PoolInfo:
        return PoolInfo.parse(((parquet or self.open()).schema_arrow.metadata or {}).get(KEY), self.name)

    def columns(self, schema: pa.Schema) -> dict[str, pa.DataType]:
        """The columns to read; refuses a file that is not a pool."""
        missing = [name for name in REQUIRED if name not in schema.names]
        if missing:
            raise TraceError(
                f"{self.name} has no column {', '.join(missing)}; a pool needs {', '.join(REQUIRED)}: {WHAT_A_POOL_IS}"
            )
        columns = {name: schema.field(name).type for name in COLUMNS if name in schema.names}
        for name, kind in columns.items():
            if not _is_readable(kind, COLUMNS[name]):
                wanted = str(COLUMNS[name]).replace("list<element: halffloat>", "a list of floats")
                raise TraceError(f"{self.name}: column {name} is {kind}; it must be {wanted}")
        return columns


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
        self.tokens = 0
        shared: dict[str, Any] = {}
        infos: list[PoolInfo] = []
        for part in self.parts:
            parquet, footer = part.open_checked()
            self._columns = part.columns(parquet.schema_arrow)
            infos.append(part.info(parquet))
            own = _shared(self._columns, infos[-1])
            for name, before in shared.items():
                if own[name] != before:
                    raise TraceError(
                        f"{part.name} has {name} {own[name]!r:.200}, {self.parts[0].name} has {before!r:.200}; "
                        "the parts of a pool need the same: keep them in two folders"
                    )
            shared = own
            self._firsts.append(self._firsts[-1] + parquet.metadata.num_rows)
            self.tokens += footer.listed("conf")
        self.rows = self._firsts[-1]
        if self.rows == 0:
            raise TraceError(f"{self.name} holds no paths; record some with `sureenough record`")
        differing: dict[str, Any] = {
            name: None for name in ("dataset", "window") if len({getattr(info, name) for info in infos}) > 1
        }
        self.info = replace(infos[0], **differing)
        self.signals: Signals = "tokens"
        if not self.tokens and "tokens" in self._columns:
            self.signals = "summaries" if SUMMARY[0] in self._columns else "none"
            self.tokens = sum(self.lengths())
        if self.signals == "summaries" and self.info.window is None:
            raise TraceError(f"{self.name} has values of windows, but its metadata has not one window; name it there")

    def __iter__(self) -> Iterator[Question]:
        """Question after question, in the order of the files and their rows."""
        return self.part(0, self.rows)

    def _repr_html_(self) -> str:
        """What it holds, as a table for notebooks."""
        facts = {"Pool": self.name, "Dataset": self.info.dataset, "Model": self.info.model,
                 "Paths": f"{self.rows:,}", "Tokens": f"{self.tokens:,}"}  # fmt: skip
        rows = (f"<tr><th>{name}</th><td>{escape(fact or 'unknown')}</td></tr>" for name, fact in facts.items())
        return f"<table>{''.join(rows)}</table>"

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
                    runs = pc.run_end_encode(batch.column(0).cast(pa.large_binary()))
                    ends = runs.run_ends.to_pylist()
                    for at, name in zip([0, *ends], runs.values.to_pylist(), strict=False):
                        if name == current:
                            continue  # it goes on from the batch before
                        if name in files:
                            text = None if name is None else name.decode(errors="replace")
                            raise self._scattered(text, files[name], number)
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
                names = ["tokens"] if self.signals != "tokens" else ["conf"]
                for batch in self._open(number).iter_batches(BATCH, columns=names):
                    column = batch.column(0)
                    known = column if names == ["tokens"] else pc.list_value_length(column)
                    lengths.append(known.drop_null().to_numpy().astype(np.int32))
        return np.concatenate(lengths).tolist()  # type: ignore[no-any-return]

    def part(self, first: int, last: int) -> Iterator[Question]:
        """The questions from row `first` up to row `last`, both where a question starts."""
        self.damaged = 0
        finished: dict[str, int] = {}
        question: Question | None = None
        for number in range(len(self.parts)):
            for row, path in self._rows(number, first, last):
                name = row["question"]
                if question is None or (name, number) != (question.id, question.part):
                    if question is not None:
                        finished[question.id] = question.part
                        yield question
                    if name in finished:
                        raise self._scattered(name, finished[name], number)
                    more = row.get("question_text"), row.get("kind")
                    question = Question(name, row["gold"], row["level"], [], *more, number)
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

    def _rows(self, number: int, first: int, last: int) -> Iterator[tuple[Row, RecordedPath]]:
        """The rows of one part that lie between two rows of the pool."""
        part, (begin, end) = self.parts[number], self._firsts[number : number + 2]
        if begin >= last or end <= first:
            return
        parquet = self._open(number)
        first, last, following = first - begin, last - begin, 0  # from here on, rows of the part
        for group in range(parquet.num_row_groups):
            row, following = following, following + parquet.metadata.row_group(group).num_rows
            if following <= first or row >= last:
                continue
            try:
                for batch in parquet.iter_batches(BATCH, row_groups=[group], columns=list(self._columns)):
                    low, high = max(0, first - row), min(batch.num_rows, last - row)
                    if low < high:
                        yield from self._decode(part, batch.slice(low, high - low), row + low)
                    row += batch.num_rows
            except (pa.ArrowException, OSError) as error:
                if not self.skip_damaged:
                    raise TraceError(
                        f"{part.name}: rows from {row} on cannot be decoded ({first_line(error)}); {SKIPPING} reads "
                        "the rest"
                    ) from None
                self.damaged += following - row

    def _decode(self, part: PoolPart, batch: pa.RecordBatch, start: int) -> Iterator[tuple[Row, RecordedPath]]:
        columns = [
            _signals(column) if name in ("peak", "conf") else _values(column)
            for name, column in zip(batch.schema.names, batch.columns, strict=True)
        ]
        for number, values in enumerate(zip(*columns, strict=True), start):
            row = dict(zip(batch.schema.names, values, strict=True))
            try:
                path = _recorded(row, self.info.window)
            except UsageError as error:
                if not self.skip_damaged:
                    problem = f"{part.name}, row {number}: {error}"
                    raise TraceError(f"{problem}; {SKIPPING} leaves such rows out") from None
                self.damaged += 1
            else:
                yield row, path


def _recorded(row: Row, window: int | None) -> RecordedPath:
    """The path of a row; without signals, it may have their summary at the pool's window.

    Raises:
        UsageError: the row is damaged.
    """
    broken = [name for name, value in row.items() if value is NOT_TEXT]
    if broken:
        raise UsageError(f"its {broken[0]} is not UTF-8 text")
    if row["question"] is None:
        raise UsageError("it has no question")
    bare = row["peak"] is None and row["conf"] is None and row.get("tokens") is not None
    if not bare and (row["peak"] is None or row["conf"] is None):
        raise UsageError("it has no signals")
    values = row["answer"], row["peak"], row["conf"], row["path"], row["finish"] or "stop"
    more: Row = {"tokens": row["tokens"]} if bare else {}
    if bare and window is not None and row.get(SUMMARY[0]) is not None:
        known: dict[str, Any] = {name: row[name] for name in SUMMARY if row[name] is not None}
        if any(value < 0.0 or value == inf for value in known.values()):
            raise UsageError(f"its values of windows are {known}; none may be negative or infinite")
        more["known"] = window, Summary(row["tokens"], **known)
    return RecordedPath(*values, row.get("text"), row.get("seed"), **more)


def _signals(column: pa.ListArray) -> Iterator[Any]:
    """Each row's values as float64, None if the row has none."""
    if pa.types.is_null(column.type):
        yield from repeat(None, len(column))
        return
    values = column.values.to_numpy(zero_copy_only=False).astype(np.float64)
    offsets = column.offsets.to_numpy()
    valid = column.is_valid().to_numpy(zero_copy_only=False)
    for i, (start, end) in enumerate(pairwise(offsets)):
        yield values[start:end].copy() if valid[i] else None


NOT_TEXT: Final = object()
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
        return NOT_TEXT


# -- the files of a pool


def pool_parts(location: str | Path) -> tuple[str, list[PoolPart]]:
    """A pool's name in messages and its files, in the order of their names."""
    address = _ADDRESS.fullmatch(str(location))
    if address is not None:
        return _remote_parts(*address.groups())
    return _local_parts(str(location), Path(location))


def _local_parts(name: str, file: Path) -> tuple[str, list[PoolPart]]:
    try:
        file.stat()
        if file.suffix.lower() in QUESTIONS:
            raise TraceError(f"{name} is not a pool; {WHAT_A_POOL_IS}")
        if not file.is_dir():
            return name, [PoolPart(name, str(file), None)]
        files = sorted(entry.name for entry in file.iterdir() if is_part(entry.name) and not entry.is_dir())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise TraceError(f"no such file: {name}; {WHAT_A_POOL_IS}") from None
    except OSError as error:
        raise TraceError(f"{name} cannot be read: {error.strerror or error}") from None
    return name, _parts_in(name, [(part, str(file / part)) for part in files], None)


def is_pool(location: str | Path) -> bool:
    """Whether this names recorded paths, not a folder of runs: a Parquet file, a folder of parts, or a URI."""
    file = Path(location)
    has_parts = os.path.isdir(file) and any(is_part(entry.name) for entry in file.iterdir())
    return is_address(location) or has_parts or file.suffix == ".parquet"


def is_address(location: str | Path) -> bool:
    return _ADDRESS.fullmatch(str(location)) is not None


def is_part(name: str) -> bool:
    """Whether a file of a folder is part of the pool; others, such as `_SUCCESS`, may lie beside them."""
    return name.endswith(".parquet") and not name.startswith(("_", "."))


def _remote_parts(scheme: str, rest: str) -> tuple[str, list[PoolPart]]:
    """The files behind a URI. A `Path` has joined its slashes, so they are written again."""
    root = "/" if scheme.lower() == "file" else ""
    place = re.split(r"[?#]", rest, maxsplit=1)[0]
    query = rest.removeprefix(place)
    if _has_secrets(scheme.lower(), place, query):
        raise TraceError(
            f"the address {scheme}://… must not contain secrets: leave user and password out, and keys and signatures, "
            "and give them as the file system's own settings do, such as AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY "
            "(an @ in the name of a file is %40)"
        )
    uri, name = f"{scheme}://{root}{rest}", f"{scheme}://{root}{place}"
    try:
        filesystem, path = fs.FileSystem.from_uri(uri)
        if isinstance(filesystem, fs.LocalFileSystem):
            return _local_parts(name, Path(path))
        entry = filesystem.get_file_info(path)
        if entry.type == fs.FileType.File:
            return name, [PoolPart(name, path, filesystem)]
        entries = filesystem.get_file_info(fs.FileSelector(path)) if entry.type == fs.FileType.Directory else None
    except (pa.ArrowException, OSError, ValueError) as error:
        # For other schemes, the text may quote the address in any form.
        reason = first_line(error, uri, query) if scheme.lower() in SCHEMES else type(error).__name__
        raise TraceError(f"{name} cannot be opened ({reason}); check the address and your access") from None
    if entries is None:
        raise TraceError(f"no such file: {name}; {WHAT_A_POOL_IS}")
    files = sorted((one.base_name, one.path) for one in entries if one.is_file and is_part(one.base_name))
    return name, _parts_in(name, files, filesystem)


def _has_secrets(scheme: str, place: str, query: str) -> bool:
    """Whether an address may hold a password, a key or a signature."""
    query = unquote("?" + query[1:])
    if HIDDEN in redact(query) or "@" in query:
        return True
    host = unquote(place.partition("/")[0])
    return scheme != "file" and ("@" in place or re.fullmatch(r"[^@:]*(:\d*)?", host) is None)


def _parts_in(folder: str, files: list[tuple[str, str]], filesystem: fs.FileSystem | None) -> list[PoolPart]:
    if not files:
        raise TraceError(f"{folder} is a folder without .parquet files; name a pool: one file, or a folder of parts "
                         "such as part-00000.parquet")  # fmt: skip
    return [PoolPart(f"{folder.rstrip('/')}/{name}", path, filesystem) for name, path in files]


def _shared(columns: dict[str, pa.DataType], info: PoolInfo) -> dict[str, Any]:
    """What the parts of a pool must have in common."""
    types = {f"column {name}": str(columns.get(name, "none")) for name in COLUMNS}
    return {name: getattr(info, name) for name in SHARED} | types


def _is_readable(kind: pa.DataType, own: pa.DataType) -> bool:
    """Whether values of this type are read as those of our own: floats, integers and texts of any width."""
    types = pa.types
    if types.is_null(kind):
        return True
    if types.is_floating(own):
        return bool(types.is_floating(kind))
    if types.is_list(own):
        is_list = types.is_list(kind) or types.is_large_list(kind)
        return bool(is_list and types.is_floating(kind.value_type))
    has_width = (
        types.is_integer(kind) if types.is_integer(own) else types.is_string(kind) or types.is_large_string(kind)
    )
    return bool(has_width)
