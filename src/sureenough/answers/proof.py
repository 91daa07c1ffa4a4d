"""Equality of two sums that agree numerically, decided by exact arithmetic if it can be."""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers.algebra import ONE, add, multiply, power, product, subtract
from sureenough.answers.atoms import IMAGINARY, Atom, Rational, Sum, Unreadable
from sureenough.answers.primes import certainly_prime

MAX_DENOMINATORS = 4


def decide_equality(one: Sum, two: Sum) -> bool | None:
    """True or False if it is certain; None if only symbolic algebra can tell."""
    difference = subtract(one, two)
    if not difference:
        return True
    if _radicals_only(difference):
        return False  # products of roots of different primes are independent: their sum is not zero
    try:
        cleared = _without_denominators(difference)
    except Unreadable:
        return None
    return True if not cleared else None


def _radicals_only(total: Sum) -> bool:
    return all(
        atom is IMAGINARY or (atom.prime and certainly_prime(atom.prime)) for monomial in total for atom, _ in monomial
    )


def _without_denominators(total: Sum) -> Sum:
    """The sum times every bracket or power that it divides by: zero if and only if the sum is."""
    lowest: dict[Atom, Rational] = {}
    for monomial in total:
        for atom, exponent in monomial:
            if exponent < 0 and not atom.prime and Fraction(exponent).denominator == 1:
                lowest[atom] = min(lowest.get(atom, 0), exponent)
    if len(lowest) > MAX_DENOMINATORS:
        raise Unreadable("too many denominators")
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
