"""`canonical_key(answer)`: the kind of an answer and its one canonical form, without any symbolic library.

The order of the tests matters: list, union, relation, bracket, matrix, sign choice, expression.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from itertools import product
from math import prod

from sureenough.answers.math import numerals
from sureenough.answers.math.algebra import Unreadable, constant, write
from sureenough.answers.math.parse import MAX_TOKENS, parse_expression
from sureenough.answers.math.structures import (
    EMPTY,
    ENVIRONMENT,
    MAX_PARTS,
    Key,
    interval_union,
    is_range,
    is_symbol,
    read_list,
    read_matrix,
    read_relation,
    row_key,
    set_key,
    set_of_parts,
    subject,
    text_key,
    unread_key,
)
from sureenough.answers.math.tokens import (
    CLOSE,
    NOT_UNITS,
    NUMBER_WORDS,
    OPEN,
    POWERS_OF_TEN,
    RELATIONS,
    ROMAN,
    ROUGHLY,
    closes_at_end,
    is_numeral,
    is_word,
    split_outside_brackets,
    tokenise,
    unwrapped,
)

_LOG = logging.getLogger(__name__)
MAX_LENGTH = 2000
MAX_EXPRESSION = MAX_TOKENS  # characters of canonical text, so that it can be read back
MAX_NESTING = 12
MAX_SIGNS = 4
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}|\d{1,2}/\d{1,2}/\d{4}", re.ASCII)
_LONGEST_NUMBER = 8  # tokens
_REALS = ["(", "-", "\\infty", ",", "\\infty", ")"]
_KNOWN = {
    ("\\emptyset",): ["\\{", "\\}"],
    ("\\mathbb", "{", "R", "}"): _REALS,
    ("\\mathbb", "R"): _REALS,
    ('"all', '"real', '"numbers'): _REALS,
    ('"all', '"reals'): _REALS,
}
_LONGEST_KNOWN = max(map(len, _KNOWN))


def canonical_key(answer: str) -> Key:
    """The key of an answer, as extracted."""
    if len(answer) > MAX_LENGTH:
        answer = answer.strip()
        if len(answer) > MAX_LENGTH:
            return text_key(answer)
    try:
        return _cached_key(answer)
    except RecursionError:  # our own depth is bounded, the caller's is not
        return unread_key(tokenise(unwrapped(answer)))
    except Exception:  # an error of ours must not end a run: such an answer equals only the same text
        _LOG.exception("reading an answer failed")
        return text_key(answer.strip())


@lru_cache(maxsize=16384)
def _cached_key(answer: str) -> Key:
    answer = unwrapped(answer)
    number = numerals.numeral_text(answer)
    if number is not None:
        return Key("number", number)
    if answer[:1].isdigit() and _DATE.fullmatch(answer):
        return text_key(answer)  # a difference or a quotient would be some other date's too
    tokens = tokenise(answer)
    try:
        return key_of_tokens(tokens)
    except Unreadable:  # beyond a bound that no single part could see
        return unread_key(tokens)


def key_of_tokens(tokens: list[str], depth: int = 0) -> Key:
    """The key of a token list: the whole answer, or one part of it."""
    tokens = strip_punctuation(tokens)
    if not tokens:
        return EMPTY
    if depth > MAX_NESTING:
        return unread_key(tokens)
    if is_word(tokens[0]) and tokens[0][1:] in NUMBER_WORDS:
        tokens = read_number_words(tokens)
    letter = choice_letter(tokens)
    if letter is not None:
        return Key("choice", letter)
    if len(tokens) > 1 and ROMAN.issuperset(tokens):
        return text_key("".join(tokens).casefold())  # IV is not VI, nor II the square of I
    return read_list(tokens, depth, key_of_tokens) or _single(tokens, depth)


def _single(tokens: list[str], depth: int) -> Key:
    known = _KNOWN.get(tuple(tokens)) if len(tokens) <= _LONGEST_KNOWN else None
    if known is not None:
        return key_of_tokens(known, depth + 1)
    if any(map(is_word, tokens)) and ENVIRONMENT not in tokens and has_prose(tokens):
        if tokens[0] in OPEN and closes_at_end(tokens) and (inside := _bracketed(tokens, depth)) is not None:
            return inside
        core = strip_units(tokens)
        return unread_key(singular_negation(tokens)) if core is None else key_of_tokens(core, depth + 1)
    if "\\cup" in tokens and len(parts := split_outside_brackets(tokens, ("\\cup",))) > 1:
        return interval_union([key_of_tokens(part, depth + 1) for part in parts])
    if not RELATIONS.isdisjoint(tokens) and (related := read_relation(tokens, depth, key_of_tokens)) is not None:
        return related
    if tokens[0] in OPEN and (inside := _bracketed(tokens, depth)) is not None:
        return inside
    if ENVIRONMENT in tokens:
        return read_matrix(tokens, depth, key_of_tokens) or unread_key(tokens)
    if "\\pm" in tokens or "\\mp" in tokens:
        return _signs(tokens, depth)
    return expression(tokens)


def _bracketed(tokens: list[str], depth: int) -> Key | None:
    if tokens[-1] not in CLOSE or not closes_at_end(tokens):
        return None
    opening, closing, inside = tokens[0], tokens[-1], tokens[1:-1]
    if opening in ("\\lfloor", "\\lceil"):
        return None
    braces = opening == "\\{" and closing == "\\}"
    if braces and ("|" in inside or ":" in inside):
        return _builder(inside, depth) or unread_key(tokens)
    parts = split_outside_brackets(inside, (",", ";") if opening != "[" else (",",))
    if len(parts) > MAX_PARTS:
        return unread_key(tokens)
    if len(parts) > 1 and any(subject(part) is not None for part in parts):
        return (read_list(inside, depth, key_of_tokens) if opening != "[" else None) or unread_key(tokens)
    if braces:
        return set_of_parts([(part, key_of_tokens(part, depth + 1)) for part in parts if part])
    if len(parts) == 1:
        return key_of_tokens(inside, depth + 1) if opening in "([" and inside else unread_key(tokens)
    return _row(opening, [key_of_tokens(part, depth + 1) for part in parts], closing)


def _builder(inside: list[str], depth: int) -> Key | None:
    """The interval of {x | x > 2}; None if the condition is not an interval."""
    parts = split_outside_brackets(inside, ("|", ":"))
    if len(parts) == 2 and is_symbol(parts[0][:1]) and parts[0][1:2] in ([], ["\\in"]) and is_range(parts[1]):
        return key_of_tokens(parts[1], depth + 1)
    return None


def _row(opening: str, parts: list[Key], closing: str) -> Key:
    """A tuple or interval; if \\pm made a set of an entry, the set of all the rows that it stands for."""
    interval = len(parts) == 2 and (opening == "[" or closing == "]")
    choices = [part.parts if part.kind == "set" else (part,) for part in parts]
    count = prod(map(len, choices))
    if count == 1 or count > 2**MAX_SIGNS:
        choices = [(part,) for part in parts]
    kind, left, right = ("interval", opening, closing) if interval else ("tuple", "(", ")")
    return set_key([row_key(kind, left, list(row), right) for row in product(*choices)])


def _signs(tokens: list[str], depth: int) -> Key:
    """The set of both values of a \\pm b. Several \\pm are independent, but with a \\mp all change together."""
    places = [at for at, token in enumerate(tokens) if token in ("\\pm", "\\mp")]
    if len(places) > MAX_SIGNS:
        return unread_key(tokens)
    together = "\\mp" in tokens
    rounds = [("+",) * len(places), ("-",) * len(places)] if together else product("+-", repeat=len(places))
    keys = []
    for signs in rounds:
        chosen = list(tokens)
        for at, sign in zip(places, signs, strict=True):
            chosen[at] = sign if tokens[at] == "\\pm" else "-" if sign == "+" else "+"
        keys.append(key_of_tokens(chosen, depth + 1))
    return set_key(keys)


def expression(tokens: list[str]) -> Key:
    """A number if the value is rational, an expression if it is not, text if it cannot be read."""
    if tokens[-1] == "%" and len(tokens) > 1:
        tokens = tokens[:-1]  # a unit like any other: 28% is 28, not 0.28
    written = _written(tokens)
    if written is not None:
        return Key("number", written)
    try:
        total = parse_expression(tokens)
    except (Unreadable, ZeroDivisionError):
        return unread_key(tokens)
    value = constant(total)
    if value is not None:
        return Key("number", numerals.rational_text(value))
    text = write(total)
    return Key.of_sum("expression", text, total) if len(text) <= MAX_EXPRESSION else unread_key(tokens)


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
    return numerals.numeral_text(text)


# -- what stands around a value: punctuation and units go, choices and numbers in words are recognised, prose stays


_EDGE = frozenset((".", ",", ";", ":", "*", "`", "'", '"', "\\\\", "?"))
_LEADING = frozenset(
    (",", ";", ":", "*", "`", "'", '"', "\\\\", "\\approx", "\\therefore", "\\implies", "\\Rightarrow", "=")
)
_CHOICE_WORDS = frozenset(('"option', '"choice', '"answer'))
_BETWEEN_UNITS = frozenset(("/", ".", "-", "*", "%"))
# A value does not end with these, so what follows them is not its unit: \mu_{static}, 3 \cdot \text{force}.
_EXPECTS_MORE = frozenset("+ - * / ^ _ = < > : | \\le \\ge \\ne \\approx \\frac \\sqrt \\in \\pm \\mp".split())
_TIMES_OF_DAY = frozenset((("am",), ("pm",), ("a", "m"), ("p", "m")))
_MAX_BRACES = 8
_SHORT = 4


def strip_punctuation(tokens: list[str]) -> list[str]:
    """Without punctuation and markup at the ends, and without braces around the whole."""
    start, end = 0, len(tokens)
    edge = _EDGE - {"'"} if tokens[-1:] == ["'"] and _ends_in_prime(tokens) else _EDGE
    for _ in range(_MAX_BRACES):
        while start < end and tokens[start] in _LEADING:
            start += 1
        while start < end and tokens[end - 1] in edge:
            end -= 1
        if end - start >= 2 and tokens[start] == "{" and closes_at_end(tokens[start:end]):
            start, end = start + 1, end - 1
        else:
            break
    inside = tokens[start:end]
    return _join_asterisks(inside) if "*" in inside else inside


def _ends_in_prime(tokens: list[str]) -> bool:
    """Whether the last mark is a prime, as in x': not a closing quote, nor the feet of 5'."""
    before = next((token for token in reversed(tokens) if token != "'"), '"')
    return tokens[0] != "'" and not is_word(before) and not is_numeral(before)


def _join_asterisks(tokens: list[str]) -> list[str]:
    """Read x**2 as x^2; two asterisks at the ends of an answer are markup, and already stripped."""
    out: list[str] = []
    for token in tokens:
        if token == "*" and out and out[-1] == "*":
            out[-1] = "^"
        else:
            out.append(token)
    return out


def choice_letter(tokens: list[str]) -> str | None:
    """The letter of C, (C) or Option C: one capital letter and nothing else."""
    if len(tokens) > 5:
        return None
    if len(tokens) > 1 and tokens[0] in _CHOICE_WORDS:
        tokens = tokens[1:]
    letters = [token for token in tokens if token not in ("(", ")", "[", "]", "{", "}", ".")]
    if len(letters) == 1 and len(letters[0]) == 1 and "A" <= letters[0] <= "Z":
        return letters[0]
    return None


def has_prose(tokens: list[str]) -> bool:
    """Whether there is a word that is not part of a name, as v_{max} is."""
    in_subscript = False
    for at, token in enumerate(tokens):
        if token == "{" and at and tokens[at - 1] == "_":
            in_subscript = True
        elif token == "}":
            in_subscript = False
        elif is_word(token) and not in_subscript and not (at and tokens[at - 1] == "_"):
            return True
    return False


def strip_units(tokens: list[str]) -> list[str] | None:
    r"""The value in front of its unit (15 \text{cm}^2, 5.4 cents); None if the words are not a unit."""
    start = 0
    while start < len(tokens) and is_word(tokens[start]) and tokens[start][1:] in ROUGHLY:
        start += 1
    first, depth = start, 0
    while first < len(tokens) and not is_word(tokens[first]):
        depth += (tokens[first] in OPEN) - (tokens[first] in CLOSE)
        first += 1
    core, unit = tokens[start:first], tokens[first:]
    if depth == 1 and core[-1] == "(" and unit[-1] == ")":
        core, unit, depth = core[:-1], unit[:-1], 0
    if depth or not core or core[-1] in _EXPECTS_MORE or ":" in core:
        return None
    if not any(token[0].isdigit() or token[0] == "\\" for token in core):
        return None
    if len(core) == 3 and core[1] == "-" and is_numeral(core[0]) and is_numeral(core[2]):
        return None  # 5-7 days is a range
    core, unit = _scaled(core, unit)
    return core if _is_unit(unit) else None


def _scaled(core: list[str], unit: list[str]) -> tuple[list[str], list[str]]:
    """Read 2 million as 2 times 10^6."""
    zeros = 0
    while unit and is_numeral(core[-1]) and unit[0][1:] in POWERS_OF_TEN:
        zeros += POWERS_OF_TEN[unit[0][1:]]
        unit = unit[1:]
    return ([*core, "*", "10", "^", "{", str(zeros), "}"], unit) if zeros else (core, unit)


def _is_unit(tokens: list[str]) -> bool:
    """Words with small exponents, as in m/s^2; not a second value, as in 5 feet 2 inches."""
    words = tuple(token[1:] for token in tokens if is_word(token))
    if words in _TIMES_OF_DAY or not NOT_UNITS.isdisjoint(words):
        return False
    at = 0
    while at < len(tokens):
        if tokens[at] == "^":
            exponent = tokens[at + 1 : at + 5]
            size = exponent.index("}") + 1 if exponent[:1] == ["{"] and "}" in exponent else 1
            if "".join(exponent[:size]).strip("{-}") not in ("1", "2", "3"):
                return False
            at += size
        elif not is_word(tokens[at]) and tokens[at] not in _BETWEEN_UNITS:
            return False
        at += 1
    return True


def read_number_words(tokens: list[str]) -> list[str]:
    """Write the number that opens an answer in digits: five, twenty-one, one hundred and five apples."""
    total = group = at = 0
    for at, token in enumerate(tokens):
        word = token[1:] if is_word(token) else token
        if word in NUMBER_WORDS:
            value, below = NUMBER_WORDS[word], group % 100
            if (at and not group and not total) or (below and not (below >= 20 and not below % 10 and 0 < value < 10)):
                return tokens  # "one two" is not a number
            group += value
        elif word in POWERS_OF_TEN and group:
            power = 10 ** POWERS_OF_TEN[word]
            group, total = (group * power, total) if power == 100 else (0, total + group * power)
        elif not (word in ("-", "and") and at + 1 < len(tokens) and _continues(word, group or total, tokens[at + 1])):
            break
    else:
        at = len(tokens)
    return [str(total + group), *tokens[at:]]


def _continues(word: str, so_far: int, following: str) -> bool:
    """Whether "-" or "and" goes on with the same number: twenty-one, one hundred and five."""
    value = NUMBER_WORDS.get(following[1:], 0)
    return bool(value) and (so_far % 100 >= 20 if word == "-" else so_far % 100 == 0)


def singular_negation(tokens: list[str]) -> list[str]:
    """Without the plural of "no solutions", which says the same as "no solution"."""
    if tokens[0] == '"no' and is_word(tokens[-1]) and tokens[-1].endswith("s") and len(tokens[-1]) > _SHORT:
        return [*tokens[:-1], tokens[-1][:-1]]
    return tokens
