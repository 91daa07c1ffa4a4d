"""Worked solutions, which the model learns to write.

Two solutions of the same problem differ only in how much working they show: a careful solution splits large products
and divisions, a hasty one writes the result at once. A small model gets results wrong that it writes at once, and its
confidence is low there.
"""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

from arithmetic import Equation, GeneratedProblem, Op, Tree, terms, value, write

HASTE = (0.15, 0.45, 0.85)
"""How often a solution skips the working of a large step; one of these is drawn for each solution."""


def step(tree: Op) -> tuple[Op, Tree]:
    """The innermost and leftmost operation, and the expression after it is carried out."""
    if isinstance(tree.left, Op):
        done, rest = step(tree.left)
        return done, Op(tree.sign, rest, tree.right)
    if isinstance(tree.right, Op):
        done, rest = step(tree.right)
        return done, Op(tree.sign, tree.left, rest)
    return tree, value(tree)


@dataclass(slots=True)
class Writer:
    """The writer of one solution."""

    rng: Random
    haste: float

    def solution(self, task: GeneratedProblem) -> str:
        """The whole solution, with the boxed answer at its end."""
        lines = list(getattr(self, task.family)(task.core))
        return "\n".join([*lines, f"The answer is \\boxed{{{task.gold}}}."])

    def nested(self, tree: Tree) -> list[str]:
        """One operation at a time, with the remaining expression after each."""
        lines = []
        while isinstance(tree, Op):
            done, tree = step(tree)
            lines.append(self.operation(done))
            if isinstance(tree, Op):
                lines.append(f"So {write(tree)}.")
        return lines

    def words(self, tree: Tree) -> list[str]:
        """One operation at a time."""
        lines = []
        while isinstance(tree, Op):
            done, tree = step(tree)
            lines.append(self.operation(done))
        return lines

    def remainder(self, division: Op) -> list[str]:
        """The number, then its remainder."""
        lines = self.nested(division.left)
        number, divisor = value(division.left), value(division.right)
        quotient, rest = divmod(number, divisor)
        if self.skips(number, divisor):
            return [*lines, f"{number}={divisor}*{quotient}+{rest}"]
        return [*lines, f"{number} by {divisor}: {self.long_division(number, divisor)}"]

    def linear(self, equation: Equation) -> list[str]:
        """Open the brackets, gather, divide, and sometimes check."""
        a, b, lines = equation.a, equation.b, []
        if equation.outer > 1:
            lines += [self.product(equation.outer, a), self.product(equation.outer, abs(b))]
            a, b = equation.outer * a, equation.outer * b
            rest = f"+{terms(equation.more, equation.add)}" if equation.more else f"{equation.add:+}"
            lines.append(f"So {terms(a, b)}{rest}={terms(equation.c, equation.d)}.")
        a, b = self.gather(lines, a, b, equation)
        if equation.c:
            lines += [f"{a}-{equation.c}={a - equation.c}", f"So {terms(a - equation.c, b)}={equation.d}."]
            a -= equation.c
        number = equation.d - b
        if b:
            lines.append(f"{equation.d}{-b:+}={number}")
        if a > 1:
            lines += [f"So {a}x={number}.", self.quotient(number, a)]
            if self.rng.random() < 0.5:
                lines.append(f"Check: {self.product(a, equation.x)}")
        return [*lines, f"So x={equation.x}."]

    def gather(self, lines: list[str], a: int, b: int, equation: Equation) -> tuple[int, int]:
        """Add up the terms on the left side."""
        if equation.more:
            lines.append(f"{a}+{equation.more}={a + equation.more}")
            a += equation.more
        if equation.add:
            lines.append(f"{b}{equation.add:+}={b + equation.add}")
            b += equation.add
        if equation.more or equation.add:
            lines.append(f"So {terms(a, b)}={terms(equation.c, equation.d)}.")
        return a, b

    def operation(self, done: Op) -> str:
        """An operation on two numbers."""
        a, b = value(done.left), value(done.right)
        if done.sign == "*":
            return self.product(a, b)
        if done.sign == "/":
            return self.quotient(a, b)
        return f"{a}{done.sign}{b}={value(done)}"

    def product(self, a: int, b: int) -> str:
        """A product, at once or by the digits of the smaller number."""
        digits = str(min(a, b))
        if len(digits) == 1 or self.skips(a, b):
            return f"{a}*{b}={a * b}"
        long = max(a, b)
        parts = [int(digit) * 10 ** (len(digits) - 1 - i) for i, digit in enumerate(digits) if digit != "0"]
        if len(parts) == 1:
            return f"{a}*{b}={a * b}"
        split = "+".join(f"{long}*{part}" for part in parts)
        sums = [long * part for part in parts]
        written = [split]
        while len(sums) > 1:
            written.append("+".join(map(str, sums)))
            sums = [sums[0] + sums[1], *sums[2:]]
        return f"{a}*{b}={'='.join(written)}={sums[0]}"

    def quotient(self, a: int, b: int) -> str:
        """A quotient, at once or digit by digit."""
        if b < 10 or self.skips(a, b):
            return f"{a}/{b}={a // b}"
        return f"{a}/{b}: {self.long_division(a, b)} So {a}/{b}={a // b}"

    def long_division(self, number: int, divisor: int) -> str:
        """Long division: one subtraction per digit of the quotient."""
        parts, rest = [], number
        digits = str(number // divisor)
        for i, digit in enumerate(digits):
            part = int(digit) * 10 ** (len(digits) - 1 - i)
            if part:
                parts.append(f"{divisor}*{part}={divisor * part}, {rest}-{divisor * part}={rest - divisor * part}")
                rest -= divisor * part
        return "; ".join(parts) + "." if parts else f"{number}<{divisor}."

    def skips(self, a: int, b: int) -> bool:
        """Whether to write the result of a large step at once."""
        return self.rng.random() < self.haste


def solve(rng: Random, task: GeneratedProblem, haste: tuple[float, ...] = HASTE) -> str:
    """A solution, more or less careful."""
    return Writer(rng, rng.choice(haste)).solution(task)
