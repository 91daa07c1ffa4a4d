"""What a driver tells a session, and what the session asks of it. Plain values, nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import nan
from typing import Any, Literal, NamedTuple, overload

from sureenough.core.confidence.array import Windows

Answer = str
"""An answer as it was extracted from a path's text."""

Reason = Literal["settled", "budget", "max_tokens", "deadline", "interrupted", "engine"]
"""Why a run ended."""


class Fate(StrEnum):
    """How a path ended."""

    KEPT = "kept"  # ran to its own end
    PRUNED = "pruned"  # a gate closed on it
    SPARED = "spared"  # still running, or not yet counted, when the run was over
    FAILED = "failed"  # lost to the engine


class Tier(StrEnum):
    """Which of the gate's tests pruned a path."""

    DROP = "drop"  # confidence too low
    RISK = "risk"  # trend too unstable


class Token(NamedTuple):
    """One token, reduced to two numbers at the edge."""

    text: str
    peak: float  # local confidence: probability of the likeliest token
    conf: float  # global confidence: minus the mean of the k largest log-probabilities


class Unread(Sequence[Token]):
    """So many tokens whose signals the engine watches itself: they can be counted, not read."""

    __slots__ = ("_n",)

    def __init__(self, n: int) -> None:
        self._n = n

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Token: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Token]: ...
    def __getitem__(self, index: int | slice) -> Token | Sequence[Token]:
        if isinstance(index, slice):
            return Unread(len(range(*index.indices(self._n))))
        if not -self._n <= index < self._n:
            raise IndexError(index)
        return Token("", nan, nan)

    def __iter__(self) -> Iterator[Token]:
        return iter([Token("", nan, nan)] * self._n)


class Summary(NamedTuple):
    """A path as an engine that watched it saw it: stands in for the signals of its tokens."""

    tokens: int  # made up to the decision on the path
    lowest: float = nan  # C_path
    tail: float = nan  # group conf of the last window
    tier: Tier | None = None  # the test that pruned it
    windows: Windows | None = None  # every window's values, for warm-up paths


class Tokens(NamedTuple):
    """A path grew."""

    path: int
    tokens: Sequence[Token]


class Ended(NamedTuple):
    """A path is over. `tokens` are the last ones, where they are told together with the end."""

    path: int
    fate: Fate
    answer: Answer | None = None
    summary: Summary | None = None
    tokens: Sequence[Token] = ()


class Regrouped(NamedTuple):
    """Which answers mean the same: class by answer. Answers not named are classes of their own."""

    classes: Mapping[Answer, Hashable]


class Expired(NamedTuple):
    """The world says that the run must end now."""

    reason: Reason = "deadline"


class Start(NamedTuple):
    """Start growing this path."""

    path: int
    seed: int


class Cancel(NamedTuple):
    """Stop growing this path; its fate is sealed, later tokens are overrun."""

    path: int
    fate: Fate


class Stop(NamedTuple):
    """The run is over."""

    answer: Answer | None
    reason: Reason


Event = Tokens | Ended | Regrouped | Expired
Action = Start | Cancel | Stop


@lru_cache(maxsize=4096)
def path_seed(seed: int, path: int) -> int:
    """A seed of 31 bits for a path, from the run's seed and the path's number (splitmix64's finaliser)."""
    mask = (1 << 64) - 1
    z = (seed * 0x9E3779B97F4A7C15 + (path + 1) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) & 0x7FFFFFFF


Json = dict[str, Any]
"""A JSON object, for outcomes and reports."""
