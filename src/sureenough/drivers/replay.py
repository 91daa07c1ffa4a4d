"""Replay: one question's recorded paths under one strategy."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace

from sureenough.core.events import Regrouped
from sureenough.core.options import Count, check_count
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.drivers.fast_replay import fast_replay
from sureenough.pools import RecordedPath, scan_together
from sureenough.spec import render

Lane = Callable[[Sequence[RecordedPath], Session, Callable[[], bool]], int]


def replay(
    recorded: Sequence[RecordedPath],
    strategy: Strategy,
    *,
    paths: int,
    window: int,
    parallel: int = 1,
    seed: int = 0,
    max_tokens: int | None = None,
    deadline: float | None = None,
    count: Count = "start",
    planned: bool = False,
    classes: Mapping[str, Hashable] | None = None,
    lane: Lane = fast_replay,
) -> Outcome:
    """Run recorded paths in lockstep; a budget above what was recorded uses what there is."""
    check_count("paths", paths)
    session = Session(
        strategy,
        paths=min(paths, len(recorded)),
        window=window,
        parallel=parallel,
        seed=seed,
        max_tokens=max_tokens,
        count=count,
        planned=planned,
    )
    if classes:
        session.receive(Regrouped(classes))
    if strategy.reads_confidence:
        scan_together(recorded[:paths], window)
    steps = lane(recorded, session, _alarm(deadline))
    outcome = replace(session.outcome(), steps=steps, strategy=render(strategy))
    if paths <= len(recorded):
        return outcome
    note = f"{len(recorded)} paths are recorded, the budget was {paths}: it used what there is"
    return replace(outcome, notes=(*outcome.notes, note))


def _alarm(deadline: float | None) -> Callable[[], bool]:
    if deadline is None:
        return lambda: False
    end = time.monotonic() + deadline
    return lambda: time.monotonic() >= end
