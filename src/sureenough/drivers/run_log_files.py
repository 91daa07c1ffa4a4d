"""Files of run logs. They may hold anything: what is not a log is refused, what is damaged is read up to the damage."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import msgspec

from sureenough.core.events import Json
from sureenough.drivers.run_log import SCHEMA, LogLine
from sureenough.errors import TraceError
from sureenough.json_text import encode
from sureenough.pools.durable import own_file

LINE_BYTES: Final = 1 << 24
"""The longest line that is read."""
SCHEMA_1_BYTES: Final = 1 << 26
"""The largest file of schema 1, which is one JSON object and must be read whole."""
INCOMPLETE: Final = "The log ends before the run does."

_decode: Final = msgspec.json.Decoder(LogLine).decode


def save_log(file: Path, lines: Iterable[bytes]) -> None:
    """Write a log, whole or not at all, readable by this user only."""
    part = own_file(file, "part")
    with open(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as out:
        out.writelines(line + b"\n" for line in lines)
    part.replace(file)  # on Windows `rename` refuses a file that exists


def read_log(file: Path) -> Iterator[tuple[bytes, LogLine]]:
    """Every line up to the result, and what it holds. If the result is missing, the last one is an `error`."""
    try:
        with file.open("rb") as handle:
            raw, line = _first_line(handle)
            if line is None:
                yield from _read_schema_1(file)
                return
            number = 1
            while raw and line is not None:
                yield raw.replace(b"\r", b"").rstrip(b"\n"), line  # a carriage return would end a server-sent event
                if "result" in line or "error" in line:
                    return
                raw, number = handle.readline(LINE_BYTES), number + 1
                line = _parse(raw)
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from None
    end = _error(f"Line {number} of the log is damaged; the run is shown up to it." if raw else INCOMPLETE)
    yield encode(end), end


def read_ends(file: Path) -> tuple[LogLine, LogLine]:
    """The first line of a log, and its last one: an `error` if the result is missing. The rest is not read."""
    try:
        with file.open("rb") as handle:
            _, head = _first_line(handle)
            if head is None:
                lines = _read_schema_1(file)
                return lines[0][1], lines[-1][1]
            end = _parse(_last_line(handle))
    except OSError as error:
        raise TraceError(f"{file} cannot be read: {error.strerror or error}") from None
    return head, end if end is not None and ("result" in end or "error" in end) else _error(INCOMPLETE)


def _parse(raw: bytes) -> LogLine | None:
    try:
        return _decode(raw)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        return None


def _first_line(handle: BinaryIO) -> tuple[bytes, LogLine | None]:
    """The head, as bytes and parsed; None if the file is not a log of this schema."""
    raw = handle.readline(LINE_BYTES)
    line = _parse(raw) or {}
    if line.get("schema", 1) not in (1, SCHEMA):
        raise TraceError(f"{handle.name} has schema {line['schema']}; this version reads 1 and {SCHEMA}")
    return raw, line if line.get("schema") == SCHEMA and "run" in line else None


def _last_line(handle: BinaryIO) -> bytes:
    size, reach = handle.seek(0, os.SEEK_END), 1 << 16
    while True:
        handle.seek(max(0, size - reach))
        lines = handle.read(reach).rstrip(b"\n").rsplit(b"\n", 1)
        if len(lines) == 2 or reach >= min(size, LINE_BYTES):
            return lines[-1]
        reach *= 16


def _error(message: str) -> LogLine:
    return {"error": {"message": message}}


def _read_schema_1(file: Path) -> list[tuple[bytes, LogLine]]:
    """A run that version 0.1 kept, as lines of today."""
    try:
        old = json.loads(file.read_text("utf-8")) if file.stat().st_size <= SCHEMA_1_BYTES else {}
        if old["schema"] != 1:
            raise ValueError
        return [(raw, _decode(raw)) for raw in map(encode, _converted(old))]
    except (msgspec.MsgspecError, ArithmeticError, ValueError, LookupError, TypeError, AttributeError, RecursionError):
        raise TraceError(f"{file} is not a run log") from None


def _converted(old: Json) -> Iterator[LogLine]:
    run = {name: value for name, value in old["run"].items() if name != "measure"}
    yield cast(LogLine, {"schema": SCHEMA, "run": run})
    paths, steps = old.get("paths", []), old.get("steps", [])
    names: dict[Any, int] = {}
    for path in paths:
        if path["vote"] is not None and path["vote"] == path["answer"]:
            names.setdefault(path["answer"], path["path"])
    yield cast(LogLine, {"paths": [_path(path, names) for path in paths], "steps": steps})
    if "standing" in old:
        measured = [step[2] for step in steps if step[2] is not None]
        yield cast(LogLine, {"summary": _summary(old["standing"], names, old["run"].get("measure"), measured)})
    for text in old.get("words", {}).values():
        yield {"text": {"path": text["path"], "texts": text["words"], "confidence": text["conf"]}}
    result = old.get("over")
    if result is not None and "tokens" in result:
        tokens = dict(result["tokens"])
        result = result | {"tokens": tokens | {"discarded": tokens.pop("spared", tokens.get("discarded", 0))}}
    yield _error(INCOMPLETE) if result is None else {"result": result}


def _path(old: Json, names: dict[Any, int]) -> Json:
    path = {("confidence" if name == "now" else name): value for name, value in old.items()}
    return path | {"vote": names.get(old["vote"]), "fate": "discarded" if old["fate"] == "spared" else old["fate"]}


def _summary(old: Json, names: dict[Any, int], quantity: str | None, measured: list[float]) -> Json:
    renamed = {"made": "tokens", "plain": "full_budget_tokens", "reads": "reads_confidence"}
    summary = {renamed.get(name, name): value for name, value in old.items()}
    rises, threshold = summary.pop("rises"), summary.pop("bar")
    inferred = None if threshold is None else "posterior" if rises else "expected_gain"
    return summary | {
        "phase": "stopped",
        "votes": [[names[answer], weight] for answer, weight in old["votes"] if answer in names],
        "measure": measured[-1] if measured else None,
        "stop": {"quantity": quantity or inferred, "threshold": threshold, "stops_above": rises},
    }
