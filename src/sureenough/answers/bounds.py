"""What symbolic code may receive: short, shallow expressions with small numbers, nothing that explodes."""

from __future__ import annotations

from sureenough.answers.atoms import Atom, Rational, Sum

MAX_TEXT = 600
MAX_TERMS = 30
MAX_DEPTH = 6
MAX_BITS = 200  # of any number, some 60 digits
MAX_EXPONENT = 40
_EXPLODING = frozenset(("factorial", "binom"))


def within(text: str, total: Sum) -> bool:
    """Whether symbolic code may see a sum whose text this is."""
    return len(text) <= MAX_TEXT and _sum(total, 0)


def _sum(total: Sum, depth: int) -> bool:
    return (
        depth <= MAX_DEPTH
        and len(total) <= MAX_TERMS
        and all(_small(value, MAX_BITS) for value in total.values())
        and all(_factor(atom, exponent, depth) for monomial in total for atom, exponent in monomial)
    )


def _factor(atom: Atom, exponent: Rational, depth: int) -> bool:
    if not -MAX_EXPONENT <= exponent <= MAX_EXPONENT or not _small(exponent, 16) or atom.prime.bit_length() > MAX_BITS:
        return False
    if atom.name in _EXPLODING and not all(_plain(arg) for arg in atom.args):
        return False
    return all(_sum(arg, depth + 1) for arg in atom.args)


def _plain(total: Sum) -> bool:
    """A factorial may have n or n + 3 in it, nothing larger."""
    return len(total) <= 2 and all(-MAX_EXPONENT <= value <= MAX_EXPONENT for value in total.values())


def _small(value: Rational, bits: int) -> bool:
    return value.numerator.bit_length() <= bits and value.denominator.bit_length() <= bits
