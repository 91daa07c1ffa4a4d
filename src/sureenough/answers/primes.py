"""Prime factors by trial division, bounded: exact for numbers below a million, one lump at the end beyond."""

from __future__ import annotations

from math import isqrt

from sureenough.answers.atoms import Unreadable

MAX_BITS = 4096
_LARGEST = 1000
_PRIMES = [n for n in range(2, _LARGEST) if all(n % d for d in range(2, int(n**0.5) + 1))]


def certainly_prime(lump: int) -> bool:
    """Whether what `factors` left over is prime: it has no divisor below the largest one tried."""
    return lump < _LARGEST**2


def factors(whole: int) -> list[tuple[int, int]]:
    """Prime factors with their exponents; what is left after the primes below 1000 counts as one."""
    powers: list[tuple[int, int]] = []
    if whole.bit_length() > MAX_BITS:
        raise Unreadable("a number too large to factor")
    for prime in _PRIMES:
        if prime * prime > whole:
            break
        times = 0
        while whole % prime == 0:
            whole //= prime
            times += 1
        if times:
            powers.append((prime, times))
    if whole > 1:
        root = isqrt(whole)
        powers.append((root, 2) if root * root == whole else (whole, 1))
    return powers
