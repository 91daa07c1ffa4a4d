"""Plain arithmetic read from text: `(25-12)*7`, exactly, with every intermediate result. Nothing is executed."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import add, mul, sub, truediv
from typing import Final

from sureenough.problems.tree import RANK

LONGEST: Final = 200  # characters; the answers of a problem are far shorter
TOKEN: Final = re.compile(r"\s*(?:([0-9]{1,6})(?![0-9])|([-+*/()×÷]))")
SIGNS: Final = {"×": "*", "÷": "/"}
OPERATIONS: Final[dict[str, Callable[[Fraction, Fraction], Fraction]]] = {"+": add, "-": sub, "*": mul, "/": truediv}


@dataclass(slots=True)
class Expression:
    """What an expression comes to, the numbers in it and its intermediate results, in their order."""

    value: Fraction = Fraction(0)
    numbers: list[int] = field(default_factory=list)
    results: list[Fraction] = field(default_factory=list)

    def apply(self, sign: str, values: list[Fraction]) -> None:
        """Replace the last two values by their result."""
        right, left = values.pop(), values.pop()
        values.append(OPERATIONS[sign](left, right))
        self.results.append(values[-1])


def read(text: str) -> Expression | None:
    """The expression in a text; None if it is not plain arithmetic on whole numbers, or divides by zero."""
    tokens = _tokens(text.strip()) if len(text) <= LONGEST else None
    if tokens is None:
        return None
    try:
        return _evaluate(tokens)
    except (IndexError, ZeroDivisionError):  # a missing operand, or bracket; a division by zero
        return None


def _tokens(text: str) -> list[str] | None:
    """Numbers, signs and brackets; None if there is anything else, or if two values or two signs meet."""
    tokens, at, after_value = [], 0, False
    while at < len(text):
        token = TOKEN.match(text, at)
        if token is None:
            return None
        at, mark = token.end(), token[1] or SIGNS.get(token[2], token[2])
        opens_value = mark == "(" or mark.isdigit()
        if opens_value == after_value:
            return None
        after_value = mark == ")" or mark.isdigit()
        tokens.append(mark)
    return tokens if after_value else None


def _evaluate(tokens: list[str]) -> Expression | None:
    """By two stacks, so that the depth of brackets does not matter."""
    expression, values, signs = Expression(), list[Fraction](), list[str]()
    for mark in tokens:
        if mark.isdigit():
            expression.numbers.append(int(mark))
            values.append(Fraction(int(mark)))
        elif mark == "(":
            signs.append(mark)
        elif mark == ")":
            while signs[-1] != "(":
                expression.apply(signs.pop(), values)
            signs.pop()
        else:
            while signs and signs[-1] != "(" and RANK[signs[-1]] >= RANK[mark]:
                expression.apply(signs.pop(), values)
            signs.append(mark)
    while signs:
        if signs[-1] == "(":
            return None
        expression.apply(signs.pop(), values)
    expression.value = values.pop()
    return expression
