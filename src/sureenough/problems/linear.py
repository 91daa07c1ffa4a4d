"""Linear equations with one whole-number solution: "Solve for x: 3x+5=26."."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Final

from sureenough.problems.problem import Task


@dataclass(frozen=True, slots=True)
class Equation:
    """outer*(a*x+b) + more*x + add = c*x + d, with the solution x; outer is 1 and more is 0 if they are not written."""

    outer: int
    a: int
    b: int
    more: int
    add: int
    c: int
    d: int
    x: int


FORMS: Final = (
    "Solve for x: {}.", "Solve {}.", "Find x if {}.", "If {}, what is x?", "What is x when {}?", "Solve {} for x.",
)  # fmt: skip


def make(rng: Random, level: int) -> Task:
    equation = MAKERS[level](rng)
    form = rng.choice(FORMS) if rng.random() < 0.5 else FORMS[0]
    written = write(equation)
    if rng.random() < 0.3:
        written = "".join(f" {letter} " if letter in "+-=" else letter for letter in written)
    return Task("linear", form.format(written), str(equation.x), equation)


def _signed(rng: Random, low: int, high: int) -> int:
    return rng.randint(low, high) * rng.choice((1, 1, -1))


def _shift(rng: Random) -> Equation:
    a, x = rng.choice((1, 1, rng.randint(2, 9))), rng.randint(2, 30)
    b = _signed(rng, 2, 30) if a == 1 else 0
    x += max(0, -b)
    return Equation(1, a, b, 0, 0, 0, a * x + b, x)


def _two_steps(rng: Random) -> Equation:
    a, b, x = rng.randint(2, 12), _signed(rng, 2, 99), rng.randint(2, 60)
    return Equation(1, a, b, 0, 0, 0, a * x + b, x)


def _both_sides(rng: Random) -> Equation:
    c, x, b = rng.randint(2, 30), rng.randint(2, 99), _signed(rng, 2, 99)
    a = c + rng.randint(2, 20)
    return Equation(1, a, b, 0, 0, c, (a - c) * x + b, x)


def _brackets(rng: Random) -> Equation:
    outer, a, b = rng.randint(3, 30), rng.randint(2, 12), _signed(rng, 2, 99)
    x, add = rng.randint(2, 150), _signed(rng, 2, 999)
    c = rng.randint(2, outer * a - 1)
    return Equation(outer, a, b, 0, add, c, (outer * a - c) * x + outer * b + add, x)


def _all_terms(rng: Random) -> Equation:
    outer, a, b = rng.randint(12, 99), rng.randint(11, 60), _signed(rng, 100, 999)
    more, add, x = rng.randint(2, 999), _signed(rng, 100, 9999), rng.randint(11, 400)
    c = rng.randint(2, outer * a + more - 2)
    return Equation(outer, a, b, more, add, c, (outer * a + more - c) * x + outer * b + add, x)


MAKERS: Final[dict[int, Callable[[Random], Equation]]] = {
    1: _shift, 2: _two_steps, 3: _both_sides, 4: _brackets, 5: _all_terms,
}  # fmt: skip


def write(equation: Equation) -> str:
    """The equation in usual notation: `3(x+2)=21`."""
    left = terms(equation.a, equation.b)
    if equation.outer > 1:
        left = f"{equation.outer}({left})"
    if equation.more:
        left += f"+{_times(equation.more)}"
    return f"{left}{_signs(equation.add)}={terms(equation.c, equation.d)}"


def terms(factor: int, number: int) -> str:
    """`factor*x + number`, without terms that are zero."""
    return _times(factor) + _signs(number) if factor else str(number)


def _times(factor: int) -> str:
    return "x" if factor == 1 else f"{factor}x"


def _signs(number: int) -> str:
    return f"{number:+}" if number else ""
