"""Tokens become a Sum, by descent, within bounds; what is not understood is Unreadable, never guessed.

Named functions are exact if their value is known, else an atom with its argument in canonical form: angles are brought
to the first quadrant, tangents and the like to sines and cosines, logarithms to primes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import ceil, comb, factorial, floor, gcd, lcm

from sureenough.answers.math.algebra import (
    EULER,
    IMAGINARY,
    INFINITY,
    ONE,
    PI,
    Atom,
    Monomial,
    Rational,
    Sum,
    Unreadable,
    add,
    atom_sum,
    constant,
    first_monomial,
    inverse,
    multiply,
    narrow,
    number,
    power,
    prime_powers,
    product,
    radical,
    scale,
    write,
)
from sureenough.answers.math.tokens import group_end, is_letter, is_numeral

# -- named functions


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
    if base == atom_sum(EULER) and (turn := _multiple(((PI, 1), (IMAGINARY, 1)), exponent)) is not None:
        return add(_cosine_of(turn), multiply(atom_sum(IMAGINARY), _cosine_of(_HALF - turn)))
    ((monomial, value),) = (base if len(base) == 1 else atom_sum(Atom.group(base))).items()
    bases: list[tuple[Atom, Rational]] = [*monomial, *prime_powers(max(value, -value))]
    if value < 0:
        bases.append((Atom.group(number(-1)), 1))
    out = power(base, exponent[()]) if () in exponent else ONE
    for term, times in exponent.items():
        if term:
            pairs = [(Atom.power(atom, {term: 1}), narrow(e * times)) for atom, e in bases]
            out = multiply(out, product(pairs, 1))
    return out


def _multiple(monomial: Monomial, total: Sum) -> Rational | None:
    """The rational q of a sum that is q times the monomial; None for others."""
    return total.get(monomial) if len(total) == 1 else None if total else 0


def cosine(angle: Sum) -> Sum:
    turn = _multiple(((PI, 1),), angle)
    return atom_sum(Atom.call("cos", _unsigned(angle)[0])) if turn is None else _cosine_of(turn)


def sine(angle: Sum) -> Sum:
    turn = _multiple(((PI, 1),), angle)
    if turn is not None:
        return _cosine_of(_HALF - turn)
    unsigned, sign = _unsigned(angle)
    return scale(atom_sum(Atom.call("sin", unsigned)), sign)


def _unsigned(angle: Sum) -> tuple[Sum, int]:
    sign = -1 if angle[first_monomial(angle)] < 0 else 1
    return scale(angle, sign), sign


def _cosine_of(turn: Rational) -> Sum:
    """cos(turn * pi), from its value in the first quadrant."""
    turn = narrow(Fraction(turn) % 2)
    turn = 2 - turn if turn > 1 else turn
    if turn > _HALF:
        return scale(_cosine_of(1 - turn), -1)
    known = _COSINES.get(turn)
    return atom_sum(Atom.call("cos", {((PI, 1),): turn})) if known is None else known


def logarithm(value: Sum) -> Sum:
    """The natural logarithm; that of a product of positive numbers is a sum over its factors."""
    monomial, coefficient = next(iter(value.items()), ((), 0))
    if len(value) != 1 or coefficient <= 0 or not all(atom.positive for atom, _ in monomial):
        return atom_sum(Atom.call("ln", value))
    out: Sum = {}
    for atom, times in [*monomial, *prime_powers(coefficient)]:
        inside = number(atom.prime) if atom.prime else atom_sum(atom)
        out = add(out, scale(ONE if atom is EULER else atom_sum(Atom.call("ln", inside)), times))
    return out


def absolute(value: Sum) -> Sum:
    if len(value) <= 1 and all(atom.positive for monomial in value for atom, _ in monomial):
        return {monomial: max(times, -times) for monomial, times in value.items()}
    return atom_sum(Atom.call("abs", _unsigned(value)[0]))


def _call(name: str, rule: Callable[..., int] | None, *arguments: Sum) -> Sum:
    """A function of numbers that are known; else an atom, and so is a function with no rule."""
    known = [value for value in map(constant, arguments) if value is not None]
    if rule is None or len(known) < len(arguments):
        return atom_sum(Atom.call(name, *arguments))
    return number(rule(*known))


def _factorial(value: Rational) -> int:
    if value.denominator != 1 or not 0 <= value <= MAX_FACTORIAL:
        raise Unreadable("a factorial out of bounds")
    return factorial(int(value))


def _binomial(above: Rational, below: Rational) -> int:
    if above.denominator != 1 or below.denominator != 1 or not 0 <= below <= above <= MAX_BINOMIAL:
        raise Unreadable("a binomial out of bounds")
    return comb(int(above), int(below))


def integer_function(name: str, arguments: list[Sum]) -> Rational:
    """The greatest common divisor and its like, of known numbers."""
    known = [value for value in map(constant, arguments) if value is not None]
    whole = all(value.denominator == 1 for value in known)
    if len(known) < len(arguments) or not (whole or name in ("\\min", "\\max")):
        raise Unreadable("a function of numbers that are not known")
    return INTEGER_FUNCTIONS[name](known)


CALLS: dict[str, Callable[[Sum], Sum]] = {
    "\\sin": sine,
    "\\cos": cosine,
    "\\tan": lambda x: multiply(sine(x), inverse(cosine(x))),
    "\\cot": lambda x: multiply(cosine(x), inverse(sine(x))),
    "\\sec": lambda x: inverse(cosine(x)),
    "\\csc": lambda x: inverse(sine(x)),
    "\\ln": logarithm,
    "\\exp": lambda x: power_of_sums(atom_sum(EULER), x),
    **{f"\\{name}": partial(_call, name, None) for name in ("arcsin", "arccos", "arctan", "sinh", "cosh", "tanh")},
}
INTEGER_FUNCTIONS: dict[str, Callable[[list[Rational]], Rational]] = {
    "\\gcd": lambda values: gcd(*map(int, values)),
    "\\lcm": lambda values: lcm(*map(int, values)),
    "\\min": min,
    "\\max": max,
}
ANGULAR = frozenset(r"\sin \cos \tan \cot \sec \csc".split())
INVERSES = {f"\\{name}": f"\\arc{name}" for name in ("sin", "cos", "tan")}


# -- sums, terms and factors


MAX_TOKENS = 1200
MAX_DEPTH = 16
MAX_DIGITS = 2000
# Before a bracket these are functions, not factors: f(2) = 4 says nothing about f(3) = 6.
APPLIED = frozenset(r"f g h F G O P Q \phi \Phi \Theta \Omega".split())
_CONSTANTS = {"\\pi": PI, "e": EULER, "i": IMAGINARY, "\\infty": INFINITY}
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_ENDS_ARGUMENT = frozenset(("(", "[", "{", "\\log", *CALLS))
_STARTS_FACTOR = _ENDS_ARGUMENT.union(_CONSTANTS, _CLOSING, INTEGER_FUNCTIONS, ("\\frac", "\\sqrt", "\\binom"))
_WRAPPERS = {"\\lfloor": partial(_call, "floor", floor), "\\lceil": partial(_call, "ceil", ceil)}
_DEGREE = Fraction(1, 180)
_PROPER = re.compile(r"\\frac(?:\{(\d+)\}|(\d))(?:\{(\d+)\}|(\d))(?!\d*[.^])")


def parse_expression(tokens: list[str]) -> Sum:
    """The whole token list as one expression."""
    if not tokens or len(tokens) > MAX_TOKENS:
        raise Unreadable("too long to read")
    if "\\infty" in tokens and [token for token in tokens if token not in "+-"] != ["\\infty"]:
        raise Unreadable("infinity takes a sign and no other arithmetic")
    parser = ExpressionParser(tokens)
    out = parser.sum()
    if parser.peek():
        raise Unreadable(f"unexpected {parser.peek()!r}")
    return out


class ExpressionParser:
    """Reads sums, terms and factors; running out of tokens, or meeting another than expected, is Unreadable."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = list(tokens)
        self.at = 0
        self.left = MAX_DEPTH
        self.angle = False  # whether this is the argument of a sine or its like
        self.bars = 0

    def peek(self, ahead: int = 0) -> str:
        here = self.at + ahead
        return self.tokens[here] if here < len(self.tokens) else ""

    def take(self) -> str:
        token = self.peek()
        if not token:
            raise Unreadable("ended too early")
        self.at += 1
        return token

    def accept(self, *tokens: str) -> str:
        """The next token, taken, if it is one of these; else an empty text."""
        return self.take() if self.peek() in tokens else ""

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise Unreadable(f"missing {token!r}")

    def deeper(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Unreadable("nested too deep")

    def sum(self) -> Sum:
        out = self.term()
        while sign := self.accept("+", "-"):
            out = add(out, scale(self.term(), -1 if sign == "-" else 1))
        return out

    def term(self) -> Sum:
        sign = 1
        while token := self.accept("+", "-"):
            sign = -sign if token == "-" else sign
        out = self.factor()
        while True:
            if token := self.accept("*", "/"):
                right = scale(self.factor(), -1) if self.accept("-", "+") == "-" else self.factor()
                out = multiply(out, right if token == "*" else inverse(right))
            elif self.starts_factor(self.peek()):
                out = multiply(out, self.factor())
            else:
                return scale(out, sign)

    def starts_factor(self, token: str) -> bool:
        """Whether a token can follow another factor with no sign between them."""
        if is_numeral(token):
            # 2^6 3^5 is a product of powers; other numbers side by side may mean anything.
            powers = self.tokens[self.at - 2] == "^" and self.peek(1) == "^"
            if is_numeral(self.tokens[self.at - 1]) and not powers:
                raise Unreadable("two numbers side by side")
            return True
        return token in _STARTS_FACTOR or is_letter(token) or (token == "|" and not self.bars)

    def factor(self) -> Sum:
        out = self.primary()
        while token := self.accept("!", "^"):
            if token == "!" and self.peek() == "!":
                raise Unreadable("a double factorial")
            out = _call("factorial", _factorial, out) if token == "!" else self.raised(out)
        return out

    def raised(self, base: Sum) -> Sum:
        if self.peek() == "\\circ" or (self.peek() == "{" and self.peek(1) == "\\circ"):
            if self.take() == "{":
                self.take()
                self.expect("}")
            # Outside a sine a degree sign is a unit, and units are dropped: 336^\circ is 336.
            return multiply(base, {((PI, 1),): _DEGREE}) if self.angle else base
        outer, self.angle = self.angle, False
        self.deeper()
        exponent = self.argument()
        if self.accept("^"):  # 2^3^2, as plain text has it: from the right
            exponent = self.raised(exponent)
        self.left += 1
        self.angle = outer
        return power_of_sums(base, exponent)

    def argument(self) -> Sum:
        """What follows ^ or a command: a braced expression, a signed number, or one token."""
        if self.accept("{"):
            out = self.sum()
            self.expect("}")
            return out
        return scale(self.primary(), -1) if self.accept("-") else self.primary()

    def short_argument(self) -> Sum:
        """As `argument`, but of a number only the first digit: \\frac12 is a half."""
        token = self.peek()
        if len(token) > 1 and token.isdigit() and is_numeral(token):
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]
        return self.argument()

    def primary(self) -> Sum:
        self.deeper()
        out = self.unit()
        self.left += 1
        return out

    def unit(self) -> Sum:
        token = self.take()
        if is_numeral(token):
            return self.numeral(token)
        if token in _CONSTANTS:
            return atom_sum(_CONSTANTS[token])
        if is_letter(token):
            self.swap_scripts()
            name = token + self.subscript()
            if token in APPLIED and self.is_applied():
                argument = self.primary()
                return atom_sum(Atom("applied", f"{name}({write(argument)})", (argument,)))
            return atom_sum(Atom("symbol", name))
        if token in _CLOSING:
            bars, self.bars = self.bars, 0
            inside = self.sum()
            self.expect(_CLOSING[token])
            self.bars = bars
            return _WRAPPERS[token](inside) if token in _WRAPPERS else inside
        if token == "|":
            self.bars += 1
            inside = self.sum()
            self.expect("|")
            self.bars -= 1
            return absolute(inside)
        if token in CALLS or token == "\\log":
            return self.call(token)
        return self.built(token)

    def built(self, token: str) -> Sum:
        if token == "\\frac":
            above = self.short_argument()
            return multiply(above, inverse(self.short_argument()))
        if token == "\\sqrt":
            degree = number(2)
            if self.accept("["):
                degree = self.sum()
                self.expect("]")
            return power_of_sums(self.argument(), inverse(degree))
        if token == "\\binom":
            above = self.short_argument()
            return _call("binom", _binomial, above, self.short_argument())
        if token in INTEGER_FUNCTIONS:
            return number(integer_function(token, self.arguments()))
        raise Unreadable(f"unknown {token!r}")

    def arguments(self) -> list[Sum]:
        r"""The arguments of \gcd(12, 18) or \max\{1, 2\}."""
        closing = {"(": ")", "[": "]", "{": "}", "\\{": "\\}"}.get(self.take())
        if closing is None:
            raise Unreadable("a function without its arguments")
        arguments = [self.sum()]
        while self.accept(","):
            arguments.append(self.sum())
        self.expect(closing)
        return arguments

    def numeral(self, token: str) -> Sum:
        if len(token) > MAX_DIGITS:
            raise Unreadable("a number too long")
        if self.peek() == "_":
            raise Unreadable("a number in another base")
        value = number(narrow(Fraction(token)) if "." in token else int(token))
        if self.peek() == "\\frac" and "." not in token:
            proper = _PROPER.match("".join(self.tokens[self.at : self.at + 8]))
            if proper and 0 < int(proper[1] or proper[2]) < int(proper[3] or proper[4]):
                self.left += 1  # a mixed number is nested no deeper than another number
                value = add(value, self.built(self.take()))
                self.left -= 1
        return value

    def swap_scripts(self) -> None:
        """Put a subscript before the exponent that it follows: v^2_0 is the square of v_0."""
        if self.peek() != "^":
            return
        middle = group_end(self.tokens, self.at + 1, "{", "}")
        if middle is None or self.tokens[middle : middle + 1] != ["_"]:
            return
        end = group_end(self.tokens, middle + 1, "{", "}")
        exponent, subscript = self.tokens[self.at : middle], self.tokens[middle:end]
        self.tokens[self.at : end] = subscript + exponent

    def subscript(self) -> str:
        """The subscript and primes of a symbol, as part of its name."""
        primes = ""
        while self.accept("'"):
            primes += "'"
        if not self.accept("_"):
            return primes
        inside = [self.take()]
        if inside == ["{"]:
            inside = []
            while (token := self.take()) != "}":
                inside.append(token.lstrip('"'))
        if not inside or "{" in inside:
            raise Unreadable("a subscript that is not a name")
        return f"_{{{''.join(inside)}}}{primes}"

    def is_applied(self) -> bool:
        """Whether the name just read stands before its argument; f^{-1}(2) is beyond our reading."""
        after = "".join(self.tokens[self.at : self.at + 6])
        if after.startswith(("^{-1}(", "^-1(")):
            raise Unreadable("the inverse of a function")
        return after[:1] == "("

    def call(self, name: str) -> Sum:
        base = self.argument() if name == "\\log" and self.accept("_") else None
        exponent = self.argument() if self.accept("^") else None
        if exponent == number(-1) and name in INVERSES:
            name, exponent = INVERSES[name], None
        outer, self.angle = self.angle, name in ANGULAR
        inside = self.call_argument()
        self.angle = outer
        if name == "\\log":
            out = multiply(logarithm(inside), inverse(logarithm(number(10) if base is None else base)))
        else:
            out = CALLS[name](inside)
        return out if exponent is None else power_of_sums(out, exponent)

    def call_argument(self) -> Sum:
        """A bracket, or the product that follows: \\sin 2x, but \\sin x (1 + y) stops at the bracket."""
        if self.peek() in ("(", "[", "{"):
            return self.primary()  # \sin(x)^2 is the square of the sine
        out = self.factor()
        while self.starts_factor(token := self.peek()) and token not in _ENDS_ARGUMENT:
            out = multiply(out, self.factor())
        if self.peek() == "/" and self.peek(1).isdigit() and any((PI, 1) in term for term in out):
            self.take()  # \sin \pi/6 is the sine of \pi/6
            out = multiply(out, power(self.factor(), -1))
        return out
