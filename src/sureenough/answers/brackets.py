"""Walking over tokens by bracket depth. Any opening bracket pairs with any closing one, as in [0,9)."""

from __future__ import annotations

from collections.abc import Collection

OPEN = frozenset(("(", "[", "{", "\\{", "\\langle", "\\lfloor", "\\lceil", "\\begin"))
CLOSE = frozenset((")", "]", "}", "\\}", "\\rangle", "\\rfloor", "\\rceil", "\\end"))


def split_outside_brackets(tokens: list[str], separators: Collection[str]) -> list[list[str]]:
    """The token lists between separators that stand outside all brackets."""
    parts: list[list[str]] = [[]]
    depth = 0
    for token in tokens:
        if token in OPEN:
            depth += 1
        elif token in CLOSE:
            depth -= 1
        elif depth == 0 and token in separators:
            parts.append([])
            continue
        parts[-1].append(token)
    return parts


def closes_at_end(tokens: list[str]) -> bool:
    """Whether the bracket that opens first is the one that closes last."""
    depth = 0
    for at, token in enumerate(tokens):
        if token in OPEN:
            depth += 1
        elif token in CLOSE:
            depth -= 1
            if depth == 0:
                return at == len(tokens) - 1
    return False
