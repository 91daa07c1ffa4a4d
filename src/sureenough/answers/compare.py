"""Which answers to one question are the same, and how that was decided.

Keys first, then values as floats, which only refute, then exact arithmetic. What these cannot settle is different.
Classes are a function of the set of distinct keys: keys are sorted, each joins the first class whose representative it
equals and none of whose members it certainly differs from, else it founds a class.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache

from sureenough.answers.math import numerals
from sureenough.answers.math.algebra import (
    IMAGINARY,
    ONE,
    Atom,
    Rational,
    Sum,
    Unreadable,
    add,
    certainly_prime,
    multiply,
    narrow,
    number,
    power,
    product,
    subtract,
    symbols,
    write,
)
from sureenough.answers.math.evaluate import Value, Values, values_differ, values_of
from sureenough.answers.math.key import canonical_key
from sureenough.answers.math.structures import KINDS, Key, equation_key

VERSION = 4  # of keys and classes: part of the name under which grouped pools are cached
MAX_DENOMINATORS = 4  # cleared from a difference

_LOG = logging.getLogger(__name__)
_COMPOSED = ("tuple", "interval", "set", "union", "matrix")
COMPATIBLE: dict[str, frozenset[str]] = {
    "number": frozenset(("number", "expression")),
    "expression": frozenset(("number", "expression", "named")),
    "named": frozenset(("expression", "named", "equation")),
    "equation": frozenset(("equation", "named")),
    "inequality": frozenset(("inequality",)),
    **{kind: frozenset((kind,)) for kind in _COMPOSED},
}
_NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Same or different, and by what: the words that `sureenough answers` prints."""

    same: bool
    by: str
    certain: bool = True  # False for what counts as different because nothing shows that it is the same

    def __str__(self) -> str:
        return f"{'same' if self.same else 'different'}, {self.by}"


BY_KEYS = Verdict(True, "by keys")
BY_ROUNDING = Verdict(True, "by keys: a long decimal and what it rounds")
BY_DIGITS = Verdict(True, "by keys: the same digits, one of them with its base")
BY_PARTS = Verdict(True, "part by part")
BY_ALGEBRA = Verdict(True, "by exact arithmetic")
EMPTY_ANSWER = Verdict(False, "an empty answer equals nothing")
OTHER_KEYS = Verdict(False, "by keys")
OTHER_KINDS = Verdict(False, "by keys: not the same kind of answer")
REFUTED = Verdict(False, "refuted numerically")
REFUTED_EXACTLY = Verdict(False, "refuted by exact arithmetic")
NOT_SHOWN = Verdict(False, "nothing shows that they are equal", certain=False)
TOO_LARGE = Verdict(False, "too large to compare", certain=False)


def explain(one: str, two: str) -> Verdict:
    """Same or different, and how that was decided: `str(explain(a, b))` is "same, by keys" and the like."""
    return _verdict(canonical_key(one), canonical_key(two))


def same(one: str, two: str) -> bool:
    """Whether two answers to one question are the same answer."""
    return explain(one, two).same


def classes(answers: Iterable[str | None]) -> list[int | None]:
    """The class of each answer to one question, numbered by first appearance; None for None."""
    keys = [None if answer is None else canonical_key(answer) for answer in answers]
    representatives = _representatives({key for key in keys if key is not None})
    numbers: dict[Key, int] = {}
    out: list[int | None] = []
    for key in keys:
        if key is None:
            out.append(None)
        elif key.kind == "empty":  # an empty answer equals nothing, not even another
            numbers[Key("empty", str(len(out)))] = number = len(numbers)
            out.append(number)
        else:
            out.append(numbers.setdefault(representatives[key], len(numbers)))
    return out


def _representatives(distinct: set[Key]) -> dict[Key, Key]:
    representatives: dict[Key, Key] = {}
    members: dict[str, list[list[Key]]] = {}  # of each class, by the bucket of its representative, its first
    for key in sorted(distinct, key=lambda key: key.order):
        groups = (group for bucket in _comparable(key) for group in members.get(bucket, ()))
        joined = next((group for group in groups if _belongs(key, group)), None)
        if joined is None:
            members.setdefault(_bucket(key), []).append([key])
        else:
            joined.append(key)
        representatives[key] = key if joined is None else joined[0]
    return representatives


def _belongs(key: Key, group: list[Key]) -> bool:
    """Whether a key is the same as a representative and not certainly another than one of the other members.

    52_8 and 52_9 are both the same as 52, and are not one answer.
    """
    if not same_keys(group[0], key):
        return False
    others = (_verdict(member, key) for member in group[1:])
    return not any(verdict.certain and not verdict.same for verdict in others)


def _bucket(key: Key) -> str:
    """Plain numbers are a bucket of their own: two of them are never the same, so they are not compared."""
    return "plain" if key.kind == "number" and key.text.lstrip("-").replace("/", "").isdigit() else key.kind


def _comparable(key: Key) -> list[str]:
    bucket = _bucket(key)
    kinds = [kind for kind in KINDS if kind in COMPATIBLE.get(key.kind, ())]
    if key.kind in ("expression", "number") and bucket != "plain":
        kinds.insert(0, "plain")
    return kinds


def same_keys(one: Key, two: Key) -> bool:
    """Whether two keys are the same answer."""
    return _verdict(one, two).same


def _verdict(one: Key, two: Key) -> Verdict:
    """The verdict on two keys, in either order. An error of ours is not the end of a run: it counts as different."""
    try:
        return compare(*((one, two) if one.order <= two.order else (two, one)))
    except Unreadable:
        return TOO_LARGE
    except Exception as error:
        _LOG.warning("comparing two answers failed; they count as different", exc_info=True)
        return Verdict(False, f"internal error: {type(error).__name__}", certain=False)


def compare(one: Key, two: Key) -> Verdict:
    """The verdict on two keys.

    Raises:
        Unreadable: exact arithmetic would exceed its bounds.
    """
    if one.kind == "empty" or two.kind == "empty":
        return EMPTY_ANSWER
    if one == two:
        return BY_KEYS
    if two.kind not in COMPATIBLE.get(one.kind, _NONE):
        return OTHER_KEYS if one.kind == two.kind else OTHER_KINDS
    if one.kind == two.kind == "number":
        return _numbers(one.text, two.text)
    if one.kind in _COMPOSED:
        return _parts(one, two)
    if "equation" in (one.kind, two.kind):
        return _equations(one, two)
    if one.kind == "inequality":
        return _inequalities(one, two)
    verdict = _values(_valued(one), _valued(two))
    if verdict.same or one.kind != two.kind or one.kind != "named" or one.parts[1] == two.parts[1]:
        return verdict
    return _equations(one, two)  # x = 2y and y = x/2 have other values, and are one equation


def _numbers(one: str, two: str) -> Verdict:
    if not numerals.same_number(one, two):
        return OTHER_KEYS
    based = bool(numerals.base_of(one)) != bool(numerals.base_of(two))
    return BY_DIGITS if based and numerals.exact_value(one) == numerals.exact_value(two) else BY_ROUNDING


def _valued(key: Key) -> Key:
    return key.parts[0] if key.kind == "named" else key


def _parts(one: Key, two: Key) -> Verdict:
    """Tuples, intervals and matrices in their order; sets and unions in any."""
    if len(one.parts) != len(two.parts):
        return OTHER_KEYS
    if one.kind in ("set", "union"):
        return _matched(one.parts, two.parts)
    if one.kind == "interval" and (one.text[0], one.text[-1]) != (two.text[0], two.text[-1]):
        return OTHER_KEYS
    if one.kind == "matrix" and one.text.count("\\\\") != two.text.count("\\\\"):
        return OTHER_KEYS
    unsure = None
    for a, b in zip(one.parts, two.parts, strict=True):
        verdict = BY_KEYS if a == b else compare(a, b)
        if not verdict.same and verdict.certain:
            return verdict
        unsure = unsure if verdict.same else verdict
    return unsure or BY_PARTS


def _matched(ones: tuple[Key, ...], twos: tuple[Key, ...]) -> Verdict:
    shared = set(ones) & set(twos)
    left = [key for key in twos if key not in shared]
    missing = OTHER_KEYS
    for one in (key for key in ones if key not in shared):
        for at, two in enumerate(left):
            verdict = compare(one, two)
            if verdict.same:
                del left[at]
                break
            missing = missing if verdict.certain else verdict
        else:
            return missing
    return BY_PARTS


def _equations(one: Key, two: Key) -> Verdict:
    """Compare both as difference = 0 with first coefficient one; a named value is name - value = 0."""
    forms = [key if key.kind == "equation" else _as_equation(key) for key in (one, two)]
    if forms[0] is None or forms[1] is None:
        return OTHER_KEYS
    if forms[0] == forms[1]:
        return BY_KEYS
    return _values(_as_expression(forms[0]), _as_expression(forms[1]))


def _as_expression(key: Key) -> Key:
    """The sum that an equation or inequality compares with zero."""
    return Key.of_sum("expression", write(sum_of(key)), sum_of(key))


def _as_equation(key: Key) -> Key | None:
    value, name = key.parts
    return equation_key(subtract(sum_of(name), sum_of(value)))


def _inequalities(one: Key, two: Key) -> Verdict:
    if one.text.split(" ", 1)[0] != two.text.split(" ", 1)[0]:
        return OTHER_KEYS
    return _values(_as_expression(one), _as_expression(two))


def _values(one: Key, two: Key) -> Verdict:
    """Two values, at least one of them an expression."""
    if one == two:
        return BY_KEYS
    ours, theirs = _values_of(one), _values_of(two)
    rounded = [key.text for key in (one, two) if key.kind == "number" and numerals.is_rounded_decimal(key.text)]
    if rounded:
        closed = not symbols(sum_of(one)) and not symbols(sum_of(two))
        return BY_ROUNDING if closed and _rounds(rounded[0], ours[0], theirs[0]) else REFUTED
    if values_differ(ours, theirs):
        return REFUTED
    equal = _are_equal(one, two)
    if equal is None:
        return NOT_SHOWN
    return BY_ALGEBRA if equal else REFUTED_EXACTLY


def _rounds(long: str, one: Value | None, two: Value | None) -> bool:
    """Whether two values, one of which has the digits of a long decimal, are as close as its rounding allows."""
    if one is None or two is None:
        return False
    return abs(one[0] - two[0]) <= float(numerals.rounding_error(long)) + one[1] + two[1]


def sum_of(key: Key) -> Sum:
    """The sum that a number or an expression stands for."""
    return key.value if key.value is not None else number(narrow(numerals.exact_value(key.text)))


@lru_cache(maxsize=2**17)  # all pairs of the answers to one question, which a live run groups again and again
def _are_equal(one: Key, two: Key) -> bool | None:
    return are_equal(sum_of(one), sum_of(two))


@lru_cache(maxsize=16384)
def _values_of(key: Key) -> Values:
    return values_of(sum_of(key))


# -- exact arithmetic


def are_equal(one: Sum, two: Sum) -> bool | None:
    """Whether two sums are equal; None if exact arithmetic cannot tell."""
    difference = subtract(one, two)
    if not difference:
        return True
    if _radicals_only(difference):
        return False  # products of roots of different primes are independent: their sum is not zero
    try:
        return None if _without_denominators(difference) else True
    except Unreadable:
        return None


def _radicals_only(total: Sum) -> bool:
    return all(
        atom is IMAGINARY or (atom.prime and certainly_prime(atom.prime)) for monomial in total for atom, _ in monomial
    )


def _without_denominators(total: Sum) -> Sum:
    """The sum times every bracket or power that it divides by: zero if and only if the sum is."""
    lowest: dict[Atom, Rational] = {}
    for monomial in total:
        for atom, exponent in monomial:
            if exponent < 0 and not atom.prime and exponent.denominator == 1:
                lowest[atom] = min(lowest.get(atom, 0), exponent)
    if len(lowest) > MAX_DENOMINATORS:
        raise Unreadable("too many denominators")
    if not lowest:
        return total
    out: Sum = {}
    for monomial, value in total.items():
        term: Sum = product([pair for pair in monomial if pair[0] not in lowest], value)
        exponents = dict(monomial)
        for atom, low in lowest.items():
            left = exponents.get(atom, 0) - low
            term = multiply(term, power(_opened(atom), left) if left else ONE)
        out = add(out, term)
    return out


def _opened(atom: Atom) -> Sum:
    return atom.args[0] if atom.name == "group" else {((atom, 1),): 1}
