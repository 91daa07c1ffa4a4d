"""The folder of a run: what was planned, what was recorded, what ran live, what came out. Safe at any moment.

plan.json, pools/*.parquet (a .journal beside each while it is under way), live/runs.jsonl, results/*.json.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import IO, Any, Final, Self

from sureenough.errors import TraceError, UsageError
from sureenough.version import __version__

Terms = dict[str, Any]
SHOWN: Final = 8
"""Changes that a refusal names."""


class RunFolder:
    """One at a time works in it; the same plan goes on where it stopped, another one is refused."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            for name in ("pools", "live", "results"):
                (path / name).mkdir(parents=True, exist_ok=True)
            self._lock = open(path / "lock", "a+")  # noqa: SIM115  # held until close()
        except OSError as error:
            raise TraceError(f"cannot make the run folder {path}: {error.strerror or error}") from None
        if not _taken(self._lock):
            self._lock.close()
            raise UsageError(f"another `sureenough bench` is at work in {path}; wait for it, or give another folder")

    def agree(self, cells: dict[str, Terms], experiment: str, terms: Terms, *, note: bool = True) -> None:
        """Note the plan, or refuse it where what was noted before differs, with all that changed."""
        plan = self._read() or {"sureenough": __version__, "cells": {}, "experiments": {}}
        cells, terms = _plain(cells), _plain(terms)
        changed = _changes(plan["experiments"].get(experiment, terms), terms, "")
        for name, said in cells.items():
            changed += _changes(plan["cells"].get(name, said), said, f"{name}: ")
        if changed:
            more = f"; and {len(changed) - SHOWN} more" if len(changed) > SHOWN else ""
            raise UsageError(
                f"{self.path} was begun with another plan. What changed: {'; '.join(changed[:SHOWN])}{more}. "
                "Give the same plan to go on, or another folder with -o to begin anew"
            )
        if not note:
            return
        plan["cells"] |= cells
        plan["experiments"][experiment] = terms
        save(self.path / "plan.json", json.dumps(plan, indent=1, ensure_ascii=False) + "\n")

    def pool(self, cell: str) -> Path:
        """Where a cell's paths are, or will be."""
        return pool_file(self.path, cell)

    @property
    def runs(self) -> Path:
        """Live outcomes, a line each."""
        return self.path / "live" / "runs.jsonl"

    def result(self, experiment: str) -> Path:
        """What came out."""
        return self.path / "results" / f"{experiment}.json"

    def _read(self) -> dict[str, Any] | None:
        file = self.path / "plan.json"
        if not file.exists():
            return None
        try:
            plan = json.loads(file.read_text("utf-8"))
            if not {"cells", "experiments"} <= set(plan):
                raise ValueError
        except (OSError, ValueError, TypeError):
            raise TraceError(f"{file} is no plan of a run; give another folder with -o") from None
        return dict(plan)

    def close(self) -> None:
        """Let others in."""
        self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pool_file(folder: Path, cell: str) -> Path:
    """Where a folder keeps a cell's paths."""
    return folder / "pools" / f"{cell}.parquet"


def _taken(lock: IO[str]) -> bool:
    """Whether the folder is ours now; a killed process lets go by itself. Where there are no such locks, it is."""
    try:
        import fcntl
    except ImportError:
        return True
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def save(file: Path, text: str) -> None:
    """Write a file whole or not at all."""
    part = file.with_name(file.name + ".part")
    try:
        with open(part, "w", encoding="utf-8") as handle:
            handle.write(text)
            handle.flush()
            os.fsync(handle.fileno())
        part.replace(file)
    except OSError as error:
        raise TraceError(
            f"cannot write {file}: {error.strerror or error}. What was recorded is safe; make room and give the same "
            "command again"
        ) from None


def slug(text: str) -> str:
    """A name as part of a file's name."""
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "unnamed"


def _plain(value: Any) -> Any:
    return json.loads(json.dumps(value))


def _changes(old: Any, new: Any, at: str) -> list[str]:
    """What differs, name by name."""
    if isinstance(old, dict) and isinstance(new, dict):
        names = [*new, *(name for name in old if name not in new)]
        return [one for name in names for one in _changes(old.get(name), new.get(name), f"{at}{name} ")]
    return [] if old == new else [f"{at.rstrip()} was {_shown(old)}, is {_shown(new)}"]


def _shown(value: Any) -> str:
    text = " ".join(map(str, value)) if isinstance(value, list) else "not given" if value is None else str(value)
    return text if len(text) <= 120 else text[:119] + "…"
