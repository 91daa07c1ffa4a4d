"""Whether two keys are the same answer, and how that was decided.

Keys first, then values at fixed points, then exact arithmetic; `confirm` decides what all three leave open.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from sureenough.answers import numerals
from sureenough.answers.algebra import number, subtract
from sureenough.answers.atoms import Sum, narrow, symbols, write
from sureenough.answers.evaluate import Fingerprint, fingerprint, fingerprints_differ, magnitudes_differ, share_a_point
from sureenough.answers.key_types import Key
from sureenough.answers.proof import decide_equality
from sureenough.answers.relations import equation_key

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
    settled: bool = True

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
SYMBOLIC = Verdict(True, "symbolically")
NOT_SYMBOLIC = Verdict(False, "symbolically")

Confirm = Callable[[Key, Key], Verdict]


def compare(one: Key, two: Key, confirm: Confirm) -> Verdict:
    """The verdict on two keys. `confirm` decides about two expressions that agree numerically."""
    if one.kind == "empty" or two.kind == "empty":
        return EMPTY_ANSWER
    if one == two:
        return BY_KEYS
    if two.kind not in COMPATIBLE.get(one.kind, _NONE):
        return OTHER_KEYS if one.kind == two.kind else OTHER_KINDS
    if one.kind == two.kind == "number":
        return _numbers(one.text, two.text)
    if one.kind in _COMPOSED:
        return _parts(one, two, confirm)
    if "equation" in (one.kind, two.kind):
        return _equations(one, two, confirm)
    if one.kind == "inequality":
        return _inequalities(one, two, confirm)
    verdict = _values(_valued(one), _valued(two), confirm)
    if verdict.same or one.kind != two.kind or one.kind != "named" or one.parts[1] == two.parts[1]:
        return verdict
    return _equations(one, two, confirm)  # x = 2y and y = x/2 have other values, and are one equation


def _numbers(one: str, two: str) -> Verdict:
    if not numerals.same_number(one, two):
        return OTHER_KEYS
    based = bool(numerals.base_of(one)) != bool(numerals.base_of(two))
    return BY_DIGITS if based and numerals.exact_value(one) == numerals.exact_value(two) else BY_ROUNDING


def _valued(key: Key) -> Key:
    return key.parts[0] if key.kind == "named" else key


def _parts(one: Key, two: Key, confirm: Confirm) -> Verdict:
    """Tuples, intervals and matrices in their order; sets and unions in any."""
    if len(one.parts) != len(two.parts):
        return OTHER_KEYS
    if one.kind in ("set", "union"):
        return _matched(one.parts, two.parts, confirm)
    if one.kind == "interval" and (one.text[0], one.text[-1]) != (two.text[0], two.text[-1]):
        return OTHER_KEYS
    if one.kind == "matrix" and one.text.count("\\\\") != two.text.count("\\\\"):
        return OTHER_KEYS
    open_pairs = [(a, b) for a, b in zip(one.parts, two.parts, strict=True) if a != b]
    return _all(open_pairs, confirm)


def _all(pairs: list[tuple[Key, Key]], confirm: Confirm) -> Verdict:
    """Same if every pair is; cheap pairs come first, because one difference settles it."""
    waiting: list[tuple[Key, Key]] = []
    for a, b in pairs:
        verdict = compare(a, b, leave_open)
        if verdict is _OPEN:
            waiting.append((a, b))
        elif not verdict.same:
            return verdict
    for a, b in waiting:
        verdict = compare(a, b, confirm)
        if not verdict.same:
            return verdict
    return BY_PARTS


_OPEN = Verdict(False, "left open", settled=False)


def leave_open(_one: Key, _two: Key) -> Verdict:
    """Decide nothing: a `confirm` for comparing without symbolic code."""
    return _OPEN


def certainly_different(verdict: Verdict) -> bool:
    return verdict.settled and not verdict.same


def _matched(ones: tuple[Key, ...], twos: tuple[Key, ...], confirm: Confirm) -> Verdict:
    shared = set(ones) & set(twos)
    left = [key for key in twos if key not in shared]
    missing = OTHER_KEYS
    for one in (key for key in ones if key not in shared):
        for at, two in enumerate(left):
            verdict = compare(one, two, confirm)
            if verdict.same:
                del left[at]
                break
            missing = verdict if not verdict.settled else missing
        else:
            return missing
    return BY_PARTS


def _equations(one: Key, two: Key, confirm: Confirm) -> Verdict:
    """Compare both as difference = 0 with first coefficient one; a named value is name - value = 0."""
    forms = [key if key.kind == "equation" else _as_equation(key) for key in (one, two)]
    if forms[0] is None or forms[1] is None:
        return OTHER_KEYS
    if forms[0] == forms[1]:
        return BY_KEYS
    return _values(_as_expression(forms[0]), _as_expression(forms[1]), confirm)


def _as_expression(key: Key) -> Key:
    """The sum that an equation or inequality compares with zero."""
    return Key("expression", write(sum_of(key)), value=sum_of(key))


def _as_equation(key: Key) -> Key | None:
    value, name = key.parts
    return equation_key(subtract(sum_of(name), sum_of(value)))


def _inequalities(one: Key, two: Key, confirm: Confirm) -> Verdict:
    if one.text.split(" ", 1)[0] != two.text.split(" ", 1)[0]:
        return OTHER_KEYS
    return _values(_as_expression(one), _as_expression(two), confirm)


def _values(one: Key, two: Key, confirm: Confirm) -> Verdict:
    """Two values, at least one of them an expression."""
    if one == two:
        return BY_KEYS
    ours, theirs = _fingerprint_of(one), _fingerprint_of(two)
    rounded = [key.text for key in (one, two) if key.kind == "number" and numerals.is_rounded_decimal(key.text)]
    if rounded:
        return _rounded(rounded[0], ours, theirs)
    if fingerprints_differ(ours, theirs):
        return REFUTED
    closed = len(ours) == len(theirs) == 1
    if not share_a_point(ours, theirs) and magnitudes_differ(sum_of(one), sum_of(two), closed=closed):
        return REFUTED
    certain = decide_equality(sum_of(one), sum_of(two))
    if certain is not None:
        return BY_ALGEBRA if certain else REFUTED_EXACTLY
    return confirm(one, two)


def _rounded(long: str, one: Fingerprint, two: Fingerprint) -> Verdict:
    """A long decimal and a closed value that it may round."""
    if len(one) > 1 or len(two) > 1 or one[0] is None or two[0] is None:
        return REFUTED
    gap = abs(one[0][0] - two[0][0])
    return BY_ROUNDING if gap <= float(numerals.rounding_error(long)) + one[0][1] + two[0][1] else REFUTED


def sum_of(key: Key) -> Sum:
    """The sum that a number or an expression stands for."""
    return key.value if key.value is not None else number(narrow(numerals.exact_value(key.text)))


@lru_cache(maxsize=16384)
def _fingerprint_of(key: Key) -> Fingerprint:
    total = sum_of(key)
    return fingerprint(total, closed=not symbols(total))
