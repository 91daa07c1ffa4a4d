"""Tokens become a Sum, by descent, within bounds; what is not understood is Unreadable, never guessed."""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers import named_functions as functions
from sureenough.answers.algebra import add, atom_sum, inverse, multiply, number, power, scale
from sureenough.answers.atoms import EULER, IMAGINARY, INFINITY, PI, Atom, Sum, Unreadable, narrow
from sureenough.answers.cursor import APPLIED, GREEK, MAX_DIGITS, TokenCursor
from sureenough.answers.tokens import is_numeral

MAX_TOKENS = 1200
MAX_DEPTH = 16
_CONSTANTS = {"\\pi": PI, "e": EULER, "i": IMAGINARY, "\\infty": INFINITY}
_CLOSING = {"(": ")", "[": "]", "{": "}", "\\lfloor": "\\rfloor", "\\lceil": "\\rceil"}
_ENDS_ARGUMENT = frozenset(("(", "[", "{", "\\log", *functions.CALLS))
_WRAPPERS = {"\\lfloor": functions.floor, "\\lceil": functions.ceil}
_DEGREE = Fraction(1, 180)


def parse_expression(tokens: list[str], *, depth: int = MAX_DEPTH) -> Sum:
    """The whole token list as one expression, nested no deeper than `depth`."""
    if not tokens or len(tokens) > MAX_TOKENS:
        raise Unreadable("too long to read")
    if "\\infty" in tokens and [token for token in tokens if token not in "+-"] != ["\\infty"]:
        raise Unreadable("infinity takes a sign and no other arithmetic")
    parser = ExpressionParser(tokens, depth)
    out = parser.sum()
    if parser.at != len(parser.tokens):
        raise Unreadable(f"unexpected {parser.peek()!r}")
    return out


class ExpressionParser(TokenCursor):
    """Reads sums, terms and factors. `angle` is set while reading the argument of a sine and its like."""

    def __init__(self, tokens: list[str], depth: int) -> None:
        super().__init__(tokens)
        self.left = depth
        self.angle = False
        self.bars = 0

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
        if not token:
            return False
        if is_numeral(token):
            # 2^6 3^5 is a product of powers; other numbers side by side may mean anything.
            powers = self.tokens[self.at - 2] == "^" and self.peek(1) == "^"
            if is_numeral(self.tokens[self.at - 1]) and not powers:
                raise Unreadable("two numbers side by side")
            return True
        return (
            (len(token) == 1 and token.isalpha())
            or token in GREEK
            or token in functions.CALLS
            or token in _CONSTANTS
            or token in ("(", "[", "{", "\\frac", "\\sqrt", "\\binom", "\\log", "\\lfloor", "\\lceil")
            or token in functions.INTEGER_FUNCTIONS
            or token.startswith("\\mathbf")
            or (token == "|" and not self.bars)
        )

    def factor(self) -> Sum:
        out = self.primary()
        while token := self.accept("!", "^"):
            if token == "!" and self.peek() == "!":
                raise Unreadable("a double factorial")
            out = functions.factorial_of(out) if token == "!" else self.raised(out)
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
        return functions.power_of_sums(base, exponent)

    def argument(self) -> Sum:
        """What follows ^ or a command: a braced expression, a signed number, or one token."""
        if self.accept("{"):
            out = self.sum()
            self.expect("}")
            return out
        return scale(self.primary(), -1) if self.accept("-") else self.primary()

    def short_argument(self) -> Sum:
        """As `argument`, but of a number only the first digit: \\frac12 is a half."""
        self.split_digits()
        return self.argument()

    def primary(self) -> Sum:
        self.deeper()
        out = self.unit()
        self.left += 1
        return out

    def deeper(self) -> None:
        self.left -= 1
        if self.left < 0:
            raise Unreadable("nested too deep")

    def unit(self) -> Sum:
        token = self.take()
        if is_numeral(token):
            return self.numeral(token)
        if token in _CONSTANTS:
            return atom_sum(_CONSTANTS[token])
        if (len(token) == 1 and token.isalpha()) or token in GREEK or token.startswith("\\mathbf"):
            self.swap_scripts()
            name = token + self.subscript()
            if token in APPLIED and self.is_applied():
                return atom_sum(Atom.applied(name, self.primary()))
            return atom_sum(Atom.symbol(name))
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
            return functions.absolute(inside)
        if token in functions.CALLS or token == "\\log":
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
            return functions.power_of_sums(self.argument(), inverse(degree))
        if token == "\\binom":
            above = self.short_argument()
            return functions.binomial(above, self.short_argument())
        if token in functions.INTEGER_FUNCTIONS:
            return number(functions.integer_function(token, self.arguments()))
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
        value = narrow(Fraction(token)) if "." in token else int(token)
        if self.peek() == "\\frac" and "." not in token and (part := self.mixed_part()) is not None:
            return number(value + part)
        return number(value)

    def call(self, name: str) -> Sum:
        base = self.argument() if name == "\\log" and self.accept("_") else None
        exponent = self.argument() if self.accept("^") else None
        if exponent == number(-1) and name in functions.INVERSES:
            name, exponent = functions.INVERSES[name], None
        outer, self.angle = self.angle, name in functions.ANGULAR
        inside = self.call_argument()
        self.angle = outer
        out = functions.log(inside, base) if name == "\\log" else functions.CALLS[name](inside)
        return out if exponent is None else functions.power_of_sums(out, exponent)

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
