"""Lists of strategies that are a default: what a small pool or budget cannot run is shrunk or left out, with a note."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Final

from sureenough.bench.pipeline import OpenPool
from sureenough.core.options import fitting_warmup
from sureenough.pools import Pool
from sureenough.spec import parse

LEAST_WARMUP: Final = 4
"""Percentiles of fewer paths mean nothing."""


def fitting(names: Sequence[str], paths: int) -> tuple[list[str], list[str]]:
    """The strategies for so many paths, with notes; a warm-up that is too long becomes half of the paths."""
    long = [name for name in names if parse(name).warmup > paths]
    if not long:
        return list(names), []
    half = fitting_warmup(paths)
    specs = [f"{name}{',' if ':' in name else ':'}warmup={half}" if name in long else name for name in names]
    note = f"there are {paths} paths per question, fewer than the warm-up of {', '.join(long)}"
    if half < LEAST_WARMUP:
        return [name for name in names if name not in long], [f"{note}: left out"]
    return specs, [f"{note}: {half} paths warm up"]


def fitting_pool(names: Sequence[str], opened: OpenPool, budget: int | None) -> list[str]:
    """The same for a pool, which keeps the notes."""
    recorded = recorded_paths(opened.pool)
    specs, notes = fitting(names, min(recorded, budget or recorded))
    opened.notes += notes
    return specs


def recorded_paths(pool: Pool) -> int:
    """Most paths of any question."""
    return max(b - a for a, b in pairwise([*pool.starts(), pool.rows]))
