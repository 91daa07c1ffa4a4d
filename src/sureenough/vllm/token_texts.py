"""The text of every token, from a tokenizer whose tokens have one, whatever stands before them."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any, Final

UNFINISHED: Final = "\ufffd"
MOST_HELD: Final = 16
"""Tokens in a row that end within a character. It has four bytes at most; tokens may end one and begin the next."""
TRIED: Final = "Let x = 12.\n\n So  y is 3(x-1) , or .5 !\n"
"""With spaces that some tokenizers leave out: before a token that stands alone, and before punctuation."""


class TokenTexts:
    """Texts of single tokens, each decoded once."""

    def __init__(self, tokenizer: Any) -> None:
        self._tokenizer = tokenizer
        self._texts: dict[int, str] = {}

    @cached_property
    def exact(self) -> bool:
        """Whether the texts of single tokens add up to the text."""
        ids = self.encoded(TRIED)
        return "".join(map(self.text, ids)) == self.decoded(ids) == TRIED

    def text(self, token: int) -> str:
        text = self._texts.get(token)
        if text is None:
            text = self._texts[token] = self.decoded([token])
        return text

    def encoded(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decoded(self, ids: Iterable[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))


class GrowingTexts:
    """The texts of a path's tokens as they come; a character of several tokens is the text of the last of them."""

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._held: list[int] = []

    def add(self, ids: Iterable[int]) -> list[str]:
        """One text for each of these tokens."""
        return [self._next(token) for token in ids]

    def rest(self) -> str:
        """What is left of a character that never became whole."""
        return self._texts.decoded(self._held)

    def _next(self, token: int) -> str:
        text = self._texts.decoded([*self._held, token]) if self._held else self._texts.text(token)
        if text.endswith(UNFINISHED) and len(self._held) + 1 < MOST_HELD:
            self._held.append(token)
            return ""
        self._held.clear()
        return text
