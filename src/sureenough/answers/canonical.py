"""`canonical_key(answer)`: the kind of an answer and its one canonical form, without any symbolic library.

The order of the tests matters: list, union, relation, bracket, matrix, sign choice, expression.
"""

from __future__ import annotations

import logging
import re
from functools import lru_cache
from itertools import product
from math import prod

from sureenough.answers import numerals, trimming
from sureenough.answers.algebra import constant
from sureenough.answers.atoms import Unreadable, write
from sureenough.answers.brackets import CLOSE, OPEN, closes_at_end, split_outside_brackets
from sureenough.answers.intervals import interval_union
from sureenough.answers.key_types import EMPTY, Key, row_key, set_key, text_key, unread_key
from sureenough.answers.lists import MAX_PARTS, read_list, set_of_parts
from sureenough.answers.matrix import ENVIRONMENT, read_matrix
from sureenough.answers.names import is_symbol, subject
from sureenough.answers.parse import MAX_TOKENS, parse_expression
from sureenough.answers.relations import is_range, read_relation
from sureenough.answers.tokens import is_numeral, is_word, tokenise, unwrapped
from sureenough.answers.vocabulary import NUMBER_WORDS, RELATIONS, ROMAN

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
    tokens = trimming.strip_punctuation(tokens)
    if not tokens:
        return EMPTY
    if depth > MAX_NESTING:
        return unread_key(tokens)
    if is_word(tokens[0]) and tokens[0][1:] in NUMBER_WORDS:
        tokens = trimming.read_number_words(tokens)
    letter = trimming.choice_letter(tokens)
    if letter is not None:
        return Key("choice", letter)
    if len(tokens) > 1 and ROMAN.issuperset(tokens):
        return text_key("".join(tokens).casefold())  # IV is not VI, nor II the square of I
    return read_list(tokens, depth, key_of_tokens) or _single(tokens, depth)


def _single(tokens: list[str], depth: int) -> Key:
    known = _KNOWN.get(tuple(tokens)) if len(tokens) <= _LONGEST_KNOWN else None
    if known is not None:
        return key_of_tokens(known, depth + 1)
    if any(map(is_word, tokens)) and ENVIRONMENT not in tokens and trimming.has_prose(tokens):
        if tokens[0] in OPEN and closes_at_end(tokens) and (inside := _bracketed(tokens, depth)) is not None:
            return inside
        core = trimming.strip_units(tokens)
        return unread_key(trimming.singular_negation(tokens)) if core is None else key_of_tokens(core, depth + 1)
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
