"""Events that a driver sends to a session, and actions that the session returns. Plain values, nothing else."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import StrEnum
from functools import lru_cache
from math import nan
from typing import Any, Literal, NamedTuple, Self

from sureenough.core.confidence import Floats, Monitor, Windows, scan
from sureenough.core.pruning import OPEN_GATE, Gate, Tier
from sureenough.core.search import Computation, Continuation, Growth, SampleLimits

Answer = str
"""An answer as it was extracted from a path's text."""

Reason = Literal["settled", "budget", "max_tokens", "deadline", "interrupted", "engine", "no_answer"]
"""Why a run ended."""


class Fate(StrEnum):
    """How a path ended."""

    KEPT = "kept"  # ran to its own end
    PRUNED = "pruned"  # a gate closed on it
    DISCARDED = "discarded"  # still running, or not yet counted, when the run ended
    FAILED = "failed"  # lost to the engine


class Token(NamedTuple):
    """One token, reduced to two numbers by the engine."""

    text: str
    peak: float  # local confidence: probability of the most likely token
    conf: float  # global confidence: minus the mean of the k largest log-probabilities


class Summary(NamedTuple):
    """A path as seen by an engine that watched it: stands in for the signals of its tokens."""

    tokens: int  # generated up to the decision on the path
    lowest: float = nan  # C_path
    tail: float = nan  # group conf of the last window
    tier: Tier | None = None  # the test that pruned it
    windows: Windows | None = None  # every window's values, for warm-up paths
    mean_peak: float = nan  # over all tokens; NaN from engines that do not sum it
    mean_conf: float = nan
    signals: Floats | None = None  # rows of peak and conf, if the session's window was not known

    @classmethod
    def of(cls, path: Windows | Monitor, windows: Windows | None = None) -> Self:
        """What is known of a path that was scanned or monitored to its end."""
        return cls(path.tokens, path.lowest, path.tail, None, windows, path.mean_peak, path.mean_conf)

    def over(self, window: int) -> Self:
        """With the values of windows of this size, if the signals are here to form them."""
        if self.signals is None or (self.windows is not None and self.windows.window == window):
            return self
        windows = scan(self.signals[:, 0], self.signals[:, 1], window)
        return self.of(windows, windows)


class Tokens(NamedTuple):
    """A path grew."""

    path: int
    tokens: Sequence[Token] = ()
    unread: int = 0  # further tokens that came without signals: they can be counted, not read


class Ended(NamedTuple):
    """A path ended. `tokens` are its last ones, if they were not sent before."""

    path: int
    fate: Fate
    answer: Answer | None = None
    summary: Summary | None = None
    tokens: Sequence[Token] = ()


class Sampled(NamedTuple):
    """A branch of a search grew by so many tokens, whatever becomes of it."""

    path: int
    branch: int
    tokens: int


class Extended(NamedTuple):
    """The reply to `Extend`: the branch ended. Its tokens were counted by `Sampled`."""

    path: int
    branch: int
    continuation: Continuation


class Computed(NamedTuple):
    """The reply to `Compute`."""

    path: int
    result: Any


class Regrouped(NamedTuple):
    """The classes of answers: the reply to `Classify`, or known before the run begins.

    A session that has received one counts no path whose answer is not named. Without any, every answer is a class of
    its own.
    """

    classes: Mapping[Answer, Hashable]


class Expired(NamedTuple):
    """The run must end now, for a reason outside the vote."""

    reason: Reason = "deadline"


class Start(NamedTuple):
    """Start this path. Its first `Extend` follows if the strategy searches; else it is sampled from the prompt."""

    path: int
    seed: int
    warmup: bool = False  # it runs to its end, and its windows calibrate the gate of later paths
    gate: Gate = OPEN_GATE  # for engines that watch their own paths


class Cancel(NamedTuple):
    """Close this path; its fate is decided, later tokens are overrun."""

    path: int
    fate: Fate


class Extend(NamedTuple):
    """Sample a continuation of this beginning of a path; send `Sampled` as it grows and `Extended` when it has ended.

    If the beginning has as many tokens as a path may have, nothing is sampled. One that fails loses its path: `Ended`.
    """

    path: int
    branch: int
    beginning: str
    limits: SampleLimits
    seed: int
    tokens: int = 0  # of the beginning


class Compute(NamedTuple):
    """Compute this for the search of a path, beside other work, and send `Computed`."""

    path: int
    computation: Computation


class Adopt(NamedTuple):
    """These sampled tokens are part of the path now. If it ends with them, send `Ended` with the answer of its text."""

    path: int
    growth: Growth
    ends: bool = False


class Classify(NamedTuple):
    """Send `Regrouped` with the classes of these answers; the path whose turn it is waits for it."""

    answers: tuple[Answer, ...]


class Stop(NamedTuple):
    """The run has ended."""

    answer: Answer | None
    reason: Reason


Event = Tokens | Ended | Sampled | Extended | Computed | Regrouped | Expired
Action = Start | Cancel | Extend | Compute | Adopt | Classify | Stop


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
