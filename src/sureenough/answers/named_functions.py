"""Named functions of sums: exact if the value is known, else an atom with its argument in canonical form.

Angles are brought to the first quadrant, tangents and the like to sines and cosines, logarithms to primes.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import comb, factorial, gcd, lcm

from sureenough.answers.algebra import (
    ONE,
    add,
    atom_sum,
    constant,
    first_monomial,
    inverse,
    multiply,
    number,
    power,
    product,
    radical,
    scale,
)
from sureenough.answers.atoms import EULER, IMAGINARY, PI, Atom, Rational, Sum, Unreadable, narrow
from sureenough.answers.primes import prime_powers

MAX_FACTORIAL = 200
MAX_BINOMIAL = 400
_HALF = Fraction(1, 2)
_COSINES: dict[Rational, Sum] = {  # of q pi, for the q whose cosine is known
    0: ONE,
    _HALF: number(0),
    Fraction(1, 3): number(_HALF),
    Fraction(1, 4): scale(radical(2, _HALF), _HALF),
    Fraction(1, 5): scale(add(radical(5, _HALF), ONE), Fraction(1, 4)),
    Fraction(1, 6): scale(radical(3, _HALF), _HALF),
    Fraction(2, 5): scale(add(radical(5, _HALF), number(-1)), Fraction(1, 4)),
}


def power_of_sums(base: Sum, exponent: Sum) -> Sum:
    """A sum to a sum: rational exponents exactly, others split into one factor per term of the exponent."""
    fixed = constant(exponent)
    if fixed is not None:
        return power(base, fixed)
    if len(base) == 1:
        ((monomial, value),) = base.items()
    else:
        monomial, value = ((Atom.group(base), 1),), 1
    if base == atom_sum(EULER) and (turn := _turn(exponent)) is not None:
        return add(_cosine_of(turn), multiply(atom_sum(IMAGINARY), _cosine_of(_HALF - turn)))
    bases: list[tuple[Atom, Rational]] = [*monomial, *prime_powers(-value if value < 0 else value)]
    if value < 0:
        bases.append((Atom.group(number(-1)), 1))
    out = power(base, exponent[()]) if () in exponent else ONE
    for term, times in exponent.items():
        if term:
            pairs = [(Atom.power(atom, {term: 1}), narrow(e * times)) for atom, e in bases]
            out = multiply(out, product(pairs, 1))
    return out


def _turn(exponent: Sum) -> Rational | None:
    """The rational q of an exponent q i pi; None for others."""
    if len(exponent) != 1:
        return None
    ((monomial, value),) = exponent.items()
    return value if {(atom.text, e) for atom, e in monomial} == {("i", 1), ("\\pi", 1)} else None


def _of_pi(angle: Sum) -> Rational | None:
    """The rational q of an angle q pi; None for others."""
    if not angle:
        return 0
    return angle.get(((PI, 1),)) if len(angle) == 1 else None


def cosine(angle: Sum) -> Sum:
    turn = _of_pi(angle)
    if turn is not None:
        return _cosine_of(turn)
    return atom_sum(Atom.call("cos", _unsigned(angle)[0]))


def sine(angle: Sum) -> Sum:
    turn = _of_pi(angle)
    if turn is not None:
        return _cosine_of(_HALF - turn)
    unsigned, sign = _unsigned(angle)
    return scale(atom_sum(Atom.call("sin", unsigned)), sign)


def _unsigned(angle: Sum) -> tuple[Sum, int]:
    negative = angle[first_monomial(angle)] < 0
    return (scale(angle, -1), -1) if negative else (angle, 1)


def _cosine_of(turn: Rational) -> Sum:
    """cos(turn * pi), from its value in the first quadrant."""
    turn = narrow(Fraction(turn) % 2)
    turn = 2 - turn if turn > 1 else turn
    if turn > _HALF:
        return scale(_cosine_of(1 - turn), -1)
    known = _COSINES.get(turn)
    return atom_sum(Atom.call("cos", {((PI, 1),): turn})) if known is None else known


def logarithm(value: Sum) -> Sum:
    """The natural logarithm; that of a rational is a sum over its primes."""
    if len(value) != 1:
        return atom_sum(Atom.call("ln", value))
    ((monomial, coefficient),) = value.items()
    if coefficient <= 0 or any(not atom.positive for atom, _ in monomial):
        return atom_sum(Atom.call("ln", value))
    out: Sum = {}
    for atom, times in [*monomial, *prime_powers(coefficient)]:
        inside = number(atom.prime) if atom.prime else atom_sum(atom)
        out = add(out, scale(ONE if atom is EULER else atom_sum(Atom.call("ln", inside)), times))
    return out


def log(value: Sum, base: Sum | None) -> Sum:
    return multiply(logarithm(value), inverse(logarithm(number(10) if base is None else base)))


def absolute(value: Sum) -> Sum:
    if len(value) <= 1 and all(atom.positive for monomial in value for atom, _ in monomial):
        return {monomial: -times if times < 0 else times for monomial, times in value.items()}
    return atom_sum(Atom.call("abs", _unsigned(value)[0]))


def factorial_of(value: Sum) -> Sum:
    fixed = constant(value)
    if fixed is None:
        return atom_sum(Atom.call("factorial", value))
    if fixed.denominator != 1 or not 0 <= fixed <= MAX_FACTORIAL:
        raise Unreadable("a factorial out of bounds")
    return number(factorial(int(fixed)))


def binomial(above: Sum, below: Sum) -> Sum:
    n, k = constant(above), constant(below)
    if n is None or k is None:
        return atom_sum(Atom.call("binom", above, below))
    if n.denominator != 1 or k.denominator != 1 or not 0 <= k <= n <= MAX_BINOMIAL:
        raise Unreadable("a binomial out of bounds")
    return number(comb(int(n), int(k)))


def integer_function(name: str, arguments: list[Sum]) -> Rational:
    """The greatest common divisor and its like, of known numbers."""
    values = [constant(argument) for argument in arguments]
    known = [value for value in values if value is not None]
    if len(known) != len(values) or (name in ("\\gcd", "\\lcm") and any(value.denominator != 1 for value in known)):
        raise Unreadable("a function of numbers that are not known")
    return INTEGER_FUNCTIONS[name](known)


def _rounded(name: str, rule: Callable[[Rational], int]) -> Callable[[Sum], Sum]:
    def apply(value: Sum) -> Sum:
        fixed = constant(value)
        return atom_sum(Atom.call(name, value)) if fixed is None else number(rule(fixed))

    return apply


def unevaluated(name: str) -> Callable[[Sum], Sum]:
    """A function with no rules: an atom."""
    return lambda value: atom_sum(Atom.call(name, value))


floor = _rounded("floor", lambda value: value.__floor__())
ceil = _rounded("ceil", lambda value: value.__ceil__())

CALLS: dict[str, Callable[[Sum], Sum]] = {
    "\\sin": sine,
    "\\cos": cosine,
    "\\tan": lambda x: multiply(sine(x), inverse(cosine(x))),
    "\\cot": lambda x: multiply(cosine(x), inverse(sine(x))),
    "\\sec": lambda x: inverse(cosine(x)),
    "\\csc": lambda x: inverse(sine(x)),
    "\\ln": logarithm,
    "\\exp": lambda x: power_of_sums(atom_sum(EULER), x),
    **{f"\\{name}": unevaluated(name) for name in ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")},
}
INTEGER_FUNCTIONS: dict[str, Callable[[list[Rational]], Rational]] = {
    "\\gcd": lambda values: gcd(*map(int, values)),
    "\\lcm": lambda values: lcm(*map(int, values)),
    "\\min": min,
    "\\max": max,
}
ANGULAR = frozenset(("\\sin", "\\cos", "\\tan", "\\cot", "\\sec", "\\csc"))
INVERSES = {f"\\{name}": f"\\arc{name}" for name in ("sin", "cos", "tan")}
