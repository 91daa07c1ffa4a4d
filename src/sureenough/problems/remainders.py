"""Remainders: "What is the remainder when 58*14+9 is divided by 17?"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from sureenough.problems.problem import Task
from sureenough.problems.tree import Op, Tree, value, write

FORMS: Final = (
    "What is the remainder when {} is divided by {}?",
    "Find the remainder when {} is divided by {}.",
    "What is {} mod {}?",
    "Divide {} by {}. What is the remainder?",
)


@dataclass(frozen=True, slots=True)
class Division:
    tree: Tree
    divisor: int


def make(rng: Random, level: int) -> Task:
    tree, divisor = MAKERS[level](rng)
    form = rng.choice(FORMS) if rng.random() < 0.5 else FORMS[0]
    written = write(tree)
    if " mod " in form and isinstance(tree, Op):
        written = f"({written})"
    return Task("remainder", form.format(written, divisor), str(value(tree) % divisor), Division(tree, divisor))


def _product(rng: Random) -> tuple[Tree, int]:
    product = Op("*", rng.randint(11, 999), rng.randint(11, 99))
    return Op("+", product, rng.randint(2, 999)), rng.randint(11, 99)


def _products(rng: Random) -> tuple[Tree, int]:
    first = Op("*", rng.randint(100, 999), rng.randint(11, 999))
    second = Op("*", rng.randint(100, 999), rng.randint(11, 99))
    return Op("+", Op("+", first, second), rng.randint(100, 9999)), rng.randint(23, 199)


MAKERS: Final[dict[int, Callable[[Random], tuple[Tree, int]]]] = {
    1: lambda rng: (rng.randint(10, 150), rng.randint(2, 12)),
    2: lambda rng: (rng.randint(50, 999), rng.randint(3, 20)),
    3: lambda rng: (rng.randint(1000, 9999), rng.randint(11, 60)),
    4: _product,
    5: _products,
}
