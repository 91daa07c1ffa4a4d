"""Keys, and what is made of several: lists, sets, tuples, intervals, unions, matrices, equations and inequalities.

A key is the kind of an answer and its canonical text; equal keys are the same answer. `name = value` is its value if
the name is one symbol, a tuple of symbols or an angle; every other equation is kept, up to a non-zero factor. An
inequality in one symbol is the interval it describes; others are kept, up to a positive factor.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

from sureenough.answers.math import numerals
from sureenough.answers.math.algebra import (
    INFINITY,
    Atom,
    Monomial,
    Sum,
    Unreadable,
    atom_sum,
    constant,
    content,
    inverse,
    multiply,
    narrow,
    number,
    subtract,
    symbols,
    write,
)
from sureenough.answers.math.parse import GREEK, MAX_TOKENS, parse_expression
from sureenough.answers.math.tokens import LISTING, ORDER, RELATIONS, closes_at_end, is_word, split_outside_brackets

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


# -- names in front of a value or a condition: which symbol, angle or tuple `x = 5` and `x > 2` are about


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


# -- unions of intervals: order does not matter, and what overlaps or touches is one interval


_ENDLESS = {"\\infty": True, "-\\infty": False}


class _Span(NamedTuple):
    """An interval with rational or infinite ends; an end compares by (value, how far it reaches)."""

    low: tuple[int, Fraction, int]
    high: tuple[int, Fraction, int]
    first: Key
    last: Key


def interval_union(parts: list[Key]) -> Key:
    """The union of intervals, merged if their ends are plain numbers; a single interval is returned as it is."""
    flat: list[Key] = []
    for part in parts:
        flat.extend(part.parts if part.kind == "union" else (part,))
    spans = [_span(part) for part in flat]
    if all(spans):
        flat = [_row(span) for span in _merged([span for span in spans if span is not None])]
    ordered = tuple(sorted(set(flat), key=lambda part: part.order))
    if len(ordered) == 1:
        return ordered[0]
    return Key("union", "\\cup ".join(part.text for part in ordered), ordered)


def _span(part: Key) -> _Span | None:
    if part.kind not in ("tuple", "interval") or len(part.parts) != 2:
        return None
    low = _end(part.parts[0], 0 if part.text[0] == "[" else 1)
    high = _end(part.parts[1], 1 if part.text[-1] == "]" else 0)
    if low is None or high is None or high <= low:
        return None
    return _Span(low, high, part.parts[0], part.parts[1])


def _end(key: Key, reach: int) -> tuple[int, Fraction, int] | None:
    """An end of an interval as something to sort by: 5 from below is (0, 5, 0), just above it (0, 5, 1)."""
    if key.text in _ENDLESS:
        return (1 if _ENDLESS[key.text] else -1), Fraction(0), 0
    if key.kind != "number" or numerals.is_rounded_decimal(key.text):
        return None
    return 0, numerals.exact_value(key.text), reach


def _merged(spans: list[_Span]) -> list[_Span]:
    out: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.low, span.high)):
        if out and span.low <= out[-1].high:
            if span.high > out[-1].high:
                out[-1] = out[-1]._replace(high=span.high, last=span.last)
        else:
            out.append(span)
    return out


def _row(span: _Span) -> Key:
    opening = "[" if span.low[0] == 0 and span.low[2] == 0 else "("
    closing = "]" if span.high[2] == 1 else ")"
    return interval_key(opening, span.first, span.last, closing)


# -- equations, inequalities, membership and approximation


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
    bound = Key("number", numerals.rational_text(narrow(Fraction(-difference.get((), 0)) / factor)))
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


# -- lists without brackets: a set, or a tuple in the order of names if the parts are assignments to different names


MAX_PARTS = 200


def read_list(tokens: list[str], depth: int, read: Read) -> Key | None:
    """A bare list is a set; a list of assignments to different names is a tuple in the names' order."""
    if "," not in tokens and ";" not in tokens and LISTING.isdisjoint(tokens):
        return None
    parts = [part for part in split_outside_brackets(tokens, (",", ";", *LISTING)) if part]
    if len(parts) < 2:
        return None
    if len(parts) > MAX_PARTS:
        return unread_key(tokens)
    named = [assignment(part) for part in parts]
    if all(named):
        return _assigned([pair for pair in named if pair], '"or' in tokens, depth, read) or unread_key(tokens)
    subjects = [subject(part) for part in parts]
    if subjects[0] and not any(subject is not None for subject in subjects[1:]):
        if named[0]:
            parts[0] = named[0][1]  # x = 1, 2 names the whole list, and so does (x, y) = (1, 2), (3, 4)
        elif subjects[0][0] == "(" and not in_natural_order(subjects[0][1:-1].split(",")):
            return unread_key(tokens)
    elif any(subjects) and len(set(subjects)) > 1:
        return set_key([unread_key(part) for part in parts])  # x > 1, y > 2 is not x > 2, y > 1
    keys = [read(part, depth + 1) for part in parts]
    if '"or' in tokens and all(is_range(part) for part in parts):
        return interval_union(keys)  # x < 1 or x > 2
    # "5 or more" is not a list of two, nor is "1, 2, 3, ..."; but "I and II" is.
    kinds = {key.kind for key in keys} - {"choice"}
    if ("text" in kinds and len(kinds) > 1) or _units_differ(parts, keys):
        return unread_key(tokens)
    return set_of_parts(list(zip(parts, keys, strict=True)))


def _units_differ(parts: list[list[str]], keys: list[Key]) -> bool:
    """Whether values have units that tell them apart: 2 hours and 30 minutes is not 30 hours and 2 minutes."""
    values = [part for part, key in zip(parts, keys, strict=True) if key.kind in ("number", "expression")]
    units = {tuple(filter(is_word, part)) for part in values} - {()}
    return len(units) > 1


def set_of_parts(parts: list[tuple[list[str], Key]]) -> Key:
    """A set; sets in braces inside it stay sets of their own: {{1,2},{3}} is not {{1},{2,3}}."""
    nested = [part[:1] == ["\\{"] and closes_at_end(part) for part, _ in parts]
    if not any(nested):
        return set_key([key for _, key in parts])
    elements = [
        Key("set", f"\\{{{key.text}\\}}", (key,)) if inner and key.kind != "set" else key
        for inner, (_, key) in zip(nested, parts, strict=True)
    ]
    return sorted_set(set(elements))


def _assigned(pairs: list[tuple[str, list[str]]], either: bool, depth: int, read: Read) -> Key | None:
    """X = 1 or x = 2 is a set; x = 1, y = 2 a tuple in the order of names; several of those, their set."""
    names = sorted({name for name, _ in pairs}, key=natural_order)
    if len(names) == 1:
        return set_key([read(value, depth + 1) for _, value in pairs])
    if either and len(pairs) == len(names):
        return None  # x = 1 or y = 2
    rows: list[Key] = []
    for start in range(0, len(pairs), len(names)):
        row = dict(pairs[start : start + len(names)])
        if sorted(row, key=natural_order) != names:
            return None
        rows.append(row_key("tuple", "(", [read(row[name], depth + 1) for name in names], ")"))
    return set_key(rows)


# -- matrices


ENVIRONMENT = "\\begin"
_NAMES = frozenset(('"pmatrix', '"bmatrix', '"matrix', '"smallmatrix', '"array'))
_ROW = "\\\\"
MAX_ENTRIES = 100


def read_matrix(tokens: list[str], depth: int, read: Read) -> Key | None:
    """The key of one matrix, with its factor; None for anything else between \\begin and \\end."""
    start = tokens.index(ENVIRONMENT)
    name = tokens[start + 2 : start + 3]
    if not name or name[0] not in _NAMES or tokens[-4:] != ["\\end", "{", name[0], "}"]:
        return None
    body = tokens[start + 4 : -4]
    if ENVIRONMENT in body or len(body) > 1000:
        return None
    if name[0] == '"array' and body[:1] == ["{"]:
        body = body[body.index("}") + 1 :]
    rows = _rows(body)
    if sum(map(len, rows)) > MAX_ENTRIES or len({len(row) for row in rows}) != 1:
        return None
    factor = tokens[:start]
    if factor[-1:] == ["*"]:
        factor = factor[:-1]
    if not factor:
        return matrix_key([[read(entry, depth + 1) for entry in row] for row in rows])
    return _scaled(factor, rows)


def _rows(body: list[str]) -> list[list[list[str]]]:
    rows: list[list[list[str]]] = [[[]]]
    for token in body:
        if token == _ROW:
            rows.append([[]])
        elif token == "&":
            rows[-1].append([])
        elif token != "\\hline":
            rows[-1][-1].append(token)
    return rows[:-1] if rows[-1] == [[]] and len(rows) > 1 else rows


def _scaled(factor: list[str], rows: list[list[list[str]]]) -> Key | None:
    try:
        times = number(-1) if factor == ["-"] else parse_expression(factor)
        return matrix_key([[_entry(multiply(times, parse_expression(entry))) for entry in row] for row in rows])
    except Unreadable:
        return None


def _entry(total: Sum) -> Key:
    value = constant(total)
    if value is not None:
        return Key("number", numerals.rational_text(value))
    text = write(total)
    if len(text) > MAX_TOKENS:
        raise Unreadable("an entry too long to read back")
    return Key.of_sum("expression", text, total)
