"""Short words for long events: what the tests of the session are written in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sureenough.core.events import Action, Ended, Fate, Token, Tokens
from sureenough.core.options import RunOptions
from sureenough.core.poll import Poll
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.core.weights import Ballot, ByLowest, Weigh, by_count
from sureenough.strategies import STRATEGIES


def ddc(warmup: int = 2, **changes: Any) -> Strategy:
    return replace(STRATEGIES["ddc"], warmup=warmup, **changes)


NEVER = STRATEGIES["sc"].stop


def grew(path: int, *confs: float) -> Tokens:
    return Tokens(path, [Token("x", 0.5, conf) for conf in confs])


def ended(path: int, answer: str | None = "a", fate: Fate = Fate.KEPT) -> Ended:
    return Ended(path, fate, answer)


def session(strategy: Strategy | None = None, **sizes: Any) -> Session:
    made = Session(strategy or STRATEGIES["ac"], RunOptions(**({"paths": 8, "window": 2} | sizes)))
    made.begin()
    return made


def whole(run: Session, path: int, answer: str | None, *confs: float) -> list[Action]:
    """A path grows to its end."""
    return [*run.receive(grew(path, *confs)), *run.receive(ended(path, answer))]


def watching(**sizes: Any) -> Session:
    """A session whose warm-up, one path without an answer, has ended: later paths are pruned below a conf of 6."""
    run = session(ddc(1, stop=NEVER), **({"paths": 2} | sizes))
    whole(run, 0, None, 6, 6)
    return run


def poll(
    votes: str,
    values: Sequence[float] | None = None,
    *,
    weigh: Weigh | None = None,
    budget: int = 64,
    warmup: Sequence[float] = (),
) -> Poll:
    """A poll of one-letter answers; a dot is a path without a vote. `values` are the paths' confidence, else 1."""
    made = Poll(weigh or (by_count if values is None else ByLowest()), budget)
    made.warmup = list(warmup)
    for path, answer in enumerate(votes):
        value = 1.0 if values is None else values[path]
        made.add(path, None if answer == "." else Ballot(path, answer, value, value))
    return made
