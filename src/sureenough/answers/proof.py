"""Equality of two sums that agree numerically, settled exactly where our own arithmetic can decide_equality it."""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers.algebra import ONE, add, multiply, power, product, subtract
from sureenough.answers.atoms import IMAGINARY, Atom, Rational, Sum, Unreadable
from sureenough.answers.primes import certainly_prime

MAX_DENOMINATORS = 4


def decide_equality(one: Sum, two: Sum) -> bool | None:
    """True or False where it is certain; None where only symbolic algebra can tell."""
    difference = subtract(one, two)
    if not difference:
        return True
    if _radicals_only(difference):
        return False  # products of roots of different primes are independent: no zero is hidden here
    try:
        cleared = _without_denominators(difference)
    except Unreadable:
        return None
    return True if not cleared else None


def _radicals_only(total: Sum) -> bool:
    return all(
        thing is IMAGINARY or (thing.prime and certainly_prime(thing.prime))
        for monomial in total
        for thing, _ in monomial
    )


def _without_denominators(total: Sum) -> Sum:
    """The sum times every bracket or power that it divides by: zero exactly where the sum is."""
    lowest: dict[Atom, Rational] = {}
    for monomial in total:
        for thing, exponent in monomial:
            if exponent < 0 and not thing.prime and Fraction(exponent).denominator == 1:
                lowest[thing] = min(lowest.get(thing, 0), exponent)
    if len(lowest) > MAX_DENOMINATORS:
        raise Unreadable("too many denominators")
    out: Sum = {}
    for monomial, value in total.items():
        term: Sum = product([pair for pair in monomial if pair[0] not in lowest], value)
        here = dict(monomial)
        for thing, low in lowest.items():
            left = here.get(thing, 0) - low
            term = multiply(term, power(_opened(thing), left) if left else ONE)
        out = add(out, term)
    return out


def _opened(thing: Atom) -> Sum:
    return thing.args[0] if thing.name == "group" else {((thing, 1),): 1}
