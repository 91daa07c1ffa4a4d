"""Arithmetic by another road than the code's own: a walk over what Python's parser makes of it."""

from __future__ import annotations

import ast
import operator
from fractions import Fraction

SIGNS = {ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv}


def reckon(text: str, **letters: int) -> Fraction:
    """What a plain expression comes to."""
    return _walk(ast.parse(text.strip(), mode="eval").body, letters)


def _walk(node: ast.expr, letters: dict[str, int]) -> Fraction:
    match node:
        case ast.BinOp(left, sign, right):
            return Fraction(SIGNS[type(sign)](_walk(left, letters), _walk(right, letters)))
        case ast.UnaryOp(ast.USub(), inside):
            return -_walk(inside, letters)
        case ast.Constant(int(number)):
            return Fraction(number)
        case ast.Name(name):
            return Fraction(letters[name])
    raise AssertionError(ast.dump(node))
