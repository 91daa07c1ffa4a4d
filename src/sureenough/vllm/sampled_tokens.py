"""The tokens that vLLM in this process sampled, found again by their text.

Searches continue a text. Encoded again, it may become other tokens than those that were sampled; here the
sampled ones are found, and only what follows them is encoded. This needs the text of every token, from a tokenizer
whose tokens have one, whatever stands before them.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import accumulate, islice
from typing import Any, Final

UNFINISHED: Final = "\ufffd"
MOST_HELD: Final = 16
"""Tokens in a row that end within a character. It has four bytes at most; tokens may end one and begin the next."""
TRIED: Final = "Let x = 12.\n\n So  y is 3(x-1) , or .5 !\n"
"""With spaces that some tokenizers leave out: before a token that stands alone, and before punctuation."""
MOST_SEQUENCES: Final = 512
"""Per prompt: a search adopts lines that it sampled some rounds before."""
MOST_TOKENS: Final = 1 << 21
"""Of all sequences with their prompts, at about 12 bytes each."""


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


class TokenSequence:
    """The tokens of a reply from its beginning on, and where the text of each ends.

    A character of several tokens is the text of the last of them.
    """

    def __init__(self, texts: TokenTexts) -> None:
        self.ids, self._ends = array("i"), array("i")
        self._texts = texts
        self._held: list[int] = []  # the latest tokens, which end within a character
        self._text, self._new = "", list[str]()  # joined if they are compared

    def add(self, ids: Sequence[int]) -> list[str]:
        """Take further tokens; the text of each."""
        texts = [self._next(token) for token in ids]
        self._add(ids, texts)
        return texts

    def add_encoded(self, ids: Sequence[int], text: str) -> None:
        """Take the tokens of a text. If their texts do not add up to it, it is the text of the last of them."""
        texts = TokenSequence(self._texts).add(ids)
        if ids and "".join(texts) != text:
            texts = [*[""] * (len(ids) - 1), text]
        self._add(ids, texts)

    def _next(self, token: int) -> str:
        text = self._texts.decoded([*self._held, token]) if self._held else self._texts.text(token)
        if text.endswith(UNFINISHED) and len(self._held) + 1 < MOST_HELD:
            self._held.append(token)
            return ""
        self._held.clear()
        return text

    def _add(self, ids: Sequence[int], texts: list[str]) -> None:
        ends = accumulate(map(len, texts), initial=self._ends[-1] if self._ends else 0)
        self.ids.extend(ids)
        self._ends.extend(islice(ends, 1, None))
        self._new += texts

    def rest(self) -> str:
        """What is left of a character that never became whole; it is text of the last token."""
        rest = self._texts.decoded(self._held)
        if rest:
            self._ends[-1] += len(rest)
            self._new.append(rest)
        return rest

    def covered(self, text: str, beyond: int) -> int:
        """Up to where its first tokens have this text; 0 if not beyond that place."""
        if self._text[beyond : beyond + 1] != text[beyond : beyond + 1]:  # most are dismissed by this
            return 0
        following = bisect_right(self._ends, beyond)
        if following == len(self._ends) or not text.startswith(self._text[: self._ends[following]]):
            return 0
        other = bisect_left(self._ends, True, following, key=lambda end: not text.startswith(self._text[:end]))
        return self._ends[other - 1]

    def until(self, end: int | None = None) -> TokenSequence:
        """A copy up to this place of its text. Tokens without text after it, such as a path's end, are left out."""
        self.join()
        copy, end = TokenSequence(self._texts), len(self._text) if end is None else end
        count = bisect_left(self._ends, end) + 1 if end else 0
        copy.ids, copy._ends, copy._text = self.ids[:count], self._ends[:count], self._text[:end]
        return copy

    def join(self) -> None:
        """Make one text of the pieces."""
        self._text, self._new = self._text + "".join(self._new), []


class SampledTokens:
    """The sequences that were sampled last; the oldest of the prompt that was used least recently are dropped first."""

    def __init__(self, texts: TokenTexts) -> None:
        self._texts = texts
        self._kept: dict[tuple[int, ...], dict[TokenSequence, None]] = {}  # by prompt, the latest last
        self._tokens = 0
        self._latest: tuple[Sequence[int], str, TokenSequence] | None = None  # several continuations share a beginning

    def begin(self, prompt: Sequence[int], beginning: str) -> TokenSequence:
        """A sequence to be continued: what was sampled for this text, and the rest encoded."""
        if self._latest is None or self._latest[1] != beginning or self._latest[0] != prompt:
            self._latest = prompt, beginning, self._encoded(tuple(prompt), beginning)
        return self._latest[2].until()

    def keep(self, prompt: Sequence[int], sequence: TokenSequence) -> None:
        """Remember a sequence that is complete; only if the texts of tokens are exact."""
        if not self._texts.exact:
            return
        sequence.join()
        self._latest = None
        self._tokens += len(prompt) + len(sequence.ids)
        kept = self._make_latest(tuple(prompt), sequence)
        if len(kept) > MOST_SEQUENCES:
            self._drop(tuple(prompt))
        while self._tokens > MOST_TOKENS:
            self._drop(next(iter(self._kept)))

    def _make_latest(self, prompt: tuple[int, ...], sequence: TokenSequence) -> dict[TokenSequence, None]:
        kept = self._kept[prompt] = self._kept.pop(prompt, {})
        kept.pop(sequence, None)
        kept[sequence] = None
        return kept

    def _drop(self, prompt: tuple[int, ...]) -> None:
        kept = self._kept[prompt]
        oldest = next(iter(kept))
        del kept[oldest]
        self._tokens -= len(prompt) + len(oldest.ids)
        if not kept:
            del self._kept[prompt]

    def _encoded(self, prompt: tuple[int, ...], text: str) -> TokenSequence:
        begun, length = TokenSequence(self._texts), 0
        longest = None
        for sequence in reversed(self._kept.get(prompt, {})):
            covered = sequence.covered(text, length)
            if covered:
                longest, length = sequence, covered
        if longest is not None:
            self._make_latest(prompt, longest)
            begun = longest.until(length)
        rest = text[length:]
        if rest:
            begun.add_encoded(self._texts.encoded(rest), rest)
        return begun
