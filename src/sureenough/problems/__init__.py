"""Generated problems of whole-number arithmetic in five levels, with exact answers, from a seed.

The built-in model is trained on them; they are the dataset `arith`.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from sureenough.errors import UsageError
from sureenough.problems import linear, nested, remainders, words
from sureenough.problems.problem import GeneratedProblem, Task

__all__ = ["FAMILIES", "LEVELS", "GeneratedProblem", "generate", "task"]

LEVELS: Final = (1, 2, 3, 4, 5)
MOST: Final = 2_000  # problems per level and seed; the easiest level has few more
FAMILIES: Final[dict[str, Callable[[Random, int], Task]]] = {
    "nested": nested.make,
    "linear": linear.make,
    "remainder": remainders.make,
    "words": words.make,
}


def task(rng: Random, level: int, family: str) -> Task:
    """A task of a family: a problem with the expression that worked solutions start from."""
    return FAMILIES[family](rng, level)


def generate(level: int, seed: int = 0, n: int = 1) -> list[GeneratedProblem]:
    """`n` different problems of a level, from all families in turn.

    Args:
        level: from 1 (easy) to 5 (hard).
        seed: a different seed gives different problems.
        n: number of problems.
    """
    if level not in LEVELS:
        raise UsageError(f"level is {level!r}; known levels: {', '.join(map(str, LEVELS))}")
    if n < 0 or n > MOST:
        raise UsageError(f"n is {n}; it must be from 0 to {MOST:,}")
    rng = Random(f"sureenough problems {seed} {level}")
    names = tuple(FAMILIES)
    problems: dict[str, GeneratedProblem] = {}  # by question, so that none comes twice
    while len(problems) < n:
        family = names[len(problems) % len(names)]
        new = FAMILIES[family](rng, level)
        if new.question not in problems:
            problem_id = f"arith-{level}-{seed}-{len(problems)}"
            problems[new.question] = GeneratedProblem(problem_id, level, family, new.question, new.gold)
    return list(problems.values())
