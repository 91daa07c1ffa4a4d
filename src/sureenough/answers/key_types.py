"""A key: the kind of an answer and its canonical text. Equal keys are the same answer."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import NamedTuple

from sureenough.answers.atoms import Sum

# In the order in which classes are formed: plain things first, so that they stand for their class.
KINDS = (
    "number", "choice", "expression", "text", "named", "tuple", "interval", "set", "union", "matrix",
    "equation", "inequality", "empty",
)  # fmt: skip
RANK = {kind: rank for rank, kind in enumerate(KINDS)}
_LONGEST_TEXT = 300


class _KeyFields(NamedTuple):
    kind: str
    text: str
    parts: tuple[Key, ...] = ()


class Key(_KeyFields):
    """What an answer is. `parts` are the keys inside a tuple, set, interval, union, matrix or named value.

    `value` is the sum that the text was written from, so that no comparison has to read the text again: read in its
    written order, an expression can outgrow bounds that it kept before. Keys with equal texts have equal values.
    """

    value: Sum | None = None

    @classmethod
    def of_sum(cls, kind: str, text: str, value: Sum) -> Key:
        key = cls(kind, text)
        key.value = value
        return key

    @property
    def order(self) -> tuple[int, int, str]:
        return RANK[self.kind], len(self.text), self.text


Read = Callable[[list[str], int], Key]
"""Reads the tokens of one part of an answer, at a depth of nesting."""

EMPTY = Key("empty", "")


def text_key(text: str) -> Key:
    """Prose, or mathematics beyond our reading: equal only to the same text."""
    if len(text) <= _LONGEST_TEXT:
        return Key("text", text) if text else EMPTY
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    return Key("text", f"{text[:40]}… {len(text)} {digest}")


def unread_key(tokens: list[str]) -> Key:
    """Tokens that are not read any further."""
    return text_key(" ".join(token.lstrip('"') for token in tokens))


def set_key(elements: list[Key]) -> Key:
    """A set: order and repetition do not matter, sets inside are opened, one element stands for itself."""
    flat: set[Key] = set()
    for element in elements:
        flat.update(element.parts if element.kind == "set" else (element,))
    return next(iter(flat)) if len(flat) == 1 else sorted_set(flat)


def sorted_set(elements: set[Key]) -> Key:
    parts = tuple(sorted(elements, key=lambda part: part.order))
    return Key("set", "\\{" + ",".join(part.text for part in parts) + "\\}", parts)


def row_key(kind: str, opening: str, parts: list[Key], closing: str) -> Key:
    """A tuple or an interval: order matters, and so do an interval's brackets."""
    return Key(kind, opening + ",".join(part.text for part in parts) + closing, tuple(parts))


def interval_key(opening: str, low: Key, high: Key, closing: str) -> Key:
    """An open interval has the key of a pair: a question has either points or intervals for its answer."""
    return row_key("tuple" if opening + closing == "()" else "interval", opening, [low, high], closing)


def matrix_key(rows: list[list[Key]]) -> Key:
    body = "\\\\".join("&".join(entry.text for entry in row) for row in rows)
    return Key("matrix", f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}", tuple(e for row in rows for e in row))
