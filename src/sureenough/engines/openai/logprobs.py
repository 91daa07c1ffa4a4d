"""A token's candidates reduced to two numbers: the probability of the likeliest, and minus the mean of the k largest.

Servers send k or k + 1 candidates in any order, with the sampled token first or last. Only the k largest values count.
Those that list candidates by their text (SGLang, and completions) merge bytes that are not text by themselves, so a few
may be missing; they count as the smallest that came.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from math import exp, inf, isnan
from typing import Final

from sureenough.core.confidence import LOGPROB_FLOOR
from sureenough.core.events import Token
from sureenough.errors import MissingLogprobs

FLOOR: Final = LOGPROB_FLOOR

LONGEST_INCOMPLETE: Final = 64
"""Tokens with merged candidates that a path may begin with; after that, the server is one that never sends k."""
FIXES: Final = (
    "vLLM: start it with --max-logprobs {k}; SGLang: upgrade; llama.cpp: use its own server (llama-server) without a "
    "wrapper; transformers serve: it has no log-probabilities, use another server; a hosted API: choose a model that "
    "offers top_logprobs={k}. Or use a strategy that does not read confidence: sc, ac, esc"
)
REPEATED: Final = (
    "the server repeats one token's candidates for other tokens, so confidence means nothing (seen with SGLang, its "
    "issue 39260): upgrade it, or start it with --stream-interval 1; or use a strategy that does not read confidence: "
    "sc, ac, esc"
)


def token_signals(logprobs: Sequence[float], k: int) -> tuple[float, float]:
    """`peak` and `conf` of one token, from the log-probabilities of its candidates."""
    values = logprobs
    if len(values) < k:
        if not enough(len(values), k):
            raise MissingLogprobs(too_few(len(values), k))
        values = logprobs = [*values, *[min(values)] * (k - len(values))]
    highest, total = max(values), sum(values)
    if not (highest <= 0.0 and min(values) >= FLOOR and total > -inf):  # the last is for NaN, which hides from the rest
        values = [floored(value) for value in logprobs]
        highest, total = max(values), sum(values)
    if len(values) > k:
        total = sum(sorted(values, reverse=True)[:k])
    return exp(highest), -total / k


def append_tokens(tokens: list[Token], texts: Iterable[str], columns: Iterable[Sequence[float]], k: int) -> None:
    """Append the tokens of a chunk; the same numbers as `token_signals`, computed in place for k valid values."""
    new = tuple.__new__  # the constructor of a named tuple takes twice as long
    for text, values in zip(texts, columns, strict=True):
        if len(values) == k:
            highest, total = max(values), sum(values)
            if highest <= 0.0 and min(values) >= FLOOR and total > -inf:
                tokens.append(new(Token, (text, exp(highest), -total / k)))
                continue
        tokens.append(Token(text, *token_signals(values, k)))


def enough(received: int, k: int) -> bool:
    """Whether so many candidates can be those of a server that sends k; a quarter may have been merged."""
    return received * 4 >= k * 3


def floored(value: float) -> float:
    return FLOOR if isnan(value) else min(max(value, FLOOR), 0.0)


def too_few(received: int, k: int) -> str:
    what = f"only {received} candidates per token" if received else "no log-probabilities"
    return f"the server sent {what}, and the request was for {k}. {FIXES.format(k=k)}"


class RepeatCounter:
    """Finds servers that send one token's candidates for every token of a chunk.

    Equal lists in a row also occur in healthy replies, so up to a quarter of all tokens is tolerated, and nothing is
    decided before `LEAST` tokens. Lists of a certain token (probability 1) do not count: they are all alike.
    """

    LEAST: Final = 8

    def __init__(self) -> None:
        self.tokens = self.repeats = 0

    def add(self, columns: Sequence[Sequence[float]]) -> None:
        self.tokens += len(columns)
        for values, following in pairwise(columns):
            if values == following and values and max(values) < 0.0:
                self.repeats += 1

    @property
    def repeated(self) -> bool:
        return self.tokens >= self.LEAST and self.repeats * 4 > self.tokens
