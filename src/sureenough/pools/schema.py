"""The form of a pool file: one Parquet row per path, and JSON metadata about its origin."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final

import pyarrow as pa

from sureenough.errors import TraceError
from sureenough.json_text import mend

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
SUMMARY: Final = ("lowest", "tail", "mean_peak")
"""What votes and stop rules read of a path's confidence, at the window of the metadata: for pools without signals."""
OPTIONAL: Final = {
    "text": pa.string(), "seed": pa.int64(), "tokens": pa.int32(), "question_text": pa.string(), "kind": pa.string(),
    **dict.fromkeys(SUMMARY, pa.float32()),
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
        for name in [name for name in cls.__slots__ if name in data]:
            value, wanted = data[name], "a text"
            if name == "window":
                fits, wanted = value is None or (type(value) is int and value > 0), "a whole number of at least 1"
            elif name == "sampling":
                fits, wanted = isinstance(value, dict | None), "an object"
            else:
                fits = isinstance(value, str if name == "kind" else str | None) or name in ("k", "schema", "more")
            if not fits:
                raise TraceError(f"{where}: its {name} is {value!r:.80}; it must be {wanted}; record the pool again")
        known = {name: value for name, value in data.items() if name in cls.__slots__ and name != "more"}
        known["sampling"] = known.get("sampling") or {}
        return cls(**known, more={name: value for name, value in data.items() if name not in cls.__slots__})

    def of_questions(self, ids: Iterable[str]) -> PoolInfo:
        """For a file with these questions: of the checksums of prompts, those of others are left out."""
        prompts = self.more.get("prompts")
        if not isinstance(prompts, dict):
            return self
        return replace(self, more=self.more | {"prompts": {name: prompts[name] for name in ids if name in prompts}})

    def metadata(self) -> dict[bytes, bytes]:
        data = asdict(self)
        data |= data.pop("more")
        return {KEY: mend(json.dumps(data, ensure_ascii=False)).encode()}  # names of others may hold surrogate halves


def pool_schema(info: PoolInfo, optional: Collection[str] = ()) -> pa.Schema:
    """The Arrow schema of a pool with these optional columns; the number of tokens is always in it."""
    columns = REQUIRED | {name: kind for name, kind in OPTIONAL.items() if name in (*optional, "tokens")}
    return pa.schema(list(columns.items()), metadata=info.metadata())
