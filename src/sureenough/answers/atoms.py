"""What a product is made of: symbols, constants, primes under a root, brackets, function calls.

An atom is known by its text, which is LaTeX that reads back as the same atom.
"""

from __future__ import annotations

from fractions import Fraction

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

    def __repr__(self) -> str:
        return f"<{self.name} {self.text}>"

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
    def symbol(cls, name: str) -> Atom:
        return cls("symbol", name)

    @classmethod
    def group(cls, inside: Sum) -> Atom:
        return cls("group", f"({write(inside)})", (inside,))

    @classmethod
    def call(cls, name: str, *args: Sum) -> Atom:
        opening, closing = _BRACKETS.get(name, (f"\\{name}(", ")"))
        return cls(name, opening + "}{".join(map(write, args)) + closing, args)

    @classmethod
    def applied(cls, name: str, value: Sum) -> Atom:
        """A function that we know nothing of, at a value: f(2)."""
        return cls("applied", f"{name}({write(value)})", (value,))

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
    if atom.name == "power":
        return atom.text if exponent == 1 else f"({atom.text})^{{{write_rational(exponent)}}}"
    if exponent == 1:
        return atom.text
    if exponent == Fraction(1, 2):
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
