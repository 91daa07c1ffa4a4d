"""`canonical_key(answer)`: the kind of an answer and its one canonical form, without any symbolic library.

The order of the tests matters: list, union, relation, bracket, matrix, sign choice, expression. `name = value` is its
value if the name is one symbol, a tuple of symbols or an angle; every other equation is kept, up to a non-zero factor.
An inequality in one symbol is the interval it describes; others are kept, up to a positive factor.
"""

from __future__ import annotations

import logging
import re
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, product
from math import prod

from sureenough.answers.math.algebra import (
    INFINITY,
    Atom,
    Monomial,
    Sum,
    Unreadable,
    atom_sum,
    content,
    inverse,
    multiply,
    narrow,
    subtract,
    symbols,
    write,
)
from sureenough.answers.math.parse import MAX_DIGITS, parse_expression
from sureenough.answers.math.structures import (
    EMPTY,
    Key,
    interval_union,
    matrix_key,
    rational_text,
    row_key,
    set_key,
    sorted_set,
    sum_key,
    text_key,
    unread_key,
    value_key,
)
from sureenough.answers.math.tokens import (
    CLOSE,
    LISTING,
    OPEN,
    ORDER,
    RELATIONS,
    ROMAN,
    choice_letter,
    closes_at_end,
    common_wording,
    group_end,
    has_prose,
    is_letter,
    is_numeral,
    is_word,
    read_number_words,
    split_outside_brackets,
    strip_punctuation,
    strip_units,
    tokenise,
    unwrapped,
)

_LOG = logging.getLogger(__name__)
MAX_LENGTH = 2000
MAX_NESTING = 24  # brackets inside brackets; an expression may have fewer
MAX_PARTS = 200
MAX_SIGNS = 4
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{4}", re.ASCII)
_LONGEST_NUMBER = 8  # tokens
_NOT_READ = (Unreadable, ZeroDivisionError)


def canonical_key(answer: str) -> Key:
    """The key of an answer, as extracted."""
    answer = answer.strip()
    if len(answer) > MAX_LENGTH:
        return text_key(answer)
    try:
        return _cached_key(answer)
    except RecursionError:  # our own depth is bounded, the caller's is not
        return unread_key(tokenise(unwrapped(answer)))
    except Exception:  # an error of ours must not end a run: such an answer equals only the same text
        _LOG.exception("reading an answer failed")
        return text_key(answer)


@lru_cache(maxsize=16384)
def _cached_key(answer: str) -> Key:
    answer = unwrapped(answer)
    number = numeral_text(answer)
    if number is not None:
        return Key("number", number)
    if answer[:1].isdigit() and _DATE.fullmatch(answer):
        return text_key(answer)  # a difference or a quotient would be some other date's too
    return key_of_tokens(tokenise(answer))


def key_of_tokens(tokens: list[str]) -> Key:
    """The key of a token list: the whole answer, or one part of it; what cannot be read is kept as text."""
    tokens = strip_punctuation(tokens)
    if not tokens:
        return EMPTY
    tokens = read_number_words(tokens)
    letter = choice_letter(tokens)
    if letter is not None:
        return Key("choice", letter)
    if len(tokens) > 1 and ROMAN.issuperset(tokens):
        return text_key("".join(tokens).casefold())  # IV is not VI, nor II the square of I
    try:
        return _list(tokens) or _KNOWN.get("".join(tokens)) or _single(tokens)
    except _NOT_READ:
        return unread_key(tokens)


def _single(tokens: list[str]) -> Key:
    if any(map(is_word, tokens)) and _ENVIRONMENT not in tokens and has_prose(tokens):
        if (inside := _bracketed(tokens)) is not None:
            return inside
        core = strip_units(tokens)
        return unread_key(common_wording(tokens)) if core is None else key_of_tokens(core)
    if "\\cup" in tokens and len(parts := split_outside_brackets(tokens, ("\\cup",))) > 1:
        return interval_union(map(key_of_tokens, parts))
    if not RELATIONS.isdisjoint(tokens) and (related := _relation(tokens)) is not None:
        return related
    if (inside := _bracketed(tokens)) is not None:
        return inside
    if _ENVIRONMENT in tokens:
        return _matrix(tokens)
    return _signs(tokens) if "\\pm" in tokens or "\\mp" in tokens else _expression(tokens)


def _expression(tokens: list[str]) -> Key:
    """A number if the value is rational, an expression if it is not."""
    if tokens[-1] == "%" and len(tokens) > 1:
        tokens = tokens[:-1]  # a unit like any other: 28% is 28, not 0.28
    written = _written(tokens)
    try:
        return value_key(parse_expression(tokens)) if written is None else Key("number", written)
    except _NOT_READ:  # without the percent sign
        return unread_key(tokens)


def _written(tokens: list[str]) -> str | None:
    """A number in one of its written forms (long decimal, mixed, repeating, in a base), not yet computed."""
    first = tokens[1] if tokens[0] in ("-", "+") and len(tokens) > 1 else tokens[0]
    if len(tokens) > _LONGEST_NUMBER or not is_numeral(first):
        return None
    text = ""
    for token in tokens:
        if token.isalpha():
            return None  # 3e - 2 without its spaces would look like 0.03
        text += f" {token}" if is_numeral(token) and is_numeral(text[-1:]) else token
    return numeral_text(text)


_EITHER = ("\\pm", "\\mp")
_SIGNED = {("\\pm", "+"): "+", ("\\pm", "-"): "-", ("\\mp", "+"): "-", ("\\mp", "-"): "+"}


def _signs(tokens: list[str]) -> Key:
    """The set of both values of a \\pm b. Several \\pm are independent, but with a \\mp all change together."""
    count = tokens.count("\\pm") + tokens.count("\\mp")
    if count > MAX_SIGNS:
        raise Unreadable("too many signs")
    rounds = ("+" * count, "-" * count) if "\\mp" in tokens else product("+-", repeat=count)
    keys = []
    for signs in rounds:
        left = iter(signs)
        keys.append(key_of_tokens([_SIGNED[token, next(left)] if token in _EITHER else token for token in tokens]))
    return set_key(keys)


# -- plain numbers in their common forms, of which all but long decimals become the lowest fraction


LONG = 12  # significant digits from which a decimal is a rounding

_DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?", re.ASCII)
_BASED = re.compile(r"([+-]?)\s{0,3}(\d{1,2000})\s{0,3}_\s{0,3}(?:\{\s{0,3}(\d{1,2})\s{0,3}\}|(\d{1,2}))", re.ASCII)
_FRACTION = re.compile(r"([+-]?)\\[dtc]?frac\s*\{\s*([+-]?\d{1,2000})\s*\}\s*\{\s*([+-]?\d{1,2000})\s*\}", re.ASCII)
_RATIO = re.compile(r"([+-]?)\s*(?:(\d{1,2000})\s+)?(\d{1,2000})\s*/\s*(\d{1,2000})", re.ASCII)
_SCIENTIFIC = re.compile(r"[+-]?(?:\d{1,2000}(?:\.\d{0,2000})?|\.\d{1,2000})[eE][+-]?(?:[0-3]?\d{1,2}|400)", re.ASCII)
_REPEATING = re.compile(r"([+-]?)(\d{0,100})\.(\d{0,100})\\(?:overline|bar)\s*\{(\d{1,100})\}", re.ASCII)


def numeral_text(text: str) -> str | None:
    """The key text of an answer that is nothing but a number in one of the common forms; else None."""
    if not text or not (text[-1].isdigit() or text[-1] in ".}"):
        return None
    if match := _DECIMAL.fullmatch(text):
        return _decimal(*match.groups(default=""))
    if match := _BASED.fullmatch(text):  # 52_8 is its digits with the base as a note: the question says which it wants
        return f"{match[1].strip('+')}{int(match[2])}_{{{int(match[3] or match[4])}}}"
    try:
        value = _rational(text)
    except ZeroDivisionError:
        return None
    return None if value is None else rational_text(value)


def _decimal(sign: str, whole: str, part: str) -> str | None:
    if not (whole or part) or len(whole) + len(part) > MAX_DIGITS:
        return None
    part = part.rstrip("0")
    whole = whole.lstrip("0") or "0"
    sign = "-" if sign == "-" and (part or whole != "0") else ""
    if not part:
        return sign + whole
    if len((whole + part).lstrip("0")) >= LONG:
        return f"{sign}{whole}.{part}"
    return rational_text(Fraction(f"{sign}{whole}.{part}"))


def _rational(text: str) -> Fraction | None:
    if match := _FRACTION.fullmatch(text):
        value = Fraction(int(match[2]), int(match[3]))
    elif match := _RATIO.fullmatch(text):
        part = Fraction(int(match[3]), int(match[4]))
        if match[2] and part >= 1:
            return None
        value = int(match[2] or 0) + part
    elif match := _REPEATING.fullmatch(text):
        _, whole, once, again = match.groups()
        cycle = 10 ** len(again) - 1
        value = Fraction(int((whole + once) or "0") * cycle + int(again), cycle * 10 ** len(once))
    else:
        return Fraction(text) if _SCIENTIFIC.fullmatch(text) else None
    return -value if match[1] == "-" else value


# -- names in front of a value or a condition: which symbol, angle or tuple `x = 5` and `x > 2` are about


_ANGLES = frozenset(("\\angle", "\\measuredangle", '"angle'))


def is_symbol(tokens: list[str]) -> bool:
    """One letter, Latin or Greek, with its subscript; y' is a derivative, and y' = 2 is not y = 2."""
    if not tokens or not is_letter(tokens[0]) or tokens[0].startswith("\\mathbf"):
        return False
    return len(tokens) == 1 or (tokens[1] == "_" and group_end(tokens, 2, "{", "}") == len(tokens))


def is_name(tokens: list[str]) -> bool:
    """What may stand left of `= value`: a symbol, a tuple of symbols, an angle."""
    angle = tokens[1:] if tokens[:1] == ["m"] else tokens
    if angle and angle[0] in _ANGLES:
        letters = [token for token in angle[1:] if token not in "{}"]
        return 0 < len(letters) <= 3 and all(letter.isalpha() or letter.startswith("\\mathbf") for letter in letters)
    if len(tokens) > 2 and tokens[0] == "(" and tokens[-1] == ")":
        return all(is_symbol(part) for part in split_outside_brackets(tokens[1:-1], (",",)))
    return is_symbol(tokens)


def _subject(tokens: list[str]) -> str | None:
    """The name that `x > 2` or `x = 5` is about; "" if a relation is about no single name, None without a relation."""
    sides = [] if RELATIONS.isdisjoint(tokens) else split_outside_brackets(tokens, RELATIONS)
    return next(("".join(side) for side in sides if is_name(side)), "") if len(sides) > 1 else None


def _assignment(tokens: list[str]) -> tuple[str, list[str]] | None:
    """The name and value of `x = 5`, for lists such as x = 1, y = 2."""
    name, *values = split_outside_brackets(tokens, ("=",))
    if len(values) == 1 and values[0] and is_name(name) and name[0] != "(" and RELATIONS.isdisjoint(values[0]):
        return "".join(name), values[0]
    return None


def _natural_order(name: str) -> list[tuple[int, str]]:
    """Sort names as people count: x_2 before x_{10}."""
    return [(int(run or 0), text) for text, run in re.findall(r"(\D*)(\d{0,9})", name)]


def _in_natural_order(names: list[str]) -> bool:
    return names == sorted(names, key=_natural_order)


# -- lists without brackets: a set, or a tuple in the order of names if the parts are assignments to different names


def _list(tokens: list[str]) -> Key | None:
    """A bare list is a set; a list of assignments to different names is a tuple in the names' order."""
    if "," not in tokens and ";" not in tokens and LISTING.isdisjoint(tokens):
        return None
    parts = [part for part in split_outside_brackets(tokens, (",", ";", *LISTING)) if part]
    if len(parts) < 2:
        return None
    if len(parts) > MAX_PARTS:
        raise Unreadable("too many parts")
    named = [_assignment(part) for part in parts]
    if all(named):
        return _assigned([pair for pair in named if pair], either='"or' in tokens)
    subjects = [_subject(part) for part in parts]
    if subjects[0] and not any(subject is not None for subject in subjects[1:]):
        if named[0]:
            parts[0] = named[0][1]  # x = 1, 2 names the whole list, and so does (x, y) = (1, 2), (3, 4)
        elif subjects[0][0] == "(" and not _in_natural_order(subjects[0][1:-1].split(",")):
            raise Unreadable("names in another order")
    elif any(subjects) and len(set(subjects)) > 1:
        return set_key(map(unread_key, parts))  # x > 1, y > 2 is not x > 2, y > 1
    keys = [*map(key_of_tokens, parts)]
    if '"or' in tokens and all(map(_is_range, parts)):
        return interval_union(keys)  # x < 1 or x > 2
    # "5 or more" is not a list of two, nor is "1, 2, 3, ..."; but "I and II" is.
    kinds = {key.kind for key in keys} - {"choice"}
    if ("text" in kinds and len(kinds) > 1) or _units_differ(parts, keys):
        raise Unreadable("not a list")
    return _set(parts, keys)


def _units_differ(parts: list[list[str]], keys: list[Key]) -> bool:
    """Whether values have units that tell them apart: 2 hours and 30 minutes is not 30 hours and 2 minutes."""
    values = [part for part, key in zip(parts, keys, strict=True) if key.kind in ("number", "expression")]
    return len({tuple(filter(is_word, part)) for part in values} - {()}) > 1


def _set(parts: list[list[str]], keys: list[Key]) -> Key:
    """A set; sets in braces inside it stay sets of their own: {{1,2},{3}} is not {{1},{2,3}}."""
    nested = [part[:1] == ["\\{"] and closes_at_end(part) for part in parts]
    if not any(nested):
        return set_key(keys)
    return sorted_set(
        {
            Key("set", f"\\{{{key.text}\\}}", (key,)) if inner and key.kind != "set" else key
            for inner, key in zip(nested, keys, strict=True)
        }
    )


def _assigned(pairs: list[tuple[str, list[str]]], *, either: bool) -> Key:
    """X = 1 or x = 2 is a set; x = 1, y = 2 a tuple in the order of names; several of those, their set."""
    names = sorted({name for name, _ in pairs}, key=_natural_order)
    if len(names) == 1:
        return set_key(key_of_tokens(value) for _, value in pairs)
    rows = [dict(pairs[start : start + len(names)]) for start in range(0, len(pairs), len(names))]
    if any(len(row) < len(names) for row in rows) or (either and len(rows) == 1):
        raise Unreadable("not all names have values")  # nor have they in x = 1 or y = 2
    return set_key(row_key(key_of_tokens(row[name]) for name in names) for row in rows)


# -- brackets: sets, tuples, intervals, and {x | x > 2}


def _bracketed(tokens: list[str]) -> Key | None:
    if tokens[0] not in OPEN or tokens[-1] not in CLOSE or not closes_at_end(tokens):
        return None
    opening, closing, inside = tokens[0], tokens[-1], tokens[1:-1]
    if opening in ("\\lfloor", "\\lceil"):
        return None
    if max(accumulate((token in OPEN) - (token in CLOSE) for token in tokens)) > MAX_NESTING:
        raise Unreadable("nested too deep")
    if opening == "\\{" and closing == "\\}" and ("|" in inside or ":" in inside):
        return _builder(inside)
    parts = split_outside_brackets(inside, (",", ";") if opening != "[" else (",",))
    if len(parts) > MAX_PARTS:
        raise Unreadable("too many parts")
    if len(parts) > 1 and any(_subject(part) is not None for part in parts):
        if opening != "[" and (listed := _list(inside)):
            return listed
        raise Unreadable("relations in an interval")
    if opening == "\\{" and closing == "\\}":
        parts = [part for part in parts if part]
        return _set(parts, [*map(key_of_tokens, parts)])
    if len(parts) == 1:
        if opening in "([" and inside:
            return key_of_tokens(inside)
        raise Unreadable("nothing in brackets")
    return _row(opening, [*map(key_of_tokens, parts)], closing)


def _builder(inside: list[str]) -> Key:
    """The interval of {x | x > 2}."""
    parts = split_outside_brackets(inside, ("|", ":"))
    if len(parts) == 2 and is_symbol(parts[0][:1]) and parts[0][1:2] in ([], ["\\in"]) and _is_range(parts[1]):
        return key_of_tokens(parts[1])
    raise Unreadable("a condition that is not an interval")


def _row(opening: str, parts: list[Key], closing: str) -> Key:
    """A tuple or interval; if \\pm made a set of an entry, the set of all the rows that it stands for."""
    brackets = (opening, closing) if len(parts) == 2 and (opening == "[" or closing == "]") else ("(", ")")
    choices = [part.parts if part.kind == "set" else (part,) for part in parts]
    if not 1 < prod(map(len, choices)) <= 2**MAX_SIGNS:
        return row_key(parts, *brackets)
    return set_key(row_key(row, *brackets) for row in product(*choices))


# -- equations, inequalities, membership and approximation


_FLIPPED = {"<": ">", ">": "<", "\\le": "\\ge", "\\ge": "\\le"}


def _relation(tokens: list[str]) -> Key | None:
    """The key of tokens with a relation outside all brackets; None if there is none."""
    sides = split_outside_brackets(tokens, RELATIONS)
    if len(sides) < 2:
        return None
    places = accumulate(len(side) + 1 for side in sides[:-1])
    signs = [tokens[place - 1] for place in places]
    if "\\approx" in signs:
        return _approximate(tokens, sides, signs)
    if signs == ["\\in"] and is_name(sides[0]):
        return key_of_tokens(sides[1])
    if all(sign == "=" for sign in signs):
        if is_name(sides[0]) and sides[-1]:
            return (_ordered if sides[0][0] == "(" else _named)(sides[0], sides[-1])
        if len(sides) > 2 and _is_closed(sides[0]):
            return key_of_tokens(sides[-1])  # 2 \\cdot 3 + 4 = 6 + 4 = 10
        return equation_key(_difference(sides))
    if ORDER.issuperset(signs):
        return _interval(sides, signs) or _inequality(sides, signs)
    raise Unreadable("a relation between more than two sides")


def _approximate(tokens: list[str], sides: list[list[str]], signs: list[str]) -> Key:
    """X \\approx 11 is 11; but 2\\pi \\approx 6.28 is 2\\pi, for the exact value was given."""
    cut = signs.index("\\approx")
    if _is_closed(sides[cut]):
        return key_of_tokens(tokens[: sum(len(side) + 1 for side in sides[: cut + 1]) - 1])
    return key_of_tokens(["=" if token == "\\approx" else token for token in tokens])  # P(A) \approx 0.3


def _ordered(names: list[str], values: list[str]) -> Key:
    """The tuple that (y, x) = (1, 2) gives, in the order of the names."""
    value = key_of_tokens(values)
    titles = ["".join(part) for part in split_outside_brackets(names[1:-1], (",",))]
    if _in_natural_order(titles):
        return value
    order = sorted(range(len(titles)), key=lambda at: _natural_order(titles[at]))
    rows = value.parts if value.kind == "set" else (value,)
    if any(row.kind != "tuple" or len(row.parts) != len(titles) for row in rows):
        raise Unreadable("a tuple with other names")
    return set_key(row_key(row.parts[at] for at in order) for row in rows)


def _named(name: list[str], value: list[str]) -> Key:
    """The value; if it has symbols, as in y = 2x + 3, the name is kept to compare it with equations."""
    inside = key_of_tokens(value)
    if inside.kind == "expression" and is_symbol(name):
        title = write(parse_expression(name)) if name[0] not in ("e", "i") else "".join(name)
        names = symbols(parse_expression(value))
        if names and title not in names:
            return Key("named", f"{title}={inside.text}", (inside, sum_key(atom_sum(Atom("symbol", title)))))
    return inside


def _difference(sides: list[list[str]]) -> Sum:
    """Left side minus right side."""
    if len(sides) != 2:
        raise Unreadable("more than two sides")
    return subtract(*map(parse_expression, sides))


def equation_key(difference: Sum) -> Key:
    """Difference = 0, divided by the coefficient of its first term."""
    if not symbols(difference):
        raise Unreadable("an equation without symbols")
    return sum_key(_monic(difference), "equation")


def _monic(total: Sum) -> Sum:
    """A sum divided by the constant before its first power of symbols, roots and \\pi included."""
    lead = min((_variables(m) for m in total if _variables(m)), key=lambda pairs: [(a.text, -e) for a, e in pairs])
    factor: Sum = {}
    for monomial, value in total.items():
        if _variables(monomial) == lead:
            factor[tuple(pair for pair in monomial if pair not in lead)] = value
    return multiply(total, inverse(factor))


def _variables(monomial: Monomial) -> Monomial:
    return tuple(pair for pair in monomial if pair[0].unknown or any(map(symbols, pair[0].args)))


def _is_range(tokens: list[str]) -> bool:
    """Whether tokens say between what bounds one symbol lies: x > 2, 1 < x \\le 3."""
    sides = [] if ORDER.isdisjoint(tokens) else split_outside_brackets(tokens, ORDER)
    return sum(map(is_symbol, sides)) == 1 and all(is_symbol(side) or _is_closed(side) for side in sides)


def _is_closed(tokens: list[str]) -> bool:
    try:
        return not symbols(parse_expression(tokens)) - {INFINITY.text}
    except _NOT_READ:
        return False


def _interval(sides: list[list[str]], signs: list[str]) -> Key | None:
    """A < x \\le b as (a, b]; None unless one side is a symbol and the others are constants."""
    if signs[0] in (">", "\\ge"):
        sides, signs = sides[::-1], [_FLIPPED[sign] for sign in reversed(signs)]
    if len(sides) == 2:
        above = _is_closed(sides[1])
        sides = [["-", "\\infty"], *sides] if above else [*sides, ["\\infty"]]
        signs = ["<", *signs] if above else [*signs, "<"]
    if len(sides) != 3 or not (is_symbol(sides[1]) and _is_closed(sides[0]) and _is_closed(sides[2])):
        return None
    if not {"<", "\\le"}.issuperset(signs):
        return None
    bounds = key_of_tokens(sides[0]), key_of_tokens(sides[2])
    return row_key(bounds, "[" if signs[0] == "\\le" else "(", "]" if signs[1] == "\\le" else ")")


def _inequality(sides: list[list[str]], signs: list[str]) -> Key:
    """The interval of an inequality that is linear in one symbol; else its two sides up to a positive factor."""
    difference = _difference(sides)
    if not symbols(difference):
        raise Unreadable("an inequality without symbols")
    unit, primitive = content(difference, signed=True)
    sign = signs[0] if unit > 0 else _FLIPPED[signs[0]]
    terms = [monomial for monomial in primitive if monomial]
    if len(terms) == 1 and len(terms[0]) == 1 and terms[0][0][1] == 1 and _is_variable(terms[0][0][0]):
        bound = narrow(Fraction(-primitive.get((), 0)) / primitive[terms[0]])
        interval = _interval([["x"], tokenise(rational_text(bound))], [sign])
        if interval is not None:
            return interval
    return sum_key(primitive, "inequality", f"{sign} ")


def _is_variable(atom: Atom) -> bool:
    return atom.name == "symbol" and atom is not INFINITY


# -- matrices


_ENVIRONMENT = "\\begin"
_NAMES = frozenset('"pmatrix "bmatrix "matrix "smallmatrix "array'.split())
_ROW = "\\\\"
MAX_ENTRIES = 100


def _matrix(tokens: list[str]) -> Key:
    """One matrix, with its factor."""
    start = tokens.index(_ENVIRONMENT)
    name = tokens[start + 2 : start + 3]
    body = tokens[start + 4 : -4]
    if not _NAMES.issuperset(name) or tokens[-4:] != ["\\end", "{", *name, "}"] or _ENVIRONMENT in body:
        raise Unreadable("not a matrix")
    if name == ['"array'] and body[:1] == ["{"]:
        body = body[body.index("}") + 1 :]
    lines = split_outside_brackets([token for token in body if token != "\\hline"], (_ROW,))
    rows = [split_outside_brackets(line, ("&",)) for line in (lines[:-1] if lines[-1] == [] else lines)]
    if sum(map(len, rows)) > MAX_ENTRIES or len({len(row) for row in rows}) != 1:
        raise Unreadable("rows of different lengths")
    factor = tokens[: start - 1] if tokens[start - 1 : start] == ["*"] else tokens[:start]
    if not factor:
        return matrix_key([[*map(key_of_tokens, row)] for row in rows])
    times = parse_expression([*factor, "1"] if factor == ["-"] else factor)
    return matrix_key([[value_key(multiply(times, parse_expression(entry))) for entry in row] for row in rows])


# What has one key however it is written.
_REALS = row_key(map(_expression, (["-", "\\infty"], ["\\infty"])))
_KNOWN = {
    "\\emptyset": set_key(()),
    **dict.fromkeys(("\\mathbb{R}", "\\mathbbR", '"all"real"numbers', '"all"reals'), _REALS),
}
