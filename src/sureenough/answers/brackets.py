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
        depth += (token in OPEN) - (token in CLOSE)
        if depth == 0 and token in separators:
            parts.append([])
        else:
            parts[-1].append(token)
    return parts


def group_end(
    tokens: list[str], at: int, opening: Collection[str] = OPEN, closing: Collection[str] = CLOSE
) -> int | None:
    """The place after the bracket at `at` and all in it, or after the single token there; None if it is not closed."""
    depth = 0
    for here in range(at, len(tokens)):
        depth += (tokens[here] in opening) - (tokens[here] in closing)
        if depth <= 0:
            return here + 1
    return None


def closes_at_end(tokens: list[str]) -> bool:
    """Whether the bracket that opens first is the one that closes last."""
    return group_end(tokens, 0) == len(tokens)
