"""Equations, inequalities, membership and approximation.

`name = value` is its value if the name is one symbol, a tuple of symbols or an angle; every other
equation is kept, up to a non-zero factor. An inequality in one symbol is the interval it describes; others are kept, up
to a positive factor.
"""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers.algebra import atom_sum, content, inverse, multiply, subtract
from sureenough.answers.atoms import INFINITY, Atom, Monomial, Sum, Unreadable, narrow, symbols, write
from sureenough.answers.brackets import split_outside_brackets
from sureenough.answers.key_types import Key, Read, interval_key, row_key, set_key, unread_key
from sureenough.answers.names import in_natural_order, is_name, is_symbol, natural_order
from sureenough.answers.numerals import rational_text
from sureenough.answers.parse import MAX_TOKENS, parse_expression
from sureenough.answers.vocabulary import ORDER, RELATIONS

_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}


def read_relation(tokens: list[str], depth: int, read: Read) -> Key | None:
    """The key of tokens with a relation outside all brackets; None if there is none."""
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
        difference = _difference(sides)
        return (None if difference is None else equation_key(difference)) or unread_key(tokens)
    if all(sign in ORDER for sign in signs):
        return _interval(sides, signs, depth, read) or _inequality(sides, signs, read) or unread_key(tokens)
    return unread_key(tokens)


def _approximate(tokens: list[str], sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key:
    """X \\approx 11 is 11; but 2\\pi \\approx 6.28 is 2\\pi, for the exact value was given."""
    cut = signs.index("\\approx")
    if is_closed(sides[cut]):
        return read(tokens[: sum(len(side) + 1 for side in sides[: cut + 1]) - 1], depth + 1)
    return read(["=" if token == "\\approx" else token for token in tokens], depth + 1)  # P(A) \approx 0.3


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


def _named(name: list[str], value: list[str], depth: int, read: Read) -> Key:
    """The value; if it has symbols, as in y = 2x + 3, the name is kept to compare it with equations."""
    inside = read(value, depth + 1)
    if inside.kind == "expression" and is_symbol(name):
        title = write(parse_expression(name)) if name[0] not in ("e", "i") else "".join(name)
        names = symbols(parse_expression(value))
        if names and title not in names:
            label = Key.of_sum("expression", title, atom_sum(Atom.symbol(title)))
            return Key("named", f"{title}={inside.text}", (inside, label))
    return inside


def _difference(sides: list[list[str]]) -> Sum | None:
    """Left side minus right side; None if these are not two sides that can be read."""
    try:
        return subtract(*map(parse_expression, sides)) if len(sides) == 2 else None
    except (Unreadable, ZeroDivisionError):
        return None


def equation_key(difference: Sum) -> Key | None:
    """Difference = 0, divided by the coefficient of its first term; None if no symbol is in it."""
    if not symbols(difference):
        return None
    scaled = monic(difference)
    text = write(scaled)
    return Key.of_sum("equation", text, scaled) if len(text) <= MAX_TOKENS else None


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
    return any(atom.unknown or any(map(symbols, atom.args)) for atom, _ in monomial)


# -- inequalities


def is_range(tokens: list[str]) -> bool:
    """Whether tokens say between what bounds one symbol lies: x > 2, 1 < x \\le 3."""
    if ORDER.isdisjoint(tokens):
        return False
    sides = split_outside_brackets(tokens, ORDER)
    return sum(map(is_symbol, sides)) == 1 and all(is_symbol(side) or is_closed(side) for side in sides)


def is_closed(tokens: list[str]) -> bool:
    try:
        return not symbols(parse_expression(tokens)) - {"\\infty"}
    except (Unreadable, ZeroDivisionError):
        return False


def _interval(sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key | None:
    """A < x \\le b as (a, b]; None unless one side is a symbol and the others are constants."""
    if len(sides) == 2:
        if is_symbol(sides[1]):
            sides, signs = sides[::-1], [_FLIPPED[signs[0]]]
        described = is_symbol(sides[0]) and is_closed(sides[1])
        return _ray(signs[0], read(sides[1], depth + 1), depth + 1, read) if described else None
    if len(sides) != 3 or not (is_symbol(sides[1]) and is_closed(sides[0]) and is_closed(sides[2])):
        return None
    if all(sign in (">", "\\ge") for sign in signs):
        sides, signs = sides[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
    if not all(sign in ("<", "\\le") for sign in signs):
        return None
    opening, closing = ("[" if signs[0] == "\\le" else "("), ("]" if signs[1] == "\\le" else ")")
    return interval_key(opening, read(sides[0], depth + 1), read(sides[2], depth + 1), closing)


def _ray(sign: str, bound: Key, depth: int, read: Read) -> Key:
    """The interval of x > bound, x \\le bound and so on."""
    if sign in (">", "\\ge"):
        return interval_key("[" if sign == "\\ge" else "(", bound, read(["\\infty"], depth), ")")
    return interval_key("(", read(["-", "\\infty"], depth), bound, "]" if sign == "\\le" else ")")


def _solved(difference: Sum, sign: str, read: Read) -> Key | None:
    """The interval that c x + d < 0 describes; None if it is not linear in one symbol."""
    terms = [monomial for monomial in difference if monomial]
    if len(terms) != 1 or len(terms[0]) != 1 or terms[0][0][1] != 1:
        return None
    symbol = terms[0][0][0]
    if symbol.name != "symbol" or symbol is INFINITY:
        return None
    factor = difference[terms[0]]
    bound = Key("number", rational_text(narrow(Fraction(-difference.get((), 0)) / factor)))
    return _ray(sign if factor > 0 else _FLIPPED[sign], bound, 0, read)


def _inequality(sides: list[list[str]], signs: list[str], read: Read) -> Key | None:
    """The interval of an inequality that is linear in one symbol; else its two sides up to a positive factor."""
    difference = _difference(sides)
    if difference is None or not symbols(difference):
        return None
    if (solved := _solved(difference, signs[0], read)) is not None:
        return solved
    unit, primitive = content(difference, signed=True)
    sign = signs[0] if unit > 0 else _FLIPPED[signs[0]]
    text = write(primitive)
    return Key.of_sum("inequality", f"{sign} {text}", primitive) if len(text) <= MAX_TOKENS else None
