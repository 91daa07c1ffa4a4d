"""The Parquet files of a pool: one, or a folder of parts, on this machine or on any file system that pyarrow knows."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow import fs

from sureenough.errors import TraceError
from sureenough.pools.schema import KEY, REQUIRED, PoolInfo
from sureenough.redact import HIDDEN, first_line, redact

QUESTIONS: Final = (".csv", ".tsv", ".json", ".jsonl")
"""Files of questions, which are not pools yet."""
COLUMNS: Final = (*REQUIRED, "text", "seed", "question_text", "kind")
"""What is read of a pool, as far as it is there."""
TEXTS: Final = ("question", "gold", "answer", "finish", "text", "question_text", "kind")
NUMBERS: Final = ("path", "seed", "level")
SHARED: Final = ("model", "k", "logprobs", "sampling", "prompt", "kind")
"""What the parts of a pool must have in common; datasets may differ, if each part was recorded from its own file."""
SCHEMES: Final = ("file", "s3", "gs", "gcs", "hdfs", "viewfs", "abfs", "abfss")
_ADDRESS: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/+(.*)", re.DOTALL)  # two letters: C:/ is a drive


@dataclass(frozen=True, slots=True)
class PoolPart:
    """A Parquet file of recorded paths."""

    name: str  # in messages
    path: str  # on its file system
    filesystem: fs.FileSystem | None  # None: this machine's

    def open(self) -> pq.ParquetFile:
        """The file, its footer read."""
        if self.filesystem is None and os.path.exists(self.path) and not os.path.isfile(self.path):
            raise TraceError(f"{self.name} is not a regular file; copy its content to one")
        try:
            return pq.ParquetFile(self.path, filesystem=self.filesystem)
        except UnicodeEncodeError:
            name = self.name.encode(errors="backslashreplace").decode()
            raise TraceError(f"{name}: its name is not UTF-8 text; rename it") from None
        except PermissionError:
            raise TraceError(f"{self.name} may not be read; check its permissions") from None
        except FileNotFoundError:
            raise TraceError(f"{self.name} does not exist, or is a link to a file that does not") from None
        except (pa.ArrowException, OSError) as error:
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
                f"{self.name} has no column {', '.join(missing)}; a pool needs {', '.join(REQUIRED)}: "
                + _what_a_pool_is(Path(self.name).name)
            )
        columns = {name: schema.field(name).type for name in COLUMNS if name in schema.names}
        for name in ("peak", "conf"):
            if not _is_list_of_floats(columns[name]):
                raise TraceError(f"{self.name}: column {name} is {columns[name]}; it must be a list of floats")
        for name in NUMBERS:
            kind = columns.get(name, pa.null())
            if not (pa.types.is_integer(kind) or pa.types.is_null(kind)):
                raise TraceError(f"{self.name}: column {name} is {kind}; it must hold integers")
        for name in TEXTS:
            kind = columns.get(name, pa.string())
            if not (pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_null(kind)):
                raise TraceError(f"{self.name}: column {name} is {kind}; it must be a string")
        return columns


def pool_parts(location: str | Path) -> tuple[str, list[PoolPart]]:
    """A pool's name in messages and its files, in the order of their names."""
    address = _ADDRESS.fullmatch(str(location))
    if address is not None:
        return _remote_parts(*address.groups())
    return _local_parts(str(location), Path(location))


def _local_parts(name: str, file: Path) -> tuple[str, list[PoolPart]]:
    questions = file.name if file.suffix.lower() in QUESTIONS else "questions.csv"
    try:
        file.stat()
        if questions == file.name:
            raise TraceError(f"{name} is not a pool; {_what_a_pool_is(questions)}")
        if not file.is_dir():
            return name, [PoolPart(name, str(file), None)]
        files = sorted(entry.name for entry in file.iterdir() if is_part(entry.name) and not entry.is_dir())
    except (FileNotFoundError, NotADirectoryError, ValueError):
        raise TraceError(f"no such file: {name}; {_what_a_pool_is(questions)}") from None
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
        raise TraceError(f"no such file: {name}; {_what_a_pool_is('questions.csv')}")
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


def check_same(first: PoolPart, columns: dict[str, pa.DataType], part: PoolPart, own: dict[str, pa.DataType]) -> None:
    """Refuse a part with other columns than the first."""
    for name in COLUMNS:
        if columns.get(name) != own.get(name):
            before, now = (f"{kind.get(name, 'missing')}" for kind in (columns, own))
            raise TraceError(
                f"{part.name}: column {name} is {now}, in {first.name} it is {before}; the parts of a pool need the "
                "same columns: record them with the same options, or keep them in two folders"
            )


def joined_info(parts: list[PoolPart], infos: list[PoolInfo]) -> PoolInfo:
    """What all parts say together; refuses parts that are not one pool."""
    first = infos[0]
    for part, info in zip(parts, infos, strict=True):
        for name in SHARED:
            before, now = getattr(first, name), getattr(info, name)
            if before != now:
                raise TraceError(
                    f"{part.name} was recorded with {name} {now!r}, {parts[0].name} with {before!r}; the parts of a "
                    "pool need the same: keep them in two folders"
                )
    dataset = first.dataset if all(info.dataset == first.dataset for info in infos) else None
    window = first.window if all(info.window == first.window for info in infos) else None
    return replace(first, dataset=dataset, window=window)


def _what_a_pool_is(questions: str) -> str:
    return (
        "a pool is a Parquet file of paths that a model has sampled: "
        f"`sureenough record {questions} -o pool.parquet` makes one from a file of questions"
    )


def count_values(name: str, parquet: pq.ParquetFile) -> int:
    """The number of values in the lists of a column, from the footer alone."""
    metadata = parquet.metadata
    groups = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    columns = [group.column(i) for group in groups for i in range(group.num_columns)]
    return sum(column.num_values for column in columns if column.path_in_schema.split(".")[0] == name)


def _is_list_of_floats(kind: pa.DataType) -> bool:
    a_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    return bool(a_list and pa.types.is_floating(kind.value_type))
