"""Equations, inequalities, membership and approximation.

`name = value` is its value where the name is one symbol, a tuple of symbols or an angle; every other
equation is kept, up to a non-zero factor. An inequality in one symbol is the interval it describes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from sureenough.answers.algebra import atom, content, inverse, multiply, subtract
from sureenough.answers.atoms import Atom, Monomial, Sum, Unreadable, narrow, write
from sureenough.answers.brackets import split_outside_brackets
from sureenough.answers.cursor import GREEK
from sureenough.answers.key_types import Key, row_key, set_key, unread_key
from sureenough.answers.numerals import rational_text
from sureenough.answers.parse import MAX_TOKENS, parse_expression

RELATIONS = frozenset(("=", "<", ">", "\\le", "\\ge", "\\ne", "\\approx", "\\in", "\\sim", "\\equiv"))
ORDER = frozenset(("<", ">", "\\le", "\\ge"))
_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}
_ANGLES = frozenset(("\\angle", "\\measuredangle", '"angle'))
Read = Callable[[list[str], int], Key]


def read_relation(tokens: list[str], depth: int, read: Read) -> Key | None:
    """The key of tokens with a relation outside all brackets; None where there is none."""
    sides = split_outside_brackets(tokens, RELATIONS)
    if len(sides) < 2:
        return None
    signs, at = [], -1
    for side in sides[:-1]:
        at += len(side) + 1
        signs.append(tokens[at])
    if "\\approx" in signs:
        return _approximate(tokens, sides, signs, depth, read)
    if signs == ["\\in"] and is_name(sides[0]):
        return read(sides[1], depth + 1)
    if all(sign == "=" for sign in signs):
        if is_name(sides[0]) and sides[-1]:
            if sides[0][0] == "(":
                return _ordered(sides[0], read(sides[-1], depth + 1)) or unread_key(tokens)
            return _named(sides[0], sides[-1], depth, read)
        return _equation(sides) or unread_key(tokens)
    if all(sign in ORDER for sign in signs):
        return _interval(sides, signs, depth, read) or _inequality(sides, signs, read) or unread_key(tokens)
    return unread_key(tokens)


def _approximate(tokens: list[str], sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key:
    """X \\approx 11 is 11; but 2\\pi \\approx 6.28 is 2\\pi, for the exact value was given."""
    cut = signs.index("\\approx")
    if _closed(sides[cut]):
        return read(tokens[: sum(len(side) + 1 for side in sides[: cut + 1]) - 1], depth + 1)
    return read(["=" if token == "\\approx" else token for token in tokens], depth + 1)  # P(A) \approx 0.3


def is_symbol(tokens: list[str]) -> bool:
    """One letter, Latin or Greek, with its subscript; y' is a derivative, and y' = 2 is not y = 2."""
    if not tokens or not ((len(tokens[0]) == 1 and tokens[0].isalpha()) or tokens[0] in GREEK):
        return False
    rest = tokens[1:]
    if not rest:
        return True
    return rest[0] == "_" and (
        len(rest) == 2 or (rest[1] == "{" and rest.index("}") == len(rest) - 1 if "}" in rest else False)
    )


def is_name(tokens: list[str]) -> bool:
    """What may stand left of `= value`: a symbol, a tuple of symbols, an angle."""
    if is_symbol(tokens):
        return True
    if tokens[:1] == ["m"] and len(tokens) > 1 and tokens[1] in _ANGLES:
        tokens = tokens[1:]
    if tokens[:1] and tokens[0] in _ANGLES:
        letters = [token for token in tokens[1:] if token not in "{}"]
        return 0 < len(letters) <= 3 and all(len(letter) == 1 and letter.isalpha() for letter in letters)
    if len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")":
        return all(is_symbol(part) for part in split_outside_brackets(tokens[1:-1], (",",)))
    return False


def subject(tokens: list[str]) -> str | None:
    """The name that `x > 2` or `x = 5` is about; "" if a relation is about no single name, None without a relation."""
    if RELATIONS.isdisjoint(tokens):
        return None
    sides = split_outside_brackets(tokens, RELATIONS)
    return next(("".join(side) for side in sides if is_name(side)), "") if len(sides) > 1 else None


def natural_order(name: str) -> list[tuple[int, str]]:
    """Sort names as people count: x_2 before x_{10}."""
    return [(int(run or 0), text) for text, run in re.findall(r"(\D*)(\d{0,9})", name)]


def in_natural_order(names: list[str]) -> bool:
    return names == sorted(names, key=natural_order)


def _ordered(names: list[str], value: Key) -> Key | None:
    """The tuple that (y, x) = (1, 2) gives, in the order of the names; None if it is not such a tuple."""
    titles = ["".join(part) for part in split_outside_brackets(names[1:-1], (",",))]
    if in_natural_order(titles):
        return value
    order = sorted(range(len(titles)), key=lambda at: natural_order(titles[at]))
    rows = value.parts if value.kind == "set" else (value,)
    if any(row.kind != "tuple" or len(row.parts) != len(titles) for row in rows):
        return None
    return set_key([row_key("tuple", "(", [row.parts[at] for at in order], ")") for row in rows])


def is_range(tokens: list[str]) -> bool:
    """Whether tokens say between what bounds one symbol lies: x > 2, 1 < x \\le 3."""
    if ORDER.isdisjoint(tokens):
        return False
    sides = split_outside_brackets(tokens, ORDER)
    return sum(map(is_symbol, sides)) == 1 and all(is_symbol(side) or _closed(side) for side in sides)


def assignment(tokens: list[str]) -> tuple[str, list[str]] | None:
    """The name and value of `x = 5`, for lists such as x = 1, y = 2."""
    if "=" not in tokens:
        return None
    sides = split_outside_brackets(tokens, ("=",))
    named = is_name(sides[0]) and sides[0][0] != "("
    if len(sides) == 2 and sides[1] and named and RELATIONS.isdisjoint(sides[1]):
        return "".join(sides[0]), sides[1]
    return None


def _named(name: list[str], value: list[str], depth: int, read: Read) -> Key:
    """The value; and where that is a function, y = 2x + 3, the name is kept to compare it with equations."""
    inside = read(value, depth + 1)
    if inside.kind == "expression" and is_symbol(name):
        title = write(parse_expression(name)) if name[0] not in ("e", "i") else "".join(name)
        if has_symbols(parse_expression(value)) and title not in symbols(parse_expression(value)):
            return Key(
                "named", f"{title}={inside.text}", (inside, Key("expression", title, value=atom(Atom.symbol(title))))
            )
    return inside


def symbols(total: Sum) -> set[str]:
    """The names of the symbols in a sum."""
    found: set[str] = set()
    for monomial in total:
        for thing, _ in monomial:
            if thing.unknown:
                found.add(thing.text)
            for inside in thing.args:
                found |= symbols(inside)
    return found


def has_symbols(total: Sum) -> bool:
    return bool(symbols(total))


def _equation(sides: list[list[str]]) -> Key | None:
    if len(sides) != 2:
        return None
    try:
        difference = subtract(parse_expression(sides[0]), parse_expression(sides[1]))
    except (Unreadable, ZeroDivisionError):
        return None
    return equation_key(difference)


def equation_key(difference: Sum) -> Key | None:
    """Difference = 0, divided by the coefficient of its first term; None where no symbol is in it."""
    if not has_symbols(difference):
        return None
    scaled = monic(difference)
    text = write(scaled)
    return Key("equation", text, value=scaled) if len(text) <= MAX_TOKENS else None


def monic(total: Sum) -> Sum:
    """A sum divided by the constant before its first power of symbols, roots and \\pi included."""
    lead = min((_variables(m) for m in total if _open(m)), key=lambda pairs: [(a.text, -e) for a, e in pairs])
    factor: Sum = {}
    for monomial, value in total.items():
        if _variables(monomial) == lead:
            factor[tuple(pair for pair in monomial if pair not in lead)] = value
    return multiply(total, inverse(factor))


def _variables(monomial: Monomial) -> Monomial:
    return tuple(pair for pair in monomial if _open((pair,)))


def _open(monomial: Monomial) -> bool:
    return any(thing.unknown or any(has_symbols(arg) for arg in thing.args) for thing, _ in monomial)


def _interval(sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key | None:
    """A < x \\le b as (a, b]; None unless one side is a symbol and the others are constants."""
    if len(sides) == 2:
        if is_symbol(sides[1]):
            sides, signs = sides[::-1], [_FLIPPED[signs[0]]]
        if not is_symbol(sides[0]) or not _closed(sides[1]):
            return None
        low, high = (sides[1], ["\\infty"]) if signs[0] in (">", "\\ge") else (["-", "\\infty"], sides[1])
        opening = "[" if signs[0] == "\\ge" else "("
        closing = "]" if signs[0] == "\\le" else ")"
    elif len(sides) == 3 and is_symbol(sides[1]) and _closed(sides[0]) and _closed(sides[2]):
        if all(sign in (">", "\\ge") for sign in signs):
            sides, signs = sides[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
        if not all(sign in ("<", "\\le") for sign in signs):
            return None
        low, high = sides[0], sides[2]
        opening, closing = ("[" if signs[0] == "\\le" else "("), ("]" if signs[1] == "\\le" else ")")
    else:
        return None
    return row_key(*_brackets(opening, closing, [read(low, depth + 1), read(high, depth + 1)]))


def _closed(tokens: list[str]) -> bool:
    try:
        return not symbols(parse_expression(tokens)) - {"\\infty"}
    except (Unreadable, ZeroDivisionError):
        return False


def _solved(difference: Sum, sign: str, read: Read) -> Key | None:
    """The interval that c x + d < 0 describes; None if it is not linear in one symbol."""
    terms = [monomial for monomial in difference if monomial]
    if len(terms) != 1 or len(terms[0]) != 1 or terms[0][0][0].name != "symbol" or terms[0][0][1] != 1:
        return None
    factor = difference[terms[0]]
    bound = Key("number", rational_text(narrow(Fraction(-difference.get((), 0)) / factor)))
    sign = sign if factor > 0 else _FLIPPED[sign]
    if sign in (">", "\\ge"):
        return row_key(*_brackets("[" if sign == "\\ge" else "(", ")", [bound, read(["\\infty"], 0)]))
    return row_key(*_brackets("(", "]" if sign == "\\le" else ")", [read(["-", "\\infty"], 0), bound]))


def _brackets(opening: str, closing: str, ends: list[Key]) -> tuple[str, str, list[Key], str]:
    """An open interval has the key of a pair: a question has either points or intervals for its answer."""
    return "tuple" if (opening, closing) == ("(", ")") else "interval", opening, ends, closing


def _inequality(sides: list[list[str]], signs: list[str], read: Read) -> Key | None:
    if len(sides) != 2:
        return None
    try:
        difference = subtract(parse_expression(sides[0]), parse_expression(sides[1]))
    except (Unreadable, ZeroDivisionError):
        return None
    if not has_symbols(difference):
        return None
    if (solved := _solved(difference, signs[0], read)) is not None:
        return solved
    unit, primitive = content(difference, signed=True)
    sign = signs[0] if unit > 0 else _FLIPPED[signs[0]]
    text = write(primitive)
    return Key("inequality", f"{sign} {text}", value=primitive) if len(text) <= MAX_TOKENS else None
