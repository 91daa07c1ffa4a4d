"""A place in a list of tokens, and the names that can be read there."""

from __future__ import annotations

from .atoms import Unreadable

GREEK = frozenset(
    r"""\alpha \beta \gamma \delta \epsilon \zeta \eta \theta \iota \kappa \lambda \mu \nu \xi \rho
    \sigma \tau \upsilon \phi \chi \psi \omega \Gamma \Delta \Theta \Lambda \Xi \Pi \Sigma \Phi \Psi
    \Omega \ell""".split()
)


class Cursor:
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

    def expect(self, token: str) -> None:
        if self.take() != token:
            raise Unreadable(f"missing {token!r}")

    def subscript(self) -> str:
        """The subscript and primes of a symbol, as part of its name."""
        name = ""
        while self.peek() == "'":
            name += self.take()
        if self.peek() != "_":
            return name
        self.take()
        token = self.take()
        inside = [token]
        if token == "{":
            inside = []
            while (token := self.take()) != "}":
                inside.append(token.lstrip('"'))
        if not inside or "{" in inside:
            raise Unreadable("a subscript that is not a name")
        return f"_{{{''.join(inside)}}}{name}"
