"""Arithmetic in five levels, made on the spot: needs no download, and answers are known by construction."""

from __future__ import annotations

from sureenough import problems
from sureenough.datasets.dataset import Dataset
from sureenough.datasets.files import DatasetProblem

EACH = 40
"""Questions a level."""


def make(seed: int) -> list[DatasetProblem]:
    """All levels in turn, so that the first few are a fair sample."""
    levels = [problems.generate(level, seed, EACH) for level in problems.LEVELS]
    made = [one for turn in zip(*levels, strict=True) for one in turn]
    return [DatasetProblem(str(one.id), one.question, str(one.gold), "math", one.level) for one in made]


ARITH = Dataset("arith", "Arithmetic in five levels, made by sureenough itself", count=5 * EACH, make=make,
                numeric=True)  # fmt: skip
