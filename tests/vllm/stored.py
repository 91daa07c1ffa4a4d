"""Records of paths, written as the monitor does and read as its socket does; and doubles of vLLM's modules."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sureenough.engines.watch.protocol import MissingRecord, PathRecord
from sureenough.vllm.records import PathRecords


def add_token(records: PathRecords, slot: int, before: int, low: float, tier: float = 0.0, copied: Any = None) -> None:
    """One token of the path in this slot: its conf is `low`, the mean of conf 4, and the tail one above the lowest."""
    results = np.array([[0.5, low, low, low + 1, tier, 0.5 * (before + 1), 4.0 * (before + 1)]])
    records.add_step(np.array([slot]), np.array([before], dtype=np.int32), results, copied)


def record_of(records: PathRecords, key: str, tokens: int | None = None) -> PathRecord | MissingRecord | None:
    """A path's record after so many tokens, by default the latest."""
    return records.read([(key, tokens)])[0]


def replace_modules(monkeypatch: pytest.MonkeyPatch, modules: dict[str, dict[str, Any]]) -> None:
    """Modules of vLLM with these attributes, and the packages that they are in."""
    for path, attributes in modules.items():
        names = path.split(".")
        for name in [".".join(names[:depth]) for depth in range(1, len(names))]:
            if name not in sys.modules:
                monkeypatch.setitem(sys.modules, name, ModuleType(name))
        module = ModuleType(path)
        vars(module).update(attributes)
        monkeypatch.setitem(sys.modules, path, module)
