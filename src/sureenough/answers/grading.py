"""How grading reads a pair: as voting does, and then more generously, because the gold answer is known to be right.

A label is dropped if only one of the two has it: f(x) = 2x answers a question whose gold answer is 2x. In a vote that
would merge f(1) = 2 with f(2) = 2. Percent, rounding and the decimal comma are policies that the caller chooses.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from fractions import Fraction

from sureenough.answers.compare import compare_keys, differ_by_at_most
from sureenough.answers.math.algebra import Unreadable, scale
from sureenough.answers.math.key import canonical_key, is_name, is_symbol, key_of_tokens
from sureenough.answers.math.structures import Key, row_key, set_key, value_key
from sureenough.answers.math.tokens import (
    LISTING,
    ORDER,
    RELATIONS,
    group_end,
    is_word,
    split_outside_brackets,
    strip_punctuation,
    tokenise,
    unwrapped,
)

_LOG = logging.getLogger(__name__)
MIN_DECIMALS = 2  # of a number that may be a rounding; 3 is not a rounding of pi
_RELATION_SIGN = re.compile(r"[=<>]|\\(?:le|ge|approx|lt|gt)")
_PERCENT = re.compile(r"%|\bpercent\b")
_DECIMAL_COMMA = re.compile(r"(?<![\d.,])(\d{1,3}(?:\.\d{3}){1,5}|\d{1,15}),(\d{1,15})(?![\d,.])")
_LABEL_PARTS = frozenset("{ } | : / \\frac \\overline \\angle \\triangle \\measuredangle".split())


def grade(
    gold: str,
    answer: str | None,
    *,
    percent: bool = False,
    rounding: bool = False,
    decimal_comma: bool = False,
) -> bool:
    """Whether an answer is the gold one; no answer never is.

    Grading reads more than voting does: `f(x) = 2x` is right if the gold answer is `2x`.

    Args:
        percent: 28% is right if the gold answer is 0.28.
        rounding: a rounded decimal is right.
        decimal_comma: 1,5 is right if the gold answer is 1.5.
    """
    if answer is None:
        return False
    try:
        return any(
            compare_keys(*pair).same or (rounding and same_when_rounded(*pair))
            for pair in _readings(gold, answer, percent=percent, decimal_comma=decimal_comma)
        )
    except Unreadable:  # beyond the bounds of exact arithmetic
        return False
    except Exception:  # an error of ours must not end a run
        _LOG.warning("grading an answer failed; it counts as wrong", exc_info=True)
        return False


def _readings(gold: str, answer: str, *, percent: bool, decimal_comma: bool) -> Iterator[tuple[Key, Key]]:
    """Pairs of keys, any of which makes the answer right if its two keys are the same."""
    yield canonical_key(gold), canonical_key(answer)
    yield from _without_labels(gold, answer)
    yield from ((one, two) for two, one in _without_labels(answer, gold))
    if percent and bool(_PERCENT.search(gold)) != bool(_PERCENT.search(answer)):
        yield _hundredth(gold), canonical_key(answer)
        yield canonical_key(gold), _hundredth(answer)
    if decimal_comma:
        points = [_DECIMAL_COMMA.sub(lambda m: f"{m[1].replace('.', '')}.{m[2]}", text) for text in (gold, answer)]
        yield canonical_key(points[0]), canonical_key(answer)
        yield canonical_key(gold), canonical_key(points[1])


def _without_labels(labelled: str, other: str) -> Iterator[tuple[Key, Key]]:
    """The values of `labelled` beside an answer that has no labels."""
    if not _RELATION_SIGN.search(labelled):
        return
    tokens, bare = (strip_punctuation(tokenise(unwrapped(text))) for text in (labelled, other))
    if not RELATIONS.isdisjoint(bare):
        return
    pairs = [_label_and_value(part) for part in _listed(tokens)]
    labels = {tuple(label) for label, _ in pairs}
    values = [key_of_tokens(value) for _, value in pairs]
    if () in labels:
        if len(pairs) == 1 and (ranged := _range_of_label(tokens)) is not None:
            yield key_of_tokens(ranged), canonical_key(other)
    elif len(labels) == 1:
        yield set_key(values), canonical_key(other)
    elif '"or' not in tokens:  # AB = 4, CD = 5 is 4, 5 in this order
        bare_parts = _listed(bare)
        yield row_key(values), row_key(map(key_of_tokens, bare_parts)) if len(bare_parts) > 1 else canonical_key(other)


def _listed(tokens: list[str]) -> list[list[str]]:
    return [part for part in split_outside_brackets(tokens, (",", ";", *LISTING)) if part]


def _label_and_value(tokens: list[str]) -> tuple[list[str], list[str]]:
    """The two sides of `label = value`, or of a chain its ends; the label is empty if it is none."""
    sides = split_outside_brackets(tokens, RELATIONS)
    if len(sides) > 2 and sides[-1] and len(split_outside_brackets(tokens, ("=",))) == len(sides):
        return sides[0], sides[-1]
    equals = len(sides) == 2 and tokens[len(sides[0])] in ("=", "\\approx")
    return (sides[0], sides[1]) if equals and sides[1] and is_label(sides[0]) else ([], tokens)


def is_label(tokens: list[str]) -> bool:
    """Whether tokens name a value and say nothing about it: f(x), P(A), |AB|, V_1:V_2, \\text{Area}; not 2x or x+y."""
    if is_name(tokens):
        return True
    at = 0
    while at < len(tokens):
        token = tokens[at]
        following = tokens[at + 1] if at + 1 < len(tokens) else ""
        if token == "_" or (token == "(" and at):
            at = group_end(tokens, at + 1 if token == "_" else at) or len(tokens)
            continue
        called = len(token) == 1 and token.isalpha() and following in ("(", "_")
        capitals = token.startswith("\\mathbf{") or (len(token) == 1 and "A" <= token <= "Z")
        if not (called or capitals or is_word(token) or token in _LABEL_PARTS):
            return False
        at += 1
    return bool(tokens)


def _range_of_label(tokens: list[str]) -> list[str] | None:
    """Read 0 < f(x) < 1 as 0 < x < 1, for a gold answer such as (0, 1)."""
    sides = split_outside_brackets(tokens, ORDER)
    labels = [side for side in sides if "(" in side and is_label(side) and not is_symbol(side)]
    if len(labels) != 1 or len(sides) < 2:
        return None
    start = next(at for at in range(len(tokens)) if tokens[at : at + len(labels[0])] == labels[0])
    return [*tokens[:start], "x", *tokens[start + len(labels[0]) :]]


def _hundredth(text: str) -> Key:
    """The key of a value divided by 100 if it has a percent sign; else the key as it is."""
    key = canonical_key(text)
    if not _PERCENT.search(text) or key.kind not in ("number", "expression"):
        return key
    return value_key(scale(key.value, Fraction(1, 100)))


def same_when_rounded(one: Key, two: Key) -> bool:
    """Whether two keys are equal but for decimals that are roundings: 0.33 and 1/3, part by part."""
    if one == two:
        return one.kind != "empty"
    if one.parts or two.parts:
        ordered = one.kind in ("tuple", "interval", "matrix", "set")
        return ordered and one.shape == two.shape and all(map(same_when_rounded, one.parts, two.parts))
    return _rounds_to(one, two) or _rounds_to(two, one)


def _rounds_to(decimal: Key, exact: Key) -> bool:
    if decimal.kind != "number" or exact.kind not in ("number", "expression"):
        return False
    value = decimal.exact
    places = next((places for places in range(31) if 10**places % value.denominator == 0), 0)
    return places >= MIN_DECIMALS and differ_by_at_most(decimal, exact, Fraction(1, 2 * 10**places))
