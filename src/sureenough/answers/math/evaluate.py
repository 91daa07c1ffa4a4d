"""The value of a sum as a float, with a bound on its own rounding error; it refutes, and never proves.

A sum with symbols or unknown functions is taken at two points, at which all of them are positive. Only their text
decides their values, so nothing is random and every run agrees.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from zlib import crc32

from sureenough.answers.math.algebra import Atom, Rational, Sum, symbols

_EPS = 2.0**-50
_SLACK = 32.0  # our error bounds are first-order; this covers the rest and the C library's own errors

_SCALES = (1, 31)  # so that logarithms and roots of differences have a value at one of them

Value = tuple[complex, float]  # a value and a bound on its error
Values = tuple[Value | None, Value | None]


class Undefined(ArithmeticError):
    """No value, or none that we could trust."""


def values_of(total: Sum) -> Values:
    """The values of a sum, None for one that it does not have or that a float cannot hold."""
    if not symbols(total):
        value = _try(_Evaluation(closed=True), total)
        return value, value
    near, far = (_try(_Evaluation(closed=False, scale=scale), total) for scale in _SCALES)
    return near, far


def values_differ(one: Values, two: Values) -> bool:
    """Whether two sums differ at some point by more than both errors."""
    return any(a and b and abs(a[0] - b[0]) > _SLACK * (a[1] + b[1]) for a, b in zip(one, two, strict=True))


def _try(evaluation: _Evaluation, total: Sum) -> Value | None:
    try:
        value, error = evaluation.sum(total)
    except (ArithmeticError, ValueError):  # overflow, division by zero, domain
        return None
    return (value, error) if math.isfinite(value.real) and math.isfinite(value.imag + error) else None


class _Evaluation:
    """One walk over a sum. Roots and logarithms of negative numbers have values only in closed sums."""

    def __init__(self, *, closed: bool, scale: int = 1) -> None:
        self.closed = closed
        self.scale = scale

    def sum(self, total: Sum) -> Value:
        value, error = 0j, 0.0
        for monomial, coefficient in total.items():
            term: Value = (complex(_float(coefficient)), abs(_float(coefficient)) * _EPS)
            for atom, exponent in monomial:
                term = _times(term, self.raised(self.atom_value(atom), exponent))
            value += term[0]
            error += term[1] + abs(value) * _EPS
        return value, error

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
        if atom.unknown:
            return complex(self.scale * (0.35 + 1.9 * crc32(atom.text.encode()) / 2**32)), 0.0
        if atom.name == "constant":
            value = math.pi if atom.text == "\\pi" else math.e
            return complex(value), value * _EPS
        if atom.name == "imaginary":
            return 1j, 0.0
        args = [self.sum(arg) for arg in atom.args]
        if atom.name == "group":
            return args[0]
        if atom.name == "power":
            self.check_branch(args[0])
            logged = cmath.log(args[0][0]), args[0][1] / abs(args[0][0]) + _EPS
            return _smooth(cmath.exp, cmath.exp, _times(logged, args[1]))
        return self.call(atom.name, args)

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
