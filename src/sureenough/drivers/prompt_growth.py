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
        self._shortest: tuple[int, int, int] | None = None  # tokens of the beginning, the prompt, the phrase
        self._most_missing = -inf  # tokens, without what is known of the question

    def add(self, sent: int, read: int, *, seams: int = 0, phrase: int = 0) -> None:
        """A prompt: the tokens of its beginning, and those of all of it by the server's count.

        `seams` are places at which the beginning was put together, where two sampled tokens may have become one.
        `phrase` is about how many tokens were sent after it, which were not sampled.
        """
        self._shortest = min(self._shortest or (sent, read, phrase), (sent, read, phrase))
        self._most_missing = max(self._most_missing, WHOLE * sent - seams - read)

    @property
    def too_small(self) -> bool:
        """Whether a server read so much less than was sent that it cannot be due to other tokens for the same text."""
        if self._shortest is None:
            return False
        sent, read, _ = self._shortest
        return self._most_missing > WHOLE * sent - read + TEMPLATE_TOKENS

    @property
    def question_known(self) -> bool:
        """Whether a prompt without a beginning was among them."""
        return self._shortest is not None and not self._shortest[0]

    @property
    def question_tokens(self) -> int:
        """Tokens of a prompt without a beginning; if there was none, about so many, and 0 if nothing is known."""
        sent, read, phrase = self._shortest or (0, 0, 0)
        return max(0, read - phrase - (0 if self.too_small else sent))
