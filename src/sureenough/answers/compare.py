"""Which answers to one question are the same, and how that was decided.

Keys first, then values as floats, which only refute, then exact arithmetic. What these cannot settle is different.
Classes are a function of the set of distinct keys: keys are sorted, each joins the first class whose representative it
equals and none of whose members it certainly differs from, else it founds a class.
"""

from __future__ import annotations

import cmath
import logging
import math
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from zlib import crc32

from sureenough.answers.math.algebra import (
    IMAGINARY,
    ONE,
    PI,
    Atom,
    Rational,
    Sum,
    Unreadable,
    add,
    atom_sum,
    certainly_prime,
    constant,
    multiply,
    power,
    product,
    subtract,
    symbols,
)
from sureenough.answers.math.key import canonical_key, equation_key
from sureenough.answers.math.structures import Key

MAX_DENOMINATORS = 4  # cleared from a difference
_DOUBLE = 15  # digits that survive in a double; 16 and 17 are printed, and noise

_LOG = logging.getLogger(__name__)
_COMPOSED = ("tuple", "interval", "set", "union", "matrix")
COMPATIBLE: dict[str, tuple[str, ...]] = {
    "plain": ("number", "expression"),
    "number": ("plain", "number", "expression"),
    "expression": ("plain", "number", "expression", "named"),
    "named": ("expression", "named", "equation"),
    "equation": ("named", "equation"),
    **{kind: (kind,) for kind in ("inequality", *_COMPOSED)},
}
"""Kinds that may hold the same answer. Two plain numbers are never the same, so they are not
compared: 5 is not 500, and 025 has the key of 25 already."""


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
    return compare_keys(canonical_key(one), canonical_key(two))


def same(one: str, two: str) -> bool:
    """Whether two answers to one question are the same answer."""
    return explain(one, two).same


def classes(answers: Iterable[str | None]) -> list[int | None]:
    """The class of each answer to one question, numbered by first appearance; None for None."""
    keys = [None if answer is None else canonical_key(answer) for answer in answers]
    representatives = _representatives({key for key in keys if key is not None})
    # An empty answer equals nothing, not even another.
    return number_classes(
        at if key is not None and key.kind == "empty" else representatives.get(key) for at, key in enumerate(keys)
    )


def number_classes(keys: Iterable[Hashable | None]) -> list[int | None]:
    """Classes numbered by first appearance; None for None."""
    numbers: dict[Hashable, int] = {}
    return [None if key is None else numbers.setdefault(key, len(numbers)) for key in keys]


def _representatives(distinct: set[Key]) -> dict[Key | None, Key]:
    representatives: dict[Key | None, Key] = {}
    members: dict[str, list[list[Key]]] = {}  # of each class, by the kind of its representative, its first
    for key in sorted(distinct, key=lambda key: key.order):
        kind = _kind(key)
        groups = (group for other in COMPATIBLE.get(kind, ()) for group in members.get(other, ()))
        joined = next((group for group in groups if _belongs(key, group)), None)
        if joined is None:
            members.setdefault(kind, []).append(joined := [])
        joined.append(key)
        representatives[key] = joined[0]
    return representatives


def _kind(key: Key) -> str:
    return "plain" if key.kind == "number" and key.text.lstrip("-").replace("/", "").isdigit() else key.kind


def _belongs(key: Key, group: list[Key]) -> bool:
    """Whether a key is the same as a representative and not certainly another than one of the other members.

    52_8 and 52_9 are both the same as 52, and are not one answer.
    """
    if not compare_keys(group[0], key).same:
        return False
    others = (compare_keys(member, key) for member in group[1:])
    return not any(verdict.certain and not verdict.same for verdict in others)


def compare_keys(one: Key, two: Key) -> Verdict:
    """The verdict on two keys, in either order. An error of ours is not the end of a run: it counts as different."""
    try:
        return _compare(*((one, two) if one.order <= two.order else (two, one)))
    except Unreadable:  # beyond the bounds of exact arithmetic
        return TOO_LARGE
    except Exception as error:
        _LOG.warning("comparing two answers failed; they count as different", exc_info=True)
        return Verdict(False, f"internal error: {type(error).__name__}", certain=False)


def _compare(one: Key, two: Key) -> Verdict:
    if one.kind == "empty" or two.kind == "empty":
        return EMPTY_ANSWER
    if one == two:
        return BY_KEYS
    if _kind(two) not in COMPATIBLE.get(_kind(one), ()):
        return OTHER_KEYS if one.kind == two.kind else OTHER_KINDS
    if one.kind in _COMPOSED:
        return _parts(one, two)
    if "equation" in (one.kind, two.kind):
        return _equations(one, two)
    if one.kind == "inequality" and one.text.split(" ", 1)[0] != two.text.split(" ", 1)[0]:
        return OTHER_KEYS
    verdict = _values(*(key.parts[0] if key.kind == "named" else key for key in (one, two)))
    if verdict.same or one.kind != two.kind or one.kind != "named" or one.parts[1] == two.parts[1]:
        return verdict
    return _equations(one, two)  # x = 2y and y = x/2 have other values, and are one equation


def _parts(one: Key, two: Key) -> Verdict:
    """Tuples, intervals and matrices in their order; sets and unions in any."""
    if one.kind in ("set", "union") and len(one.parts) == len(two.parts):
        return _matched(one.parts, two.parts)
    if one.shape != two.shape or (one.kind == "matrix" and one.text.count("\\\\") != two.text.count("\\\\")):
        return OTHER_KEYS
    unsure = BY_PARTS
    for a, b in zip(one.parts, two.parts, strict=True):
        verdict = BY_KEYS if a == b else _compare(a, b)
        if not verdict.same and verdict.certain:
            return verdict
        unsure = unsure if verdict.same else verdict
    return unsure


def _matched(ones: tuple[Key, ...], twos: tuple[Key, ...]) -> Verdict:
    left = [key for key in twos if key not in ones]
    missing = OTHER_KEYS
    for one in (key for key in ones if key not in twos):
        for two in left:
            verdict = _compare(one, two)
            if verdict.same:
                left.remove(two)
                break
            missing = missing if verdict.certain else verdict
        else:
            return missing
    return BY_PARTS


def _equations(one: Key, two: Key) -> Verdict:
    """Compare both as difference = 0 with first coefficient one; a named value is name - value = 0."""
    forms = [
        key if key.kind == "equation" else equation_key(subtract(key.parts[1].value, key.parts[0].value))
        for key in (one, two)
    ]
    return _values(*forms)


def _values(one: Key, two: Key) -> Verdict:
    """Two values, not both of them plain numbers; or what two equations or inequalities compare with zero."""
    if one == two:
        return BY_KEYS
    numbers = [key for key in (one, two) if key.kind == "number"]
    if len(numbers) == 2:
        if one.base and two.base and one.base != two.base:
            return OTHER_KEYS
        if one.exact == two.exact:
            return BY_DIGITS if one.base or two.base else BY_ROUNDING
    rounded = [key for key in numbers if key.rounded]
    if rounded or len(numbers) == 2:
        if any(differ_by_at_most(one, two, _rounding_error(key.text)) for key in rounded):
            return BY_ROUNDING
        return OTHER_KEYS if len(numbers) == 2 else REFUTED
    if values_differ(_values_of(one), _values_of(two)):
        return REFUTED
    equal = _are_equal(one, two)
    if equal is None:
        return NOT_SHOWN
    return BY_ALGEBRA if equal else REFUTED_EXACTLY


def differ_by_at_most(one: Key, two: Key, tolerance: Fraction) -> bool:
    """Whether two values without symbols are that close: exactly if both are rational, else within a float's error."""
    known = constant(subtract(one.value, two.value))
    if known is not None:
        return abs(Fraction(known)) <= tolerance
    if symbols(one.value) or symbols(two.value):
        return False
    a, b = _values_of(one)[0], _values_of(two)[0]
    return a is not None and b is not None and abs(a[0] - b[0]) <= float(tolerance) + a[1] + b[1]


def _rounding_error(text: str) -> Fraction:
    """Half a unit of the last digit that a long decimal vouches for."""
    whole, _, part = text.lstrip("-").partition(".")
    digits = len((whole + part).lstrip("0"))
    trusted = len(part) - max(0, digits - _DOUBLE) if digits in (16, 17) else len(part)
    return Fraction(1, 2) / Fraction(10) ** trusted


@lru_cache(maxsize=2**17)  # all pairs of the answers to one question, which a live run groups again and again
def _are_equal(one: Key, two: Key) -> bool | None:
    return are_equal(one.value, two.value)


@lru_cache(maxsize=16384)
def _values_of(key: Key) -> Values:
    return values_of(key.value)


# -- exact arithmetic


def are_equal(one: Sum, two: Sum) -> bool | None:
    """Whether two sums are equal; None if exact arithmetic cannot tell."""
    difference = subtract(one, two)
    if not difference:
        return True
    if all(atom is IMAGINARY or certainly_prime(atom.prime) for monomial in difference for atom, _ in monomial):
        return False  # products of roots of different primes are independent: their sum is not zero
    try:
        return None if _without_denominators(difference) else True
    except Unreadable:
        return None


def _without_denominators(total: Sum) -> Sum:
    """The sum times every bracket or power that it divides by: zero if and only if the sum is."""
    lowest: dict[Atom, Rational] = {}
    for monomial in total:
        for atom, exponent in monomial:
            if exponent < 0 and not atom.prime and exponent.denominator == 1:
                lowest[atom] = min(lowest.get(atom, 0), exponent)
    if len(lowest) > MAX_DENOMINATORS:
        raise Unreadable("too many denominators")
    out: Sum = {}
    for monomial, value in total.items():
        exponents = dict(monomial)
        term = product([pair for pair in monomial if pair[0] not in lowest], value)
        for atom, low in lowest.items():
            left = exponents.get(atom, 0) - low
            base = atom.args[0] if atom.name == "group" else atom_sum(atom)
            term = multiply(term, power(base, left) if left else ONE)
        out = add(out, term)
    return out


# -- values as floats, each with a bound on its own rounding error: they refute, and never prove


_EPS = 2.0**-50
_SLACK = 32.0  # our error bounds are first-order; this covers the rest and the C library's own errors
_SCALES = (1, 31)  # so that logarithms and roots of differences have a value at one of them

Value = tuple[complex, float]  # a value and a bound on its error
Values = tuple[Value | None, Value | None]


def values_of(total: Sum) -> Values:
    """The values of a sum, None for one that it does not have or that a float cannot hold.

    A sum with symbols or unknown functions is taken at two points, at which all of them are positive. Only their text
    decides their values, so nothing is random and every run agrees.
    """
    if not symbols(total):
        return (_value_of(total, 0),) * 2
    return _value_of(total, _SCALES[0]), _value_of(total, _SCALES[1])


def values_differ(one: Values, two: Values) -> bool:
    """Whether two sums differ at some point by more than both errors."""
    return any(a and b and abs(a[0] - b[0]) > _SLACK * (a[1] + b[1]) for a, b in zip(one, two, strict=True))


def _value_of(total: Sum, scale: int) -> Value | None:
    """The value at the point with this scale; 0 for a sum without symbols."""
    try:
        value, error = _sum(total, scale)
    except (ArithmeticError, ValueError):  # overflow, division by zero, domain
        return None
    return (value, error) if math.isfinite(value.real) and math.isfinite(value.imag + error) else None


def _sum(total: Sum, scale: int) -> Value:
    value, error = 0j, 0.0
    for monomial, coefficient in total.items():
        term: Value = (complex(_float(coefficient)), abs(_float(coefficient)) * _EPS)
        for atom, exponent in monomial:
            term = _times(term, _raised(_atom(atom, scale), exponent, scale))
        value += term[0]
        error += term[1] + abs(value) * _EPS
    return value, error


def _raised(base: Value, exponent: Rational, scale: int) -> Value:
    value, error = base
    if exponent == 1:
        return base
    if exponent > 0 and value == error == 0:
        return base
    if value == 0 or (exponent < 0 and abs(value) <= _SLACK * error):
        raise ZeroDivisionError
    if exponent.denominator != 1:
        _check_branch(base, scale)
    power = _float(exponent)
    out = value**power if exponent.denominator != 1 or abs(power) > 64 else value ** int(power)
    return out, abs(out) * (abs(power) * error / abs(value) + _EPS * (2 + abs(power)))


def _check_branch(base: Value, scale: int) -> None:
    """Near zero, or on the negative axis of a sum with symbols, a root or logarithm says nothing."""
    value, error = base
    near = _SLACK * error
    if abs(value) <= near or (scale and value.real <= 0) or (value.real < 0 and 0 < abs(value.imag) <= near):
        raise ArithmeticError


def _atom(atom: Atom, scale: int) -> Value:
    if atom.unknown:
        return complex(scale * (0.35 + 1.9 * crc32(atom.text.encode()) / 2**32)), 0.0
    if atom is IMAGINARY:
        return 1j, 0.0
    if atom.positive:
        known = atom.prime or (math.pi if atom is PI else math.e)
        return complex(known), known * _EPS
    args = [_sum(arg, scale) for arg in atom.args]
    value, error = args[0]
    if atom.name == "group":
        return args[0]
    if atom.name == "abs":
        return complex(abs(value)), error + abs(value) * _EPS
    if atom.name in ("ln", "power"):
        _check_branch(args[0], scale)
    if atom.name == "power":
        logged = cmath.log(value), error / abs(value) + _EPS
        return _smooth(cmath.exp, cmath.exp, _times(logged, args[1]))
    if atom.name not in _SMOOTH:
        raise ArithmeticError  # a factorial, a binomial, or a function with steps
    return _smooth(*_SMOOTH[atom.name], args[0])


def _float(value: Rational) -> float:
    return value.numerator / value.denominator  # true division of ints rounds once, whatever their size


def _times(one: Value, two: Value) -> Value:
    (a, ea), (b, eb) = one, two
    out = a * b
    return out, abs(a) * eb + abs(b) * ea + ea * eb + abs(out) * _EPS


Curve = Callable[[complex], complex]


def _smooth(function: Curve, slope: Curve, at: Value) -> Value:
    value, error = at
    out = function(value)
    return out, abs(slope(value)) * error + (abs(out) + abs(value) * _EPS + 1e-300) * _EPS


_SMOOTH: dict[str, tuple[Curve, Curve]] = {
    "sin": (cmath.sin, lambda x: complex(1 + abs(cmath.cos(x)))),
    "cos": (cmath.cos, lambda x: complex(1 + abs(cmath.sin(x)))),
    "ln": (cmath.log, lambda x: 1 / x),
    "arcsin": (cmath.asin, lambda x: 1 / cmath.sqrt(1 - x * x)),
    "arccos": (cmath.acos, lambda x: 1 / cmath.sqrt(1 - x * x)),
    "arctan": (cmath.atan, lambda x: 1 / (1 + x * x)),
    "sinh": (cmath.sinh, cmath.cosh),
    "cosh": (cmath.cosh, lambda x: complex(1 + abs(cmath.sinh(x)))),
    "tanh": (cmath.tanh, lambda x: 1 / cmath.cosh(x) ** 2),
}
