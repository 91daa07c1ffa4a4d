"""Exact arithmetic on sums of products, bounded: what it calls equal is equal.

A Sum maps a monomial (atoms with their exponents) to a rational coefficient. Roots of rationals are split
into primes, so closed radicals have one form only; whatever has no rule of its own becomes an atom.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from math import comb, gcd, isqrt, lcm

# -- what a product is made of: symbols, constants, primes under a root, brackets, function calls


Rational = int | Fraction
MAX_TEXT = 4000  # of one atom; brackets multiplied out inside brackets would double it level by level
MAX_WRITTEN_BITS = 6600  # so that a number can be read again: fewer than 2,000 digits


class Unreadable(ValueError):
    """Not an expression we understand, or one beyond our bounds; it is then compared by its text alone."""


class Atom:
    """One indivisible factor. `name` says what it is; `args` are the sums inside it."""

    __slots__ = ("_hash", "args", "name", "positive", "prime", "text")

    def __init__(self, name: str, text: str, args: tuple[Sum, ...] = (), prime: int = 0) -> None:
        if len(text) > MAX_TEXT:
            raise Unreadable("an expression that outgrew its bounds")
        self.name = name
        self.text = text
        self.args = args
        self.prime = prime
        self.positive = bool(prime) or name == "constant"
        self._hash = hash(text)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Atom) and self.text == other.text)

    @property
    def unknown(self) -> bool:
        """Whether its value is not given by what is inside it."""
        return self.name in ("symbol", "applied")

    @property
    def as_base(self) -> str:
        """The text as the base of a power, in brackets if it needs them."""
        bare = len(self.text) == 1 or self.name in ("group", "symbol", "prime")
        return self.text if bare else f"({self.text})"

    @classmethod
    def group(cls, inside: Sum) -> Atom:
        return cls("group", f"({write(inside)})", (inside,))

    @classmethod
    def call(cls, name: str, *args: Sum) -> Atom:
        opening, closing = _BRACKETS.get(name, (f"\\{name}(", ")"))
        return cls(name, opening + "}{".join(map(write, args)) + closing, args)

    @classmethod
    def power(cls, base: Atom, exponent: Sum) -> Atom:
        """A base to an exponent with symbols in it, such as 2^{n}."""
        return cls("power", f"{base.as_base}^{{{write(exponent)}}}", ({((base, 1),): 1}, exponent))


Monomial = tuple[tuple[Atom, Rational], ...]
Sum = dict[Monomial, Rational]  # never changed once built

_BRACKETS = {
    "abs": ("|", "|"),
    "binom": ("\\binom{", "}"),
    "floor": ("\\lfloor ", "\\rfloor "),
    "ceil": ("\\lceil ", "\\rceil "),
    "factorial": ("(", ")!"),
}

PI = Atom("constant", "\\pi")
EULER = Atom("constant", "e")
INFINITY = Atom("symbol", "\\infty")
IMAGINARY = Atom("imaginary", "i")


def narrow(value: Rational) -> Rational:
    """Whole numbers as int: several times faster than Fraction, and most values are whole."""
    return value.numerator if value.denominator == 1 else value


def write_rational(value: Rational) -> str:
    if value.numerator.bit_length() > MAX_WRITTEN_BITS or value.denominator.bit_length() > MAX_WRITTEN_BITS:
        raise Unreadable("a number too long to write")
    if value.denominator == 1:
        return str(value.numerator)
    sign = "-" if value < 0 else ""
    return f"{sign}\\frac{{{abs(value.numerator)}}}{{{value.denominator}}}"


def _write_factor(atom: Atom, exponent: Rational) -> str:
    if exponent == 1:
        return atom.text
    if exponent == Fraction(1, 2) and atom.name != "power":
        inside = atom.text[1:-1] if atom.name == "group" else atom.text
        return f"\\sqrt{{{inside}}}"
    return f"{atom.as_base}^{{{write_rational(exponent)}}}"


def _write_term(monomial: Monomial, value: Rational) -> str:
    body = "\\cdot ".join(_write_factor(atom, exponent) for atom, exponent in monomial)
    if not body:
        return write_rational(value)
    if value == 1:
        return body
    return "-" + body if value == -1 else f"{write_rational(value)}\\cdot {body}"


def write(total: Sum) -> str:
    """The canonical LaTeX of a sum; reading it gives the same sum again."""
    if not total:
        return "0"
    terms = sorted((monomial_order(monomial), monomial) for monomial in total)
    text = "+".join(_write_term(monomial, total[monomial]) for _, monomial in terms)
    return text.replace("+-", "-")


def monomial_order(monomial: Monomial) -> list[tuple[str, Rational]]:
    """To sort by: plain numbers come last, as people write them, x^2 + 3."""
    return [(atom.text, -exponent) for atom, exponent in monomial] or [("~", 0)]


def symbols(total: Sum) -> set[str]:
    """The names of the symbols in a sum."""
    names: set[str] = set()
    for monomial in total:
        for atom, _ in monomial:
            if atom.unknown:
                names.add(atom.text)
            for inside in atom.args:
                names |= symbols(inside)
    return names


# -- prime factors by trial division: exact below a million, one cofactor is left beyond


MAX_BITS = 4096
_LARGEST = 1000
_PRIMES = {
    n: Atom("prime", str(n), prime=n) for n in range(2, _LARGEST) if all(n % d for d in range(2, int(n**0.5) + 1))
}


def certainly_prime(cofactor: int) -> bool:
    """Whether what `prime_powers` left over is prime: it has no divisor below the largest one tried."""
    return 1 < cofactor < _LARGEST**2


def prime_powers(value: Rational) -> list[tuple[Atom, int]]:
    """A positive number as a product: its primes, with negative exponents for those of the denominator.

    What is left after the primes below 1000 counts as one.
    """
    powers: list[tuple[Atom, int]] = []
    for whole, sign in ((value.numerator, 1), (value.denominator, -1)):
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
                powers.append((atom, sign * times))
        if whole > 1:
            root = isqrt(whole)
            cofactor, times = (root, 2) if root * root == whole else (whole, 1)
            powers.append((_PRIMES.get(cofactor) or Atom("prime", str(cofactor), prime=cofactor), sign * times))
    return powers


# -- sums


MAX_TERMS = 40  # of a power that is multiplied out
MAX_EXPANDED = 12  # the exponent of one
MAX_PRODUCT = 100  # terms of a product, before they are collected
MAX_RATIONALISED = 4  # square roots cleared from one denominator

ONE: Sum = {(): 1}


def number(value: Rational) -> Sum:
    return {(): value} if value else {}


def atom_sum(atom: Atom, exponent: Rational = 1) -> Sum:
    return {((atom, exponent),): 1}


def constant(total: Sum) -> Rational | None:
    """The value of a sum without atoms; None for any other."""
    if not total:
        return 0
    return total.get(()) if len(total) == 1 else None


def add(left: Sum, right: Sum) -> Sum:
    out = dict(left)
    for monomial, coefficient in right.items():
        value = out.get(monomial, 0) + coefficient
        if value:
            out[monomial] = narrow(value)
        else:
            del out[monomial]
    return out


def scale(total: Sum, factor: Rational) -> Sum:
    return {monomial: narrow(value * factor) for monomial, value in total.items()} if factor else {}


def subtract(left: Sum, right: Sum) -> Sum:
    return add(left, scale(right, -1))


def multiply(left: Sum, right: Sum) -> Sum:
    if len(left) * len(right) > MAX_PRODUCT:
        raise Unreadable("a product of too many terms")
    out: Sum = {}
    for one, a in left.items():
        for two, b in right.items():
            if not one or not two:
                term = {one or two: narrow(a * b)}
            else:
                term = product([*one, *two], a * b)
            out = add(out, term) if out else term
    return out


def product(pairs: Iterable[tuple[Atom, Rational]], coefficient: Rational) -> Sum:
    """The product of atoms to their exponents, with every rule applied that makes it canonical."""
    merged: dict[Atom, Rational] = {}
    for atom, exponent in pairs:
        merged[atom] = narrow(merged.get(atom, 0) + exponent)
    kept: list[tuple[Atom, Rational]] = []
    opened: list[Sum] = []
    for atom, exponent in merged.items():
        if not exponent:
            continue
        if atom.prime:
            whole = exponent.__floor__()
            coefficient = coefficient * bounded_power(atom.prime, whole)
            exponent -= whole
        elif atom is IMAGINARY:
            turns = int(exponent) % 4
            coefficient = -coefficient if turns >= 2 else coefficient
            exponent = turns % 2
        elif exponent >= 1 and (inside := _opened(atom, exponent)) is not None:
            opened.append(inside[0])
            exponent = inside[1]
        if exponent:
            kept.append((atom, narrow(exponent)))
    kept.sort(key=lambda pair: pair[0].text)
    out: Sum = {tuple(kept): narrow(coefficient)} if coefficient else {}
    for inside_sum in opened:
        out = multiply(out, inside_sum)
    return out


def _opened(atom: Atom, exponent: Rational) -> tuple[Sum, Rational] | None:
    """A bracket to a whole power is multiplied out, and the square of a sine is one minus a cosine's."""
    if atom.name == "group":
        whole = exponent.__floor__()
        if not _expands(atom.args[0], whole):
            return None
        return whole_power(atom.args[0], whole), exponent - whole
    if atom.name == "sin" and exponent >= 2:
        pairs = exponent.__floor__() // 2
        cosine = Atom.call("cos", atom.args[0])
        square = add(ONE, {((cosine, 2),): -1})
        return whole_power(square, pairs), exponent - 2 * pairs
    return None


def _expands(base: Sum, exponent: int) -> bool:
    """Whether a power is multiplied out; (x+1)^{50} stays as it is."""
    return exponent <= MAX_EXPANDED and comb(len(base) + exponent - 1, exponent) <= MAX_TERMS


def whole_power(base: Sum, exponent: int) -> Sum:
    out = ONE
    for _ in range(exponent):
        out = multiply(out, base)
    return out


def bounded_power(base: Rational, exponent: int) -> Rational:
    if base == 0 and exponent <= 0:
        raise Unreadable("zero to a power that is not positive")
    size = max(abs(base.numerator).bit_length(), base.denominator.bit_length())
    if base not in (0, 1, -1) and size * abs(exponent) > MAX_BITS:
        raise Unreadable("a power too large to write out")
    return narrow(Fraction(base) ** exponent) if exponent < 0 else base**exponent


def power(base: Sum, exponent: Rational) -> Sum:
    """A sum to a rational power."""
    if not base:
        return number(bounded_power(0, exponent.__ceil__()))
    if not exponent:
        return ONE
    if exponent.denominator != 1:
        return _root(base, exponent)
    whole = int(exponent)
    if len(base) == 1:
        ((monomial, value),) = base.items()
        return product([(a, e * whole) for a, e in monomial], bounded_power(value, whole))
    if whole > 0 and _expands(base, whole):
        return whole_power(base, whole)
    cleared = rationalised(base) if whole < 0 else None
    return _group(base, whole) if cleared is None else power(cleared, -whole)


def inverse(base: Sum) -> Sum:
    return power(base, -1)


def rationalised(base: Sum) -> Sum | None:
    """One over a sum of square roots, its denominator cleared; None if other atoms are in it."""
    above, below = ONE, base
    for _ in range(MAX_RATIONALISED + 1):
        value = constant(below)
        if value is not None:
            return scale(above, Fraction(1) / value) if value else None
        pick = _surd(below)
        if pick is None:
            return None
        conjugate = {m: -v if any(a is pick for a, _ in m) else v for m, v in below.items()}
        above, below = multiply(above, conjugate), multiply(below, conjugate)
    return None


def _surd(total: Sum) -> Atom | None:
    """Some square root in a sum that has nothing but square roots (and i) in it."""
    pick: Atom | None = None
    for monomial in total:
        for atom, exponent in monomial:
            if atom is not IMAGINARY and not (atom.prime and exponent == Fraction(1, 2)):
                return None
            pick = atom if pick is None or atom.text < pick.text else pick
    return pick


def _root(base: Sum, exponent: Rational) -> Sum:
    if len(base) > 1:
        return _group(base, exponent)
    ((monomial, value),) = base.items()
    positive = all(a.positive for a, _ in monomial)
    lone = len(monomial) == 1 and monomial[0][1] == 1 and monomial[0][0] is not IMAGINARY
    if positive or lone:
        return multiply(radical(value, exponent), product([(a, e * exponent) for a, e in monomial], 1))
    inside: Sum = {monomial: 1 if value > 0 else -1}
    return multiply(radical(max(value, -value), exponent), atom_sum(Atom.group(inside), exponent))


def radical(value: Rational, exponent: Rational) -> Sum:
    """A rational number to a rational power, split into primes; negative ones by the school's rule."""
    out = ONE
    if value < 0:
        if exponent.denominator == 2:
            out = product([(IMAGINARY, exponent.numerator)], 1)
        elif exponent.denominator % 2:
            out = number(-1 if exponent.numerator % 2 else 1)
        else:
            raise Unreadable("an even root of a negative number")
        value = -value
    return multiply(out, product([(prime, times * exponent) for prime, times in prime_powers(value)], 1))


def content(total: Sum, *, signed: bool) -> tuple[Rational, Sum]:
    """A sum as a rational times a primitive sum; `signed` also makes its first coefficient positive."""
    above, below = gcd(*(v.numerator for v in total.values())), lcm(*(v.denominator for v in total.values()))
    unit: Rational = narrow(Fraction(above, below))
    if signed and total[first_monomial(total)] < 0:
        unit = -unit
    return unit, scale(total, Fraction(1) / unit)


def first_monomial(total: Sum) -> Monomial:
    return min(total, key=monomial_order)


def _group(base: Sum, exponent: Rational) -> Sum:
    unit, primitive = content(base, signed=exponent.denominator == 1)
    out = atom_sum(Atom.group(primitive), exponent)
    if exponent.denominator == 1:
        return scale(out, bounded_power(unit, int(exponent)))
    return multiply(radical(unit, exponent), out)
