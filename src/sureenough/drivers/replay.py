"""Replay: one question's recorded paths under one strategy."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isnan
from typing import Any

from sureenough.core.events import Regrouped
from sureenough.core.options import RunOptions, choose_window
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.core.weights import NO_CERTAINTY
from sureenough.drivers.fast_replay import fast_replay
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath, SummarisedPath, scan_together
from sureenough.spec import render

ReplayDriver = Callable[[Sequence[Any], Session, Callable[[], bool]], int]
"""Runs paths, recorded or summarised; `lockstep` needs the signals of recorded ones."""


def replay(
    recorded: Sequence[RecordedPath | SummarisedPath],
    strategy: Strategy,
    options: RunOptions,
    *,
    classes: Mapping[str, Hashable] | None = None,
    driver: ReplayDriver = fast_replay,
) -> Outcome:
    """Run recorded paths in lockstep; a budget above what was recorded uses what there is."""
    if strategy.search is not None:
        raise UsageError(
            f"{strategy.name} samples as it searches, so recorded paths cannot show what it would do: run it live"
        )
    if strategy.needs_certainty and any(isnan(path.mean_certainty) for path in recorded[: options.paths]):
        raise UsageError(NO_CERTAINTY)
    if options.window is None:
        options = dataclasses.replace(options, window=choose_window([path.tokens for path in recorded]))
    recorded = recorded[: options.paths]
    run_options = options if options.paths == len(recorded) else dataclasses.replace(options, paths=len(recorded))
    session = Session(strategy, run_options)
    if classes:
        session.receive(Regrouped(classes))
    if strategy.reads_confidence:
        scan_together([path for path in recorded if isinstance(path, RecordedPath)], options.window or 1)
    steps = driver(recorded, session, _deadline_passed(options.deadline))
    outcome = dataclasses.replace(session.outcome(), steps=steps, strategy=render(strategy))
    if options.paths is None or options.paths <= len(recorded):
        return outcome
    note = f"{len(recorded)} paths are recorded, the budget was {options.paths}: it used what there is"
    return dataclasses.replace(outcome, notes=(*outcome.notes, note))


def _deadline_passed(deadline: float | None) -> Callable[[], bool]:
    if deadline is None:
        return lambda: False
    end = time.monotonic() + deadline
    return lambda: time.monotonic() >= end
