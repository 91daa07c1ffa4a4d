"""The form of a pool file: one Parquet row per path, and JSON metadata about its origin."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import Any, Final

import pyarrow as pa

from sureenough.errors import TraceError

VERSION: Final = 1
KEY: Final = b"sureenough"

_SIGNAL = pa.list_(pa.field("element", pa.float16()))
REQUIRED: Final = {
    "question": pa.string(),
    "path": pa.int32(),
    "gold": pa.string(),
    "level": pa.int8(),
    "answer": pa.string(),
    "finish": pa.string(),
    "peak": _SIGNAL,
    "conf": _SIGNAL,
}
OPTIONAL: Final = {
    "text": pa.string(), "seed": pa.int64(), "tokens": pa.int32(), "question_text": pa.string(), "kind": pa.string(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PoolInfo:
    """What a pool says about itself."""

    dataset: str | None = None
    model: str | None = None
    engine: str | None = None
    k: int = 20
    logprobs: str = "raw, before temperature and top-p"
    sampling: dict[str, Any] = field(default_factory=dict)
    prompt: str | None = None
    window: int | None = None  # suggested
    kind: str = "math"  # of answer, of questions that have none of their own
    schema: int = VERSION
    more: dict[str, Any] = field(default_factory=dict)  # other keys of the file

    @classmethod
    def parse(cls, raw: bytes | None, where: str) -> PoolInfo:
        """From a file's metadata; a pool without any gets the defaults."""
        if raw is None:
            return cls()
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            raise TraceError(f"{where}: its 'sureenough' metadata is not JSON; record the pool again") from None
        if not isinstance(data, dict):
            raise TraceError(f"{where}: its 'sureenough' metadata is not a JSON object; record the pool again")
        if data.get("schema", VERSION) != VERSION:
            raise TraceError(f"{where}: schema {data['schema']}, this version reads {VERSION}; upgrade sureenough")
        window = data.get("window")
        if window is not None and (not isinstance(window, int) or isinstance(window, bool) or window < 1):
            raise TraceError(f"{where}: suggests window {window!r}; it must be a whole number of at least 1")
        if not isinstance(data.get("kind", ""), str):
            raise TraceError(f"{where}: its kind of answer is {data['kind']!r}; it must be a text such as 'math'")
        for name in ("dataset", "model", "engine", "prompt", "logprobs"):
            if not isinstance(data.get(name, ""), str | None):
                raise TraceError(f"{where}: its {name} is {data[name]!r:.80}; it must be a text; record the pool again")
        known = {name: value for name, value in data.items() if name in cls.__slots__ and name != "more"}
        return cls(**known, more={name: value for name, value in data.items() if name not in cls.__slots__})

    def metadata(self) -> dict[bytes, bytes]:
        data = asdict(self)
        data |= data.pop("more")
        return {KEY: json.dumps(data, ensure_ascii=False).encode()}


def pool_schema(info: PoolInfo, optional: frozenset[str] = frozenset()) -> pa.Schema:
    """The Arrow schema of a pool with these optional columns."""
    columns = REQUIRED | {name: kind for name, kind in OPTIONAL.items() if name in optional}
    return pa.schema(list(columns.items()), metadata=info.metadata())
