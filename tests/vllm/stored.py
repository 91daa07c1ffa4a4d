"""Records of paths, written as the monitor does, and vLLM's engines as their client sees them."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from sureenough.engines.watch.protocol import MissingRecord, PathRecord
from sureenough.vllm.plugin import READ_RECORDS, read_records
from sureenough.vllm.processor import EngineMonitor
from sureenough.vllm.records import PathRecords


def add_token(records: PathRecords, slot: int, before: int, low: float, tier: float = 0.0, copied: Any = None) -> None:
    """One token of the path in this slot: its conf is `low`, the mean of conf 4, and the tail one above the lowest."""
    results = np.array([[0.5, low, low, low + 1, tier, 0.5 * (before + 1), 4.0 * (before + 1)]])
    records.add_step(np.array([slot]), np.array([before], dtype=np.int32), results, copied)


def record_of(records: PathRecords, key: str, tokens: int | None = None) -> PathRecord | MissingRecord | None:
    """A path's record after so many tokens, by default the latest."""
    return records.read([(key, tokens)])[0]


class Client:
    """A client of engines that each have records, as vLLM's with data parallelism."""

    def __init__(self, *engines: PathRecords) -> None:
        self.engine_core, self.engines, self.calls = self, engines, list[Any]()
        self.broken = False

    async def call_utility_all_async(self, method: str, name: str, timeout: None, arguments: Any, _: None) -> list[Any]:
        assert (method, name) == ("collective_rpc", READ_RECORDS)
        self.calls.append(arguments)
        if self.broken:
            raise RuntimeError("the engine is dead")
        replies = []
        for records in self.engines:
            EngineMonitor.current = SimpleNamespace(records=records)  # type: ignore[assignment]
            replies.append([None, read_records(None, *arguments)])  # the first worker samples nothing
        EngineMonitor.current = None
        return replies


def started(records: PathRecords, keys: Sequence[str]) -> PathRecords:
    """With a path of one token under each key."""
    for slot, key in enumerate(keys):
        records.start_path(slot, key, trace=False)
        add_token(records, slot, 0, 3.0)
    return records
