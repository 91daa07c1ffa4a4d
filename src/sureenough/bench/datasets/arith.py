"""Arithmetic in five levels, made on the spot: needs no download, and answers are known by construction."""

from __future__ import annotations

from sureenough import problems
from sureenough.bench.datasets.dataset import Dataset
from sureenough.traces.questions import Problem

EACH = 40
"""Questions a level."""


def make(seed: int) -> list[Problem]:
    """Level after level."""
    made = [one for level in range(1, 6) for one in problems.generate(level, seed, EACH)]
    return [Problem(str(one.id), one.question, str(one.gold), "math", one.level) for one in made]


ARITH = Dataset("arith", "Arithmetic in five levels, made by sureenough itself", count=5 * EACH, make=make,
                numeric=True)  # fmt: skip
