"""Plain arithmetic read from text: `(25-12)*7`, exactly, with every intermediate result. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from operator import add, mul, sub, truediv
from typing import Final

LONGEST: Final = 200  # characters; the answers of a problem are far shorter
PLAIN: Final = re.compile(r"(?:[-+*/()×÷\s]|(?<![0-9])[0-9]{1,6}(?![0-9]))*")
SIGNS: Final = str.maketrans("×÷", "*/")
LEADING_ZEROS: Final = re.compile(r"(?<![0-9])0+(?=[0-9])")  # which Python does not allow
OPERATIONS: Final[dict[type[ast.operator], Callable[[Fraction, Fraction], Fraction]]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv,
}  # fmt: skip


@dataclass(slots=True)
class Expression:
    """What an expression comes to, the numbers in it and its intermediate results, in their order."""

    value: Fraction = Fraction(0)
    numbers: list[int] = field(default_factory=list)
    results: list[Fraction] = field(default_factory=list)

    def evaluate(self, node: ast.expr) -> Fraction:
        """The value of a part; KeyError if it is anything but a number or one of the four operations."""
        if isinstance(node, ast.Constant) and isinstance(node.value, int):
            self.numbers.append(node.value)
            return Fraction(node.value)
        if not isinstance(node, ast.BinOp):
            raise KeyError
        operation = OPERATIONS[type(node.op)]
        self.results.append(operation(self.evaluate(node.left), self.evaluate(node.right)))
        return self.results[-1]


def read(text: str) -> Expression | None:
    """The expression in a text; None if it is not plain arithmetic on whole numbers, or divides by zero."""
    if len(text) > LONGEST or PLAIN.fullmatch(text) is None:
        return None
    expression = Expression()
    try:
        plain = LEADING_ZEROS.sub("", " ".join(text.translate(SIGNS).split()))
        expression.value = expression.evaluate(ast.parse(plain, mode="eval").body)
    except (SyntaxError, KeyError, ZeroDivisionError):
        return None
    return expression
