"""The folder of a run: its plan, recorded pools, live runs and results. It stays usable after a crash at any point.

plan.json, pools/*.parquet (with a .journal beside each while it is being recorded), live/runs.jsonl, results/*.json.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final, Self

from sureenough import __version__
from sureenough.errors import TraceError, UsageError
from sureenough.pools import OutputLock
from sureenough.pools.durable import lock_owner, write_file

Terms = dict[str, Any]
MOST_CHANGES: Final = 8
"""Changes that a refusal names."""


class RunFolder:
    """Used by one process at a time. The same plan continues where it stopped; another plan is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        lock = path / "lock"
        if lock.exists() and not (path / "plan.json").exists() and lock_owner(lock) is None:
            raise UsageError(f"{lock} is not the lock of a run, and would be removed; give another folder with -o")
        try:
            for name in ("pools", "live", "results"):
                (path / name).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TraceError(f"cannot make the run folder {path}: {error.strerror or error}") from None
        self._lock = OutputLock(lock, path)

    def check_plan(self, cells: dict[str, Terms], experiment: str, terms: Terms) -> None:
        """Refuse a plan that differs from the saved one, naming every change; else save it."""
        plan = self._read() or {"sureenough": __version__, "cells": {}, "experiments": {}}
        cells, terms = json.loads(json.dumps([cells, terms]))
        changed = _changes(plan["experiments"].get(experiment, terms), terms, "")
        for name, cell_terms in cells.items():
            changed += _changes(plan["cells"].get(name, cell_terms), cell_terms, f"{name}: ")
        if changed:
            more = f"; and {len(changed) - MOST_CHANGES} more" if len(changed) > MOST_CHANGES else ""
            raise UsageError(
                f"{self.path} was begun with another plan. What changed: {'; '.join(changed[:MOST_CHANGES])}{more}. "
                "Give the same plan to go on, or another folder with -o to begin anew"
            )
        plan["cells"] |= cells
        plan["experiments"][experiment] = terms
        self._save(plan)

    def _save(self, plan: dict[str, Any]) -> None:
        self.write(self.path / "plan.json", json.dumps(plan, indent=1, ensure_ascii=False).encode() + b"\n")

    def forget(self, experiment: str) -> None:
        """Allow another plan of an experiment that has no result yet; pools keep their terms."""
        plan = self._read()
        if plan is not None and plan["experiments"].pop(experiment, None) is not None:
            self._save(plan)

    def pool(self, cell: str) -> Path:
        return pool_file(self.path, cell)

    @property
    def runs(self) -> Path:
        """Live runs, one line each."""
        return self.path / "live" / "runs.jsonl"

    def result(self, experiment: str) -> Path:
        return self.path / "results" / f"{experiment}.json"

    def _read(self) -> dict[str, Any] | None:
        file = self.path / "plan.json"
        if not file.exists():
            return None
        try:
            plan = json.loads(file.read_text("utf-8"))
            if not isinstance(plan["cells"], dict) or not isinstance(plan["experiments"], dict):
                raise ValueError
        except (OSError, ValueError, TypeError, KeyError):
            raise TraceError(f"{file} is not the plan of a run; give another folder with -o") from None
        return dict(plan)

    def write(self, file: Path, content: bytes) -> None:
        """Write a file of the folder durably; a reader never sees half of it."""
        try:
            write_file(file, content)
        except OSError as error:
            raise TraceError(
                f"cannot write {file}: {error.strerror or error}. All that was sampled is safe in {self.path}; make "
                "room and give the same command again"
            ) from None

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pool_file(folder: Path, cell: str) -> Path:
    """Where a run folder keeps a cell's paths."""
    return folder / "pools" / f"{cell}.parquet"


def slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"


def _changes(old: Any, new: Any, at: str) -> list[str]:
    """Every difference, by name; a value that one of the two does not have is None."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*new, *(name for name in old if name not in new)]
        return [change for name in names for change in _changes(old.get(name), new.get(name), f"{at}{name} ")]
    return [] if old == new else [f"{at.rstrip()} was {_shown(old)}, is {_shown(new)}"]


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
