"""Nested arithmetic: "What is (17+25)*8-90?"."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import Final

from sureenough.problems.problem import Task
from sureenough.problems.tree import Op, Tree, value, write


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a level's expressions."""

    operations: tuple[int, int]
    number: int  # the largest operand
    factors: tuple[int, int]  # the largest factors of a product
    most: int = 10_000_000  # the largest intermediate result


SIZES: Final = {
    1: Size((1, 2), 40, (40, 25)),
    2: Size((2, 3), 99, (99, 12)),
    3: Size((3, 4), 200, (99, 99)),
    4: Size((4, 6), 999, (999, 99)),
    5: Size((6, 8), 999, (9999, 999)),
}
FORMS: Final = ("What is {}?", "Compute {}.", "Calculate {}.", "Evaluate {}.", "{}", "{} = ?", "How much is {}?")
SIGNS: Final = (
    {"*": "×", "/": "÷"},
    {"*": " x ", "+": " + ", "-": " - ", "/": " / "},
    {"+": " plus ", "-": " minus ", "*": " times ", "/": " divided by "},
)
"""Other ways to write the four signs, used now and then."""


def make(rng: Random, level: int) -> Task:
    size = SIZES[level]
    tree = grow(rng, rng.randint(*size.operations), size)
    form = rng.choice(FORMS) if rng.random() < 0.5 else FORMS[0]
    return Task("nested", form.format(_written(rng, tree)), str(value(tree)), tree)


def _written(rng: Random, tree: Tree) -> str:
    if rng.random() < 0.85:
        return write(tree, rng.choice(("", " ")))
    text, signs = write(tree), rng.choice(SIGNS)
    return "".join(signs.get(letter, letter) for letter in text)


def grow(rng: Random, operations: int, size: Size) -> Tree:
    """A random expression with this number of operations, without negative or too large intermediate results."""
    if operations == 0:
        return rng.randint(2, size.number)
    if operations == 1 and rng.random() < 0.12:
        return _division(rng, size)
    before = rng.randint(0, operations - 1)
    left, right = grow(rng, before, size), grow(rng, operations - 1 - before, size)
    return _join(rng, left, right, size)


def _join(rng: Random, left: Tree, right: Tree, size: Size) -> Op:
    a, b = value(left), value(right)
    large, small = size.factors
    if rng.random() < 0.5 and isinstance(right, int) and 1 < a <= large:
        factor = 2 + right % (small - 1)
        if a * factor <= size.most:
            return Op("*", left, factor)
    if rng.random() < 0.5 or a + b > size.most:
        return Op("-", left, right) if a >= b else Op("-", right, left)
    return Op("+", left, right)


def _division(rng: Random, size: Size) -> Op:
    divisor = rng.randint(2, min(size.factors[1], 30))
    return Op("/", divisor * rng.randint(2, max(3, size.number // 8)), divisor)
