"""Paths that start before the warm-up has ended change tokens and steps, and nothing else.

Paths grow in random turns and pieces, some fail, and their engine may watch them itself.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.events import (
    Action,
    Answer,
    Cancel,
    Classify,
    Ended,
    Event,
    Fate,
    Regrouped,
    Start,
    Summary,
    Token,
    Tokens,
)
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.pools import RecordedPath
from sureenough.strategies import STRATEGIES
from tests.property.test_lanes import questions
from tests.requirements import examples

NAMES = sorted(
    name for name, strategy in STRATEGIES.items() if strategy.search is None and strategy.probe is None
    and not strategy.needs_certainty
)  # fmt: skip


@dataclass
class Engine:
    """A server with these paths; the lost ones fail before their first token, so that no gate can close on them."""

    paths: list[RecordedPath]
    lost: set[int]
    watches: bool  # whether it sends counts and summaries instead of signals
    random: random.Random


class Path:
    """A path that an engine generates."""

    def __init__(self, start: Start, engine: Engine, window: int | None) -> None:
        self.number, self.engine, self.recorded = start.path, engine, engine.paths[start.path]
        self.sent, self.window = 0, window
        gate = None if start.warmup or window is None else start.gate
        self.traced, self.closed = gate is None, None
        if engine.watches and gate is not None and window is not None:
            self.closed = gate.first_closed(self.recorded.windows(window))
        self.length = self.recorded.tokens if self.closed is None else self.closed.tokens
        self.length *= self.number not in engine.lost

    def next(self) -> Event:
        if self.sent == self.length:
            return self.end()
        first, self.sent = self.sent, min(self.length, self.sent + self.engine.random.randint(1, 9))
        if self.engine.watches:
            return Tokens(self.number, unread=self.sent - first)
        pairs = zip(self.recorded.peak[first : self.sent], self.recorded.conf[first : self.sent], strict=True)
        return Tokens(self.number, [Token("", float(peak), float(conf)) for peak, conf in pairs])

    def end(self) -> Ended:
        if self.number in self.engine.lost:
            return Ended(self.number, Fate.FAILED)
        if not self.engine.watches:
            return Ended(self.number, Fate.KEPT, self.recorded.answer)
        if self.closed is not None:
            return Ended(self.number, Fate.PRUNED, None, Summary(self.length, tier=self.closed.tier))
        summary = self.recorded.summary(self.window or 1)
        signals = np.column_stack([self.recorded.peak, self.recorded.conf])
        summary = summary._replace(signals=signals) if self.traced else summary._replace(windows=None)
        return Ended(self.number, Fate.KEPT, self.recorded.answer, summary)


class Run:
    """A session on such an engine, to its end."""

    def __init__(self, strategy: Strategy, engine: Engine, longest_window: int, **options: Any) -> None:
        self.session = Session(strategy, RunOptions(**options), longest_window=longest_window, gives_up=True)
        self.engine = engine
        self.running: dict[int, Path] = {}
        self.requests: list[tuple[Answer, ...]] = []
        self.unanswered: Classify | None = None
        self.session.receive(Regrouped({}))
        self.carry_out(self.session.begin())
        while not self.session.done:
            choices = [*self.running, *([] if self.unanswered is None else [-1])]
            chosen = engine.random.choice(choices)
            self.carry_out(self.session.receive(self.classes() if chosen < 0 else self.grow(chosen)))

    def grow(self, number: int) -> Event:
        event = self.running[number].next()
        if isinstance(event, Ended):
            del self.running[number]
        return event

    def classes(self) -> Regrouped:
        request, self.unanswered = self.unanswered, None
        assert request is not None
        return Regrouped({answer: answer == "a" for answer in request.answers})

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                self.running[action.path] = Path(action, self.engine, self.session.options.window)
            elif isinstance(action, Cancel):
                self.running.pop(action.path, None)
            elif isinstance(action, Classify):
                assert self.unanswered is None
                self.unanswered = action
                self.requests.append(action.answers)

    def counted(self) -> list[tuple[object, ...]]:
        """What became of the paths that were counted; a path that fails need not have been in the warm-up by then."""
        paths = [path for path in self.session.snapshot().paths if path.counted]
        return [
            (path.number, path.fate) if path.fate is Fate.FAILED
            else (path.number, path.fate, path.warmup, path.tier, path.tokens, path.answer)
            for path in paths
        ]  # fmt: skip


@examples(1200)
@given(
    questions(),
    st.sampled_from(NAMES),
    st.sets(st.integers(0, 19), max_size=6),
    st.booleans(),
    st.integers(0, 2**32),
    st.data(),
)
def test_the_votes_are_those_of_one_path_at_a_time(
    paths: list[RecordedPath], name: str, lost: set[int], watches: bool, seed: int, data: st.DataObject
) -> None:
    strategy, draw = STRATEGIES[name], data.draw
    if strategy.warmup:
        strategy = replace(strategy, warmup=draw(st.integers(1, len(paths))))
    if draw(st.booleans(), "nearly silent"):
        paths = [replace(path, answer=None if n % 5 else path.answer) for n, path in enumerate(paths)]
    options: dict[str, Any] = {"paths": len(paths), "window": draw(st.one_of(st.none(), st.integers(1, 10)))}
    width = {"parallel": draw(st.integers(1, len(paths) + 2)), "planned": draw(st.booleans()), "eager": True}
    longest_window = draw(st.integers(1, 10))

    def run(**width: Any) -> Run:
        engine = Engine(paths, lost, watches, random.Random(seed))
        return Run(strategy, engine, longest_window, **options, **width)

    alone, wide = run(parallel=1), run(**width)
    one, other = alone.session.outcome(), wide.session.outcome()
    for field in ("answer", "reason", "votes", "measure", "gate", "classes", "window", "window_paths", "abstained"):
        assert getattr(other, field) == getattr(one, field), field
    assert wide.counted() == alone.counted()
    if strategy.warmup or options["window"] is not None:  # paths whose lengths choose the window are compared together
        assert wide.requests == alone.requests
    assert (other.tokens.init, other.tokens.kept) == (one.tokens.init, one.tokens.kept)
    assert other.tokens.total == wide.session.snapshot().generated
    assert other.tokens.total - other.tokens.overrun >= one.tokens.total - one.tokens.overrun


@pytest.mark.parametrize("watches", [False, True])
def test_all_paths_may_be_lost(watches: bool) -> None:
    strategy = replace(STRATEGIES["ddc"], warmup=2)
    engine = Engine([RecordedPath("a", [0.5], [9.0])] * 5, set(range(5)), watches, random.Random(0))
    out = Run(strategy, engine, 4, paths=5, parallel=5, eager=True).session.outcome()
    assert (out.answer, out.reason, out.failed, out.tokens.failed) == (None, "budget", 5, 0)
