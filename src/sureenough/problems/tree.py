"""Whole-number expressions as trees: rendered, evaluated, and reduced one operation at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from operator import add, floordiv, mul, sub
from typing import Final

RANK: Final = {"+": 1, "-": 1, "*": 2, "/": 2}
APPLY: Final[dict[str, Callable[[int, int], int]]] = {"+": add, "-": sub, "*": mul, "/": floordiv}


@dataclass(frozen=True, slots=True)
class Op:
    """An operation on two expressions; whoever builds a division makes it exact."""

    sign: str
    left: Tree
    right: Tree


Tree = int | Op


def value(tree: Tree) -> int:
    if isinstance(tree, int):
        return tree
    return APPLY[tree.sign](value(tree.left), value(tree.right))


def write(tree: Tree, space: str = "") -> str:
    """The expression in usual notation, with the brackets that it needs."""
    if isinstance(tree, int):
        return str(tree)
    left, right = write(tree.left, space), write(tree.right, space)
    if _rank(tree.left) < RANK[tree.sign]:
        left = f"({left})"
    # a-(b+c) and a/(b*c) need theirs; a+(b-c) and a*(b*c) keep them too, so that the tree can be read back.
    if _rank(tree.right) <= RANK[tree.sign]:
        right = f"({right})"
    return f"{left}{space}{tree.sign}{space}{right}"


def _rank(tree: Tree) -> int:
    return 3 if isinstance(tree, int) else RANK[tree.sign]


def step(tree: Op) -> tuple[Op, Tree]:
    """The innermost and leftmost operation, and the expression after it is carried out."""
    if isinstance(tree.left, Op):
        done, rest = step(tree.left)
        return done, Op(tree.sign, rest, tree.right)
    if isinstance(tree.right, Op):
        done, rest = step(tree.right)
        return done, Op(tree.sign, tree.left, rest)
    return tree, value(tree)


def operations(tree: Tree) -> int:
    return 0 if isinstance(tree, int) else 1 + operations(tree.left) + operations(tree.right)
