"""Equations, inequalities, membership and approximation.

`name = value` is its value if the name is one symbol, a tuple of symbols or an angle; every other
equation is kept, up to a non-zero factor. An inequality in one symbol is the interval it describes.
"""

from __future__ import annotations

from sureenough.answers.algebra import atom_sum, inverse, multiply, subtract
from sureenough.answers.atoms import Atom, Monomial, Sum, Unreadable, has_symbols, symbols, write
from sureenough.answers.brackets import split_outside_brackets
from sureenough.answers.inequalities import is_closed, read_inequality
from sureenough.answers.key_types import Key, Read, row_key, set_key, unread_key
from sureenough.answers.names import in_natural_order, is_name, is_symbol, natural_order
from sureenough.answers.parse import MAX_TOKENS, parse_expression
from sureenough.answers.vocabulary import ORDER, RELATIONS


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
        return _equation(sides) or unread_key(tokens)
    if all(sign in ORDER for sign in signs):
        return read_inequality(sides, signs, depth, read) or unread_key(tokens)
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
        if has_symbols(parse_expression(value)) and title not in symbols(parse_expression(value)):
            return Key(
                "named",
                f"{title}={inside.text}",
                (inside, Key("expression", title, value=atom_sum(Atom.symbol(title)))),
            )
    return inside


def _equation(sides: list[list[str]]) -> Key | None:
    if len(sides) != 2:
        return None
    try:
        difference = subtract(parse_expression(sides[0]), parse_expression(sides[1]))
    except (Unreadable, ZeroDivisionError):
        return None
    return equation_key(difference)


def equation_key(difference: Sum) -> Key | None:
    """Difference = 0, divided by the coefficient of its first term; None if no symbol is in it."""
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
    return any(atom.unknown or any(has_symbols(arg) for arg in atom.args) for atom, _ in monomial)
