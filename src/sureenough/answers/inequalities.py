"""Inequalities: one in a single symbol is the interval it describes, others are kept up to a positive factor."""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers.algebra import content, subtract
from sureenough.answers.atoms import INFINITY, Sum, Unreadable, has_symbols, narrow, symbols, write
from sureenough.answers.brackets import split_outside_brackets
from sureenough.answers.key_types import Key, Read, row_key
from sureenough.answers.names import is_symbol
from sureenough.answers.numerals import rational_text
from sureenough.answers.parse import MAX_TOKENS, parse_expression
from sureenough.answers.vocabulary import ORDER

_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}


def is_range(tokens: list[str]) -> bool:
    """Whether tokens say between what bounds one symbol lies: x > 2, 1 < x \\le 3."""
    if ORDER.isdisjoint(tokens):
        return False
    sides = split_outside_brackets(tokens, ORDER)
    return sum(map(is_symbol, sides)) == 1 and all(is_symbol(side) or is_closed(side) for side in sides)


def read_inequality(sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key | None:
    """The interval that an inequality describes; else its two sides up to a positive factor; None if it is neither."""
    return _interval(sides, signs, depth, read) or _inequality(sides, signs, read)


def _interval(sides: list[list[str]], signs: list[str], depth: int, read: Read) -> Key | None:
    """A < x \\le b as (a, b]; None unless one side is a symbol and the others are constants."""
    if len(sides) == 2:
        if is_symbol(sides[1]):
            sides, signs = sides[::-1], [_FLIPPED[signs[0]]]
        if not is_symbol(sides[0]) or not is_closed(sides[1]):
            return None
        low, high = (sides[1], ["\\infty"]) if signs[0] in (">", "\\ge") else (["-", "\\infty"], sides[1])
        opening = "[" if signs[0] == "\\ge" else "("
        closing = "]" if signs[0] == "\\le" else ")"
    elif len(sides) == 3 and is_symbol(sides[1]) and is_closed(sides[0]) and is_closed(sides[2]):
        if all(sign in (">", "\\ge") for sign in signs):
            sides, signs = sides[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
        if not all(sign in ("<", "\\le") for sign in signs):
            return None
        low, high = sides[0], sides[2]
        opening, closing = ("[" if signs[0] == "\\le" else "("), ("]" if signs[1] == "\\le" else ")")
    else:
        return None
    return row_key(*_brackets(opening, closing, [read(low, depth + 1), read(high, depth + 1)]))


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


def is_closed(tokens: list[str]) -> bool:
    try:
        return not symbols(parse_expression(tokens)) - {"\\infty"}
    except (Unreadable, ZeroDivisionError):
        return False
