"""Countdown: "From the numbers 3, 7, 12, 25, what is the largest number up to 87 that can be made?".

The usual question, for an expression that makes the target, has many right answers that are written differently, and
any of them can be checked: a vote would be between paths that know that they are right. This one asks for a number, so
that answers can be compared. Only a number equal to the target is known to be the largest; every other one is the best
that a search came upon, and another search may come upon a larger one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from random import Random
from typing import Final

from arithmetic import GeneratedProblem

MOST: Final = 999
"""No intermediate result may be larger."""
QUESTION: Final = (
    "From the numbers {}, what is the largest number up to {} that can be made? "
    "Use each at most once, with + - * /, and only whole numbers from 1 to 999."
)


@dataclass(frozen=True, slots=True)
class Countdown:
    numbers: tuple[int, ...]  # in ascending order
    target: int


@dataclass(frozen=True, slots=True)
class Difficulty:
    """How many numbers a level has, their range and that of the target, and in how many ways the answer is made."""

    count: int
    numbers: tuple[int, int]
    target: tuple[int, int]
    ways: int


LEVELS: Final = {
    1: Difficulty(4, (1, 10), (10, 60), 2),
    2: Difficulty(4, (1, 25), (30, 150), 2),
    3: Difficulty(4, (2, 60), (100, 500), 2),
    4: Difficulty(5, (1, 25), (60, 300), 6),
    5: Difficulty(6, (1, 25), (100, 600), 12),
}


def make(rng: Random, level: int) -> GeneratedProblem:
    """A problem whose answer must be made, and in several ways: a single one is a needle in a haystack."""
    while True:
        core = draw(rng, level)
        ways = reachable(core.numbers)
        answer = max((number for number in ways if number <= core.target), default=0)
        if answer not in core.numbers and ways[answer] >= LEVELS[level].ways:
            return GeneratedProblem("countdown", write(core), str(answer), core)


def draw(rng: Random, level: int) -> Countdown:
    """Numbers and a target of a level; its answer is not looked for."""
    size = LEVELS[level]
    numbers = tuple(sorted(rng.randint(*size.numbers) for _ in range(size.count)))
    return Countdown(numbers, rng.randint(*size.target))


def write(core: Countdown) -> str:
    return QUESTION.format(", ".join(map(str, core.numbers)), core.target)


def reachable(numbers: tuple[int, ...]) -> Counter[int]:
    """Every number that can be made, and in how many ways, as far as ways can be told apart cheaply.

    Each set of numbers is split in two in all ways, and the results of its parts are joined. Results that come from
    the same two parts in the same way are one way, however the parts were made.
    """
    made: list[Counter[int]] = [Counter()]
    total: Counter[int] = Counter()
    for chosen in range(1, 1 << len(numbers)):
        results: Counter[int] = Counter()
        if chosen & (chosen - 1) == 0:
            results[numbers[chosen.bit_length() - 1]] = 1
        part = (chosen - 1) & chosen
        while part > chosen ^ part:  # the parts from the larger half on: each split once
            results.update(combinations(made[part], made[chosen ^ part]))
            part = (part - 1) & chosen
        made.append(results)
        total.update(results)
    return total


def combinations(first: Iterable[int], second: Collection[int]) -> list[int]:
    """What two numbers, one of each part, make; a product or quotient with 1 is left out."""
    results: list[int] = []
    for a in first:
        for b in second:
            small, large = (a, b) if a < b else (b, a)
            if small > 1:
                if small * large <= MOST:
                    results.append(small * large)
                if large % small == 0:
                    results.append(large // small)
            if small + large <= MOST:
                results.append(small + large)
            if large > small:
                results.append(large - small)
    return results
