"""The value of a sum at fixed points, with a bound on its own rounding error; it refutes, it never proves.

Points are a function of the symbol's name alone, so nothing is random and every run agrees.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable, Iterator
from functools import lru_cache
from zlib import crc32

from sureenough.answers.atoms import Atom, Rational, Sum

POSITIVE = 5  # points at which every symbol is positive
POINTS = 8
_SCALES = (1, 1, 1, 9, 31, 1, 1, 5)  # some points far out, where floors and ceilings differ
_EPS = 2.0**-50
_SLACK = 32.0  # our error bounds are first-order; this covers the rest and the C library's own errors

Value = tuple[complex, float]  # a value and a bound on its error
Fingerprint = tuple[Value | None, ...]


class Undefined(ArithmeticError):
    """No value at this point, or none that we could trust."""


def fingerprint(total: Sum, *, closed: bool) -> Fingerprint:
    """The values at all points; None if there is none. A closed sum has one value."""
    return tuple(_try(total, point, closed) for point in range(1 if closed else POINTS))


def fingerprints_differ(one: Fingerprint, two: Fingerprint) -> bool:
    """Whether two fingerprints differ by more than both errors at some point."""
    return any(a and b and abs(a[0] - b[0]) > _SLACK * (a[1] + b[1]) for a, b in _paired_values(one, two))


def share_a_point(one: Fingerprint, two: Fingerprint) -> bool:
    """Whether there is a point at which both have a value."""
    return any(a and b for a, b in _paired_values(one, two))


def _paired_values(one: Fingerprint, two: Fingerprint) -> Iterator[tuple[Value | None, Value | None]]:
    """The values of both at every point; a closed one has the same everywhere."""
    for at in range(max(len(one), len(two))):
        yield one[at if len(one) > 1 else 0], two[at if len(two) > 1 else 0]


def magnitudes_differ(one: Sum, two: Sum, *, closed: bool) -> bool:
    """Whether two products differ in size, for values too large or too small to be written as floats."""
    evaluation = _Evaluation(0, closed)
    ours, theirs = evaluation.size(one), evaluation.size(two)
    if ours is None or theirs is None:
        return False
    return abs(ours - theirs) > 1e-6 * (1 + abs(ours) + abs(theirs))


def _try(total: Sum, point: int, closed: bool) -> Value | None:
    try:
        value, error = _Evaluation(point, closed).sum(total)
    except (ArithmeticError, ValueError):  # overflow, division by zero, domain: no value at this point
        return None
    return (value, error) if math.isfinite(value.real) and math.isfinite(value.imag + error) else None


@lru_cache(maxsize=4096)
def symbol_value(name: str, point: int) -> float:
    spread = crc32(f"{name}|{point}".encode()) / 2**32
    value = (0.35 + 1.9 * spread) * _SCALES[point]
    return -value if point >= POSITIVE and crc32(f"{point}|{name}".encode()) & 64 else value


class _Evaluation:
    """One walk over a sum. Roots and logarithms of negative numbers have values only in closed sums."""

    def __init__(self, point: int, closed: bool) -> None:
        self.point = point
        self.closed = closed

    def sum(self, total: Sum) -> Value:
        value, error = 0j, 0.0
        for monomial, coefficient in total.items():
            term: Value = (complex(_float(coefficient)), abs(_float(coefficient)) * _EPS)
            for atom, exponent in monomial:
                term = _times(term, self.raised(self.atom_value(atom), exponent))
            value += term[0]
            error += term[1] + abs(value) * _EPS
        return value, error

    def size(self, total: Sum) -> float | None:
        """The logarithm of the absolute value of a product; None for a sum, and without a value."""
        if len(total) != 1:
            return None
        ((monomial, coefficient),) = total.items()
        try:
            size = math.log(abs(coefficient.numerator)) - math.log(coefficient.denominator)
            for atom, exponent in monomial:
                size += _float(exponent) * math.log(abs(self.atom_value(atom)[0]))
        except (ArithmeticError, ValueError):
            return None
        return size

    def raised(self, base: Value, exponent: Rational) -> Value:
        value, error = base
        if exponent == 1:
            return base
        if value == 0 or (exponent < 0 and abs(value) <= _SLACK * error):
            if exponent > 0 and error == 0:
                return 0j, 0.0
            raise Undefined
        if exponent.denominator != 1:
            self.check_branch(base)
        power = _float(exponent)
        out = value**power if exponent.denominator != 1 or abs(power) > 64 else value ** int(power)
        return out, abs(out) * (abs(power) * error / abs(value) + _EPS * (2 + abs(power)))

    def check_branch(self, base: Value) -> None:
        """Near zero, or on the negative axis of an open sum, a root says nothing."""
        value, error = base
        if abs(value) <= _SLACK * error or (not self.closed and value.real <= 0):
            raise Undefined
        if value.real < 0 and 0 < abs(value.imag) <= _SLACK * error:
            raise Undefined

    def atom_value(self, atom: Atom) -> Value:
        if atom.prime:
            return complex(_float(atom.prime)), atom.prime * _EPS
        if atom.name == "symbol":
            return complex(symbol_value(atom.text, self.point)), 0.0
        if atom.name == "constant":
            value = math.pi if atom.text == "\\pi" else math.e
            return complex(value), value * _EPS
        if atom.name == "imaginary":
            return 1j, 0.0
        args = [self.sum(arg) for arg in atom.args]
        if atom.name == "group":
            return args[0]
        if atom.name == "applied":
            return self.applied(atom.text.partition("(")[0], args[0])
        if atom.name == "power":
            self.check_branch(args[0])
            logged = cmath.log(args[0][0]), args[0][1] / abs(args[0][0]) + _EPS
            return _smooth(cmath.exp, cmath.exp, _times(logged, args[1]))
        return self.call(atom.name, args)

    def applied(self, name: str, at: Value) -> Value:
        """An unknown function, as a wave that only its name decides: equal arguments give equal values."""
        height, pace, start = (symbol_value(f"{name}|{part}", self.point) for part in ("height", "pace", "start"))
        wave = _smooth(*_SMOOTH["sin"], (at[0] * pace + start, at[1] * abs(pace) + abs(at[0] * pace) * _EPS))
        return wave[0] * height + start, wave[1] * abs(height) + abs(start) * _EPS

    def call(self, name: str, args: list[Value]) -> Value:
        value, error = args[0]
        if name in _SMOOTH:
            if name == "ln":
                self.check_branch(args[0])
            return _smooth(*_SMOOTH[name], args[0])
        if name == "abs":
            return complex(abs(value)), error + abs(value) * _EPS
        if abs(value.imag) > _SLACK * error:
            raise Undefined
        if name in ("floor", "ceil"):
            if abs(value.real - round(value.real)) <= _SLACK * error + _EPS:
                raise Undefined
            return complex(math.floor(value.real) + (name == "ceil")), 0.0
        if name == "factorial":
            return _gamma(value.real + 1, error)
        if name == "binom":
            above, below = args[0][0].real, args[1][0].real
            top, left, right = (_gamma(x + 1, error + args[1][1]) for x in (above, below, above - below))
            lower = _times(left, right)
            return _times(top, (1 / lower[0], lower[1] / abs(lower[0]) ** 2))
        raise Undefined


def _float(value: Rational) -> float:
    return value.numerator / value.denominator  # true division of ints rounds once, whatever their size


def _times(one: Value, two: Value) -> Value:
    (a, ea), (b, eb) = one, two
    out = a * b
    return out, abs(a) * eb + abs(b) * ea + ea * eb + abs(out) * _EPS


def _gamma(value: float, error: float) -> Value:
    out = math.gamma(value)
    return complex(out), abs(out) * (1e-13 + error * (1 + abs(math.log(abs(value) + 1))))


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
