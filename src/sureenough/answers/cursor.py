"""A place in a list of tokens, and the names that can be read there."""

from __future__ import annotations

from fractions import Fraction

from sureenough.answers.atoms import Unreadable
from sureenough.answers.brackets import group_end
from sureenough.answers.tokens import is_numeral

MAX_DIGITS = 2000

GREEK = frozenset(
    r"""\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \rho
    \sigma \tau \upsilon \phi \chi \psi \omega \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi
    \Omega \ell""".split()
)
# Before a bracket these are functions, not factors: f(2) = 4 says nothing about f(3) = 6.
APPLIED = frozenset(("f", "g", "h", "F", "G", "O", "P", "Q", "\\phi", "\\Phi", "\\Theta", "\\Omega"))


class TokenCursor:
    """Reads tokens one by one; running out of them, or meeting another than expected, is Unreadable."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = list(tokens)
        self.at = 0

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
        token = self.peek()
        if token not in tokens:
            return ""
        self.at += 1
        return token

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise Unreadable(f"missing {token!r}")

    def swap_scripts(self) -> None:
        """Put a subscript before the exponent that it follows: v^2_0 is the square of v_0."""
        if self.peek() != "^":
            return
        middle = self._script_end(self.at)
        if self.tokens[middle : middle + 1] != ["_"]:
            return
        end = self._script_end(middle)
        exponent, subscript = self.tokens[self.at : middle], self.tokens[middle:end]
        self.tokens[self.at : end] = subscript + exponent

    def _script_end(self, at: int) -> int:
        """Where the script that starts at `at` with ^ or _ is over."""
        end = group_end(self.tokens, at + 1, "{", "}") if self.tokens[at + 1 : at + 2] == ["{"] else at + 2
        if end is None:
            raise Unreadable("a script that is not closed")
        return end

    def subscript(self) -> str:
        """The subscript and primes of a symbol, as part of its name."""
        name = ""
        while self.accept("'"):
            name += "'"
        if not self.accept("_"):
            return name
        token = self.take()
        inside = [token]
        if token == "{":
            inside = []
            while (token := self.take()) != "}":
                inside.append(token.lstrip('"'))
        if not inside or "{" in inside:
            raise Unreadable("a subscript that is not a name")
        return f"_{{{''.join(inside)}}}{name}"

    def is_applied(self) -> bool:
        """Whether the name just read stands before its argument; f^{-1}(2) is beyond our reading."""
        after = self.tokens[self.at : self.at + 6]
        if after == ["^", "{", "-", "1", "}", "("] or after[:4] == ["^", "-", "1", "("]:
            raise Unreadable("the inverse of a function")
        return after[:1] == ["("]

    def split_digits(self) -> None:
        """Of a number only the first digit is the next token: \\frac12 is a half."""
        token = self.peek()
        if token[:1].isdigit() and len(token) > 1 and token.isdigit():
            self.tokens[self.at : self.at + 1] = [token[0], token[1:]]

    def mixed_part(self) -> Fraction | None:
        """The fraction of a mixed number, 1\\frac{4}{5}: whole parts, less than one; else nothing is read."""
        start, saved = self.at, list(self.tokens)
        self.take()
        above = self._whole()
        below = self._whole() if above else None
        if above and below and above < below and self.peek() != "^":
            return Fraction(above, below)
        self.at, self.tokens = start, saved
        return None

    def _whole(self) -> int | None:
        """A digit, or a whole number in braces."""
        braced = self.accept("{")
        if not braced:
            self.split_digits()
        token = self.peek()
        if not is_numeral(token) or not token.isdecimal() or len(token) > MAX_DIGITS:
            return None
        self.take()
        return None if braced and not self.accept("}") else int(token)
