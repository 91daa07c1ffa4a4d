"""Names in front of a value or a condition: which symbol, angle or tuple `x = 5` and `x > 2` are about."""

from __future__ import annotations

import re

from sureenough.answers.brackets import split_outside_brackets
from sureenough.answers.cursor import GREEK
from sureenough.answers.vocabulary import RELATIONS

_ANGLES = frozenset(("\\angle", "\\measuredangle", '"angle'))


def is_symbol(tokens: list[str]) -> bool:
    """One letter, Latin or Greek, with its subscript; y' is a derivative, and y' = 2 is not y = 2."""
    if not tokens or not ((len(tokens[0]) == 1 and tokens[0].isalpha()) or tokens[0] in GREEK):
        return False
    script = tokens[1:]
    braced = script[1:2] == ["{"] and "}" in script and script.index("}") == len(script) - 1
    return not script or (script[0] == "_" and (len(script) == 2 or braced))


def is_name(tokens: list[str]) -> bool:
    """What may stand left of `= value`: a symbol, a tuple of symbols, an angle."""
    if is_symbol(tokens):
        return True
    if tokens[:1] == ["m"] and len(tokens) > 1 and tokens[1] in _ANGLES:
        tokens = tokens[1:]
    if tokens[:1] and tokens[0] in _ANGLES:
        letters = [token for token in tokens[1:] if token not in "{}"]
        return 0 < len(letters) <= 3 and all(letter.isalpha() or letter.startswith("\\mathbf") for letter in letters)
    if len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")":
        return all(is_symbol(part) for part in split_outside_brackets(tokens[1:-1], (",",)))
    return False


def subject(tokens: list[str]) -> str | None:
    """The name that `x > 2` or `x = 5` is about; "" if a relation is about no single name, None without a relation."""
    if RELATIONS.isdisjoint(tokens):
        return None
    sides = split_outside_brackets(tokens, RELATIONS)
    return next(("".join(side) for side in sides if is_name(side)), "") if len(sides) > 1 else None


def assignment(tokens: list[str]) -> tuple[str, list[str]] | None:
    """The name and value of `x = 5`, for lists such as x = 1, y = 2."""
    if "=" not in tokens:
        return None
    sides = split_outside_brackets(tokens, ("=",))
    named = is_name(sides[0]) and sides[0][0] != "("
    if len(sides) == 2 and sides[1] and named and RELATIONS.isdisjoint(sides[1]):
        return "".join(sides[0]), sides[1]
    return None


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort names as people count: x_2 before x_{10}."""
    return [(int(run or 0), text) for text, run in re.findall(r"(\D*)(\d{0,9})", name)]


def in_natural_order(names: list[str]) -> bool:
    return names == sorted(names, key=natural_order)
