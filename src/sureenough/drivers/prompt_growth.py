"""Whether a server reads the beginnings that it is sent: its prompts must grow by about as many tokens."""

from __future__ import annotations

from math import inf
from typing import Final

WHOLE: Final = 7 / 8
"""Share of its sampled tokens that a text must have when it is read: a model may sample more tokens than its tokenizer
makes of the same text."""
TEMPLATE_TOKENS: Final = 4
"""Tokens that a template may write before a reply of which nothing is given, and leaves out before one that is."""


class PromptGrowth:
    """Compares prompts of one question with the tokens of the beginnings that were sent.

    The prompt with the shortest beginning is what the others are compared with; best is one without any.
    """

    def __init__(self) -> None:
        self._shortest: tuple[int, int] | None = None  # tokens of the beginning, tokens of the prompt
        self._most_missing = -inf  # tokens, without what is known of the question

    def add(self, sent: int, read: int, seams: int = 0) -> None:
        """A prompt: the tokens of its beginning, and those of all of it by the server's count.

        `seams` are places at which the beginning was put together, where two sampled tokens may have become one.
        """
        self._shortest = min(self._shortest or (sent, read), (sent, read))
        self._most_missing = max(self._most_missing, WHOLE * sent - seams - read)

    @property
    def too_small(self) -> bool:
        """Whether a server read so much less than was sent that it cannot be due to other tokens for the same text."""
        if self._shortest is None:
            return False
        sent, read = self._shortest
        return self._most_missing > WHOLE * sent - read + TEMPLATE_TOKENS
