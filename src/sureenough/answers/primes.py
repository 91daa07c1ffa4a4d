"""Prime factors by trial division, bounded: exact for numbers below a million, one cofactor is left beyond."""

from __future__ import annotations

from math import isqrt

from sureenough.answers.atoms import Atom, Rational, Unreadable

MAX_BITS = 4096
_LARGEST = 1000
_PRIMES = {
    n: Atom("prime", str(n), prime=n) for n in range(2, _LARGEST) if all(n % d for d in range(2, int(n**0.5) + 1))
}


def certainly_prime(cofactor: int) -> bool:
    """Whether what `prime_powers` left over is prime: it has no divisor below the largest one tried."""
    return cofactor < _LARGEST**2


def prime_powers(value: Rational) -> list[tuple[Atom, int]]:
    """A positive number as a product: its primes, with negative exponents for those of the denominator."""
    return [*_factors(value.numerator), *((prime, -times) for prime, times in _factors(value.denominator))]


def _factors(whole: int) -> list[tuple[Atom, int]]:
    """What is left after the primes below 1000 counts as one."""
    powers: list[tuple[Atom, int]] = []
    if whole.bit_length() > MAX_BITS:
        raise Unreadable("a number too large to factor")
    for prime, atom in _PRIMES.items():
        if prime * prime > whole:
            break
        times = 0
        while whole % prime == 0:
            whole //= prime
            times += 1
        if times:
            powers.append((atom, times))
    if whole > 1:
        root = isqrt(whole)
        cofactor, times = (root, 2) if root * root == whole else (whole, 1)
        powers.append((_PRIMES.get(cofactor) or Atom("prime", str(cofactor), prime=cofactor), times))
    return powers
