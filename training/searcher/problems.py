"""Problems that need a search, in five levels, with exact answers, from a seed: Countdown and shortest paths."""

from __future__ import annotations

from dataclasses import replace
from random import Random

from arithmetic import LEVELS, GeneratedProblem
from searcher import countdown, grid

__all__ = ["COLLECTIONS", "LEVELS", "GeneratedProblem", "generate"]

COLLECTIONS = {"countdown": countdown.make, "grid": grid.make}


def generate(collection: str, level: int, seed: int, n: int) -> list[GeneratedProblem]:
    """`n` different problems of a level of `countdown` or `grid`; a different seed gives different ones."""
    rng = Random(f"sureenough problems {seed} {level}")
    problems: dict[str, GeneratedProblem] = {}  # by question, so that none comes twice
    while len(problems) < n:
        new = COLLECTIONS[collection](rng, level)
        if new.question not in problems:
            problems[new.question] = replace(new, level=level, id=f"{collection}-{level}-{seed}-{len(problems)}")
    return list(problems.values())
