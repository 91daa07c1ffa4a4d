"""Keys, and how those of several values make one: sets, tuples, intervals, unions, matrices.

A key is the kind of an answer and its canonical text; equal keys are the same answer.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from fractions import Fraction
from typing import NamedTuple

from sureenough.answers.math.algebra import Rational, Sum, Unreadable, constant, narrow, number, write, write_rational
from sureenough.answers.math.parse import MAX_DIGITS, MAX_TOKENS

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
    """What an answer is. `parts` are the keys inside a tuple, set, interval, union, matrix or named value."""

    written_from: Sum | None = None

    @property
    def value(self) -> Sum:
        """The sum that the text stands for.

        It is kept where the text was written from it, because an expression that is read in its written order can
        outgrow bounds that it kept before. Keys with equal texts have equal values.
        """
        return number(narrow(self.exact)) if self.written_from is None else self.written_from

    @property
    def exact(self) -> Fraction:
        """The value of a number; a subscript that names a base is a note, not part of the value."""
        return Fraction(self.text.partition("_")[0])

    @property
    def base(self) -> str:
        """The base that a number names, such as {8} in 52_{8}; empty if it names none."""
        return self.text.partition("_")[2]

    @property
    def rounded(self) -> bool:
        """Whether a number is a long decimal, which is taken for the rounding of another."""
        return "." in self.text

    @property
    def shape(self) -> tuple[str, str, str, int]:
        """What rows must share to be the same: their brackets, and the number of their parts."""
        return self.kind, self.text[:1], self.text[-1:], len(self.parts)

    @property
    def order(self) -> tuple[int, int, str]:
        return RANK[self.kind], len(self.text), self.text


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


def sum_key(total: Sum, kind: str = "expression", before: str = "") -> Key:
    """The key of a sum that is not rational, its text short enough to be read again."""
    key = Key(kind, before + write(total))
    if len(key.text) > MAX_TOKENS:
        raise Unreadable("an expression too long to read back")
    key.written_from = total
    return key


def rational_text(value: Rational) -> str:
    """3 or 1/3, as int and Fraction print."""
    write_rational(value)  # raises if that would be too long
    text = str(value)
    if len(text) > MAX_DIGITS:
        raise Unreadable("a number too long to write")
    return text


def value_key(total: Sum) -> Key:
    """The key of a sum: a number if its value is rational, else an expression."""
    value = constant(total)
    return sum_key(total) if value is None else Key("number", rational_text(value))


def set_key(elements: Iterable[Key]) -> Key:
    """A set: order and repetition do not matter, sets inside are opened, one element stands for itself."""
    flat = {part for element in elements for part in (element.parts if element.kind == "set" else (element,))}
    return flat.pop() if len(flat) == 1 else sorted_set(flat)


def sorted_set(elements: set[Key]) -> Key:
    parts = tuple(sorted(elements, key=lambda part: part.order))
    return Key("set", "\\{" + ",".join(part.text for part in parts) + "\\}", parts)


def row_key(parts: Iterable[Key], opening: str = "(", closing: str = ")") -> Key:
    """A tuple or an interval: order matters, and so do an interval's brackets.

    An open interval has the key of a pair: a question has either points or intervals for its answer.
    """
    parts = tuple(parts)
    kind = "tuple" if opening + closing == "()" else "interval"
    return Key(kind, opening + ",".join(part.text for part in parts) + closing, parts)


def matrix_key(rows: list[list[Key]]) -> Key:
    body = "\\\\".join("&".join(entry.text for entry in row) for row in rows)
    return Key("matrix", f"\\begin{{pmatrix}}{body}\\end{{pmatrix}}", tuple(e for row in rows for e in row))


# -- unions of intervals: order does not matter, and what overlaps or touches is one interval


_ENDLESS = {"\\infty": 1, "-\\infty": -1}
_End = tuple[int, Fraction, bool, Key]
"""An end of an interval, to sort by: its infinity or value, and whether it lies just above that."""


def interval_union(parts: Iterable[Key]) -> Key:
    """The union of intervals, merged if their ends are plain numbers; a single interval is returned as it is."""
    flat = {one for part in parts for one in (part.parts if part.kind == "union" else (part,))}
    spans = [span for part in flat if (span := _span(part))]
    if len(spans) == len(flat):
        merged: list[tuple[_End, _End]] = []
        for low, high in sorted(spans):
            if merged and low <= merged[-1][1]:
                low, last = merged.pop()
                high = max(last, high)
            merged.append((low, high))
        flat = {_interval(low, high) for low, high in merged}
    ordered = tuple(sorted(flat, key=lambda part: part.order))
    return ordered[0] if len(ordered) == 1 else Key("union", "\\cup ".join(part.text for part in ordered), ordered)


def _span(part: Key) -> tuple[_End, _End] | None:
    if part.kind not in ("tuple", "interval") or len(part.parts) != 2:
        return None
    low, high = _end(part.parts[0], part.text[0] != "["), _end(part.parts[1], part.text[-1] == "]")
    return (low, high) if low and high and low < high else None


def _end(key: Key, above: bool) -> _End | None:
    """5 is (0, 5, False) as the end of ..., 5) or [5, ..., and (0, 5, True) as that of ..., 5] or (5, ..."""
    if key.text in _ENDLESS:
        return _ENDLESS[key.text], Fraction(0), False, key
    if key.kind != "number" or key.rounded:
        return None
    return 0, key.exact, above, key


def _interval(low: _End, high: _End) -> Key:
    return row_key((low[3], high[3]), "(" if low[0] or low[2] else "[", "]" if high[2] else ")")
