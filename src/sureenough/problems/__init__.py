"""Problems that never run out: five levels of whole-number arithmetic, with exact answers, made from a seed.

They are the world of the built-in model, and the dataset `arith`.
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
FAMILIES: Final[dict[str, Callable[[Random, int], Task]]] = {
    "nested": nested.make,
    "linear": linear.make,
    "remainder": remainders.make,
    "words": words.make,
}


def task(rng: Random, level: int, family: str) -> Task:
    """One task of a family, as worked solutions are written from."""
    return FAMILIES[family](rng, level)


def generate(level: int, seed: int = 0, n: int = 1) -> list[GeneratedProblem]:
    """`n` problems of a level, family after family; no question comes twice.

    Args:
        level: 1, easy, to 5, hard.
        seed: another seed gives other problems.
        n: how many.
    """
    if level not in LEVELS:
        raise UsageError(f"level is {level!r}; known levels: {', '.join(map(str, LEVELS))}")
    if n < 0 or n > MOST:
        raise UsageError(f"n is {n}; ask for 0 to {MOST:,} problems")
    rng = Random(f"sureenough problems {seed} {level}")
    names = tuple(FAMILIES)
    found: dict[str, GeneratedProblem] = {}
    while len(found) < n:
        family = names[len(found) % len(names)]
        made = task(rng, level, family)
        if made.question not in found:
            number = f"arith-{level}-{seed}-{len(found)}"
            found[made.question] = GeneratedProblem(number, level, family, made.question, made.gold)
    return list(found.values())


MOST: Final = 2_000
"""Of a level and seed: the easiest have only so many."""
