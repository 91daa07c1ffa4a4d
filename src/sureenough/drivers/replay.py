"""Replay: one question's recorded paths under one strategy."""

from __future__ import annotations

import dataclasses
import heapq
import time
from bisect import bisect_left
from collections.abc import Callable, Hashable, Mapping, Sequence
from math import isnan
from typing import Final, NamedTuple

from sureenough.core.events import Action, Cancel, Classify, Ended, Expired, Fate, Regrouped, Start, Summary, Tokens
from sureenough.core.options import RunOptions, choose_window
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.errors import ProtocolError, UsageError
from sureenough.pools import RecordedPath, Signals, scan_together
from sureenough.spec import render


class _RunningPath(NamedTuple):
    """It grows in every tick after `start`, until its end."""

    start: int
    tokens: int  # until its end
    end: Ended

    def tokens_after(self, tick: int) -> int:
        return max(0, min(self.tokens, tick - self.start))


def fast_replay(paths: Sequence[RecordedPath], session: Session, expired: Callable[[], bool]) -> int:
    """Run the session to its end; returns the number of ticks in which a token grew."""
    return _FastReplay(paths, session).run(expired)


class _FastReplay:
    def __init__(self, paths: Sequence[RecordedPath], session: Session) -> None:
        self.paths, self.session = paths, session
        self.reads, self.prunes = session.strategy.reads_confidence, session.strategy.prunes
        self.window = session.options.window or 1
        self.max_tokens = session.options.max_tokens
        self.running: dict[int, _RunningPath] = {}
        self.reported: dict[int, int] = {}  # tokens of running paths that the session knows of, if there is a cap
        self.ends: list[tuple[int, int]] = []  # heap of (tick, path)
        self.tick, self.turn = 0, -1  # in this tick, paths up to this number have grown
        self.grown: list[tuple[int, int]] = []  # of every path that is over: its start, and the tick of its last token
        self.ended_tokens = 0  # tokens of paths that ended

    def run(self, expired: Callable[[], bool]) -> int:
        session = self.session
        self.carry_out(session.begin())
        while not session.done:
            if expired():
                self.carry_out(session.receive(Expired()))
            elif self.max_tokens is None or not self.reach_cap(self.max_tokens):
                self.next_end()
        ticks = latest = 0
        for start, last in sorted(self.grown):  # empty paths take a tick in which nothing grows
            ticks += max(0, last - max(start, latest))
            latest = max(latest, last)
        return ticks

    def next_end(self) -> None:
        tick, number = heapq.heappop(self.ends)
        self.tick, self.turn = tick, number
        start, tokens, end = self.running.pop(number)
        self.ended_tokens += tokens
        self.grown.append((start, start + tokens))
        self.carry_out(self.session.receive(end))

    def carry_out(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                path = self.running[action.path] = self.start(action)
                heapq.heappush(self.ends, (self.tick + (path.tokens or 1), action.path))
            elif isinstance(action, Cancel) and action.path in self.running:
                path = self.running.pop(action.path)
                generated = self.generated(action.path, path)
                self.grown.append((path.start, path.start + generated))
                self.session.receive(Ended(action.path, action.fate, None, Summary(generated)))
            elif isinstance(action, Classify):
                raise ProtocolError(f"the class of the answer {action.answers[-1]!r} was not given")

    def start(self, action: Start) -> _RunningPath:
        """A path's whole future: the recording stands in for an engine that watches its own paths."""
        number = action.path
        path = self.paths[number]
        if not self.reads:
            return self.kept(number, Summary(path.tokens))
        closed = action.gate.first_closed(path.windows(self.window)) if self.prunes and not action.warmup else None
        if closed is not None:
            summary = Summary(closed.tokens, tier=closed.tier)
            return _RunningPath(self.tick, closed.tokens, Ended(number, Fate.PRUNED, None, summary))
        return self.kept(number, path.summary(self.window))

    def kept(self, number: int, summary: Summary) -> _RunningPath:
        return _RunningPath(self.tick, summary.tokens, Ended(number, Fate.KEPT, self.paths[number].answer, summary))

    def generated(self, number: int, path: _RunningPath) -> int:
        """Its tokens at this moment: in this tick, only paths up to `turn` have grown."""
        return path.tokens_after(self.tick if number <= self.turn else self.tick - 1)

    # -- the cap on tokens

    def reach_cap(self, cap: int) -> bool:
        """Report all growth up to just before the next end, or up to the token that reaches the cap."""
        tick, number = self.ends[0]
        growing = self.running.items()
        total = self.ended_tokens + sum(path.tokens_after(tick if n < number else tick - 1) for n, path in growing)
        if total < cap:
            self.tick, self.turn = tick, number - 1
            self.report(sorted(self.running))
            return False
        tick = bisect_left(range(tick + 1), cap, lo=self.tick, key=self.total_after)
        missing = cap - self.total_after(tick - 1)
        growers = sorted(n for n, path in growing if path.tokens_after(tick) > path.tokens_after(tick - 1))
        self.tick, self.turn = tick, growers[missing - 1]
        self.report([*(n for n in sorted(self.running) if n != self.turn), self.turn])
        return True

    def total_after(self, tick: int) -> int:
        return self.ended_tokens + sum(path.tokens_after(tick) for path in self.running.values())

    def report(self, numbers: list[int]) -> None:
        for number in numbers:
            generated = self.generated(number, self.running[number])
            new = generated - self.reported.get(number, 0)
            if new > 0:
                self.reported[number] = generated
                self.carry_out(self.session.receive(Tokens(number, unread=new)))


ReplayDriver = Callable[[Sequence[RecordedPath], Session, Callable[[], bool]], int]


def refusal(strategy: Strategy, signals: Signals) -> str | None:
    """Why a strategy cannot be replayed on paths that were recorded with these signals; None if it can."""
    if strategy.prunes and signals != "tokens":
        return f"{strategy.name} prunes paths by the confidence of their tokens, and these were recorded without it"
    if signals == "none" and strategy.reads_confidence and strategy.state is None:
        return f"{strategy.name} weighs votes by confidence, and these paths were recorded without it"
    return None


UNWEIGHED: Final = "these paths were recorded without confidence, so all votes weigh 1"


def _check_signals(strategy: Strategy, recorded: Sequence[RecordedPath]) -> tuple[str, ...]:
    """Refuse what these paths cannot show; a note if learned weights have nothing to go by."""
    if not strategy.reads_confidence:
        return ()
    kinds: set[Signals] = {path.signals for path in recorded}
    for kind in kinds:
        if (reason := refusal(strategy, kind)) is not None:
            raise UsageError(f"{reason}: strategies that count votes, such as ac and sure:weigh=count, need none")
    signal = getattr(strategy.weigh, "signal", "lowest")
    if any(path.known is not None and isnan(getattr(path.known[1], signal)) for path in recorded):
        raise UsageError(f"{strategy.name} with signal={signal}: these paths were recorded without {signal}")
    return (UNWEIGHED,) if "none" in kinds else ()


def replay(
    recorded: Sequence[RecordedPath],
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
    if options.window is None:
        options = dataclasses.replace(options, window=choose_window([path.tokens for path in recorded]))
    recorded = recorded[: options.paths]
    notes = _check_signals(strategy, recorded)
    run_options = options if options.paths == len(recorded) else dataclasses.replace(options, paths=len(recorded))
    session = Session(strategy, run_options)
    if classes:
        session.receive(Regrouped(classes))
    if strategy.reads_confidence:
        scan_together(recorded, options.window or 1)
    steps = driver(recorded, session, _deadline_passed(options.deadline))
    outcome = dataclasses.replace(session.outcome(), steps=steps, strategy=render(strategy))
    if options.paths is not None and options.paths > len(recorded):
        notes += (f"{len(recorded)} paths are recorded, the budget was {options.paths}: it used what there is",)
    return dataclasses.replace(outcome, notes=(*outcome.notes, *notes)) if notes else outcome


def _deadline_passed(deadline: float | None) -> Callable[[], bool]:
    if deadline is None:
        return lambda: False
    end = time.monotonic() + deadline
    return lambda: time.monotonic() >= end
