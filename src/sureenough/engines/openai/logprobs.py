"""A token's candidates, reduced to two numbers: the probability of the likeliest, and minus the mean of the k largest.

Servers send k or k + 1 candidates in any order, the sampled token first or last; exactly the k largest by value count.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import exp, inf, isnan
from typing import Final

from sureenough.core.confidence.columns import LOGPROB_FLOOR
from sureenough.core.events import Token
from sureenough.errors import MissingLogprobs

FLOOR: Final = LOGPROB_FLOOR

CURES: Final = (
    "vLLM: start it with --max-logprobs {k}; SGLang: upgrade; llama.cpp: use its own server (llama-server) and no "
    "wrapper; transformers serve: it has no log-probabilities, use another server; a hosted API: choose a model that "
    "offers top_logprobs={k}. Or ask with a strategy that reads no confidence: sc, ac, esc"
)


def token_signals(logprobs: Sequence[float], k: int) -> tuple[float, float]:
    """`peak` and `conf` of one token, from the log-probabilities of its candidates."""
    values = logprobs
    if len(values) < k:
        raise MissingLogprobs(too_few(len(values), k))
    highest, total = max(values), sum(values)
    if not (highest <= 0.0 and min(values) >= FLOOR and total > -inf):  # the last is for NaN, which hides from the rest
        values = [floored(value) for value in logprobs]
        highest, total = max(values), sum(values)
    if len(values) > k:
        total = sum(sorted(values, reverse=True)[:k])
    return exp(highest), -total / k


def append_tokens(made: list[Token], texts: Iterable[str], columns: Iterable[Sequence[float]], k: int) -> None:
    """Add the tokens of a chunk: what `reduced` says, without its cost where a server sends exactly k sound values."""
    new = tuple.__new__  # a named tuple's own way takes twice as long
    for text, values in zip(texts, columns, strict=True):
        if len(values) == k:
            highest, total = max(values), sum(values)
            if highest <= 0.0 and min(values) >= FLOOR and total > -inf:
                made.append(new(Token, (text, exp(highest), -total / k)))
                continue
        made.append(Token(text, *token_signals(values, k)))


def floored(value: float) -> float:
    """A log-probability as it counts: at least -100, at most 0."""
    return FLOOR if isnan(value) else min(max(value, FLOOR), 0.0)


def too_few(got: int, k: int) -> str:
    """What to say of a server that sends fewer candidates than were asked for."""
    what = f"only {got} candidates a token" if got else "no log-probabilities"
    return f"the server sent {what} where {k} were asked for. {CURES.format(k=k)}"
