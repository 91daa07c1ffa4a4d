"""How much the demo samples, by the measured speed: it reduces the number of problems first, then the paths of
each, then the difficulty."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sureenough.core.events import Action, Ended, Tokens
from sureenough.core.snapshot import Snapshot
from sureenough.drivers.observers import ObservedEvent

LEVELS: Final = (3, 4, 5, 2, 4)
"""The mix of levels, repeated: strategies differ most on problems that are neither too easy nor too hard."""
CHOICES: Final = tuple(
    [(problems, 32, LEVELS) for problems in (20, 16, 12)]
    + [(problems, 24, LEVELS) for problems in (12, 8)]
    + [(8, 24, (1, 2, 3)), (5, 24, (1, 2))]
)


class DemoSize(NamedTuple):
    """The problems and paths that are sampled."""

    levels: tuple[int, ...]  # of each problem
    paths: int
    tokens: int  # estimated
    rate: float  # tokens per second


def demo_size(rate: float, lengths: Mapping[int, float], seconds: float) -> DemoSize:
    """The first choice that fits the time, else the last; `lengths` are tokens per path of the known levels."""
    size = None
    for problems, paths, mix in CHOICES:
        levels = tuple(mix[n % len(mix)] for n in range(problems))
        tokens = paths * sum(length(level, lengths) for level in levels)
        size = DemoSize(levels, paths, round(tokens), rate)
        if tokens <= rate * seconds:
            break
    assert size is not None
    return size


def length(level: int, known: Mapping[int, float]) -> float:
    """Tokens per path at a level: as known, or interpolated between its neighbours."""
    below = max((other for other in known if other <= level), default=min(known))
    above = min((other for other in known if other >= level), default=max(known))
    if below == above:
        return known[below]
    return known[below] + (known[above] - known[below]) * (level - below) / (above - below)


class RateMeter:
    """An observer that measures tokens per second from the first token until a path ends: while all paths run."""

    def __init__(self) -> None:
        self._tokens = 0
        self._seconds = 0.0
        self._since: float | None = None

    def __call__(self, event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        """An observer."""
        if isinstance(event, Tokens):
            now = time.monotonic()
            if not any(path.fate for path in snapshot.paths):
                if self._since is not None:
                    self._tokens += len(event.tokens) + event.unread
                    self._seconds += now - self._since
                self._since = now
        elif isinstance(event, Ended):
            self._since = None

    def rate(self, default: float) -> float:
        """Tokens per second, or the default if too few were measured."""
        return self._tokens / self._seconds if self._seconds > 0.2 else default
