"""Recorded paths, from one path's end to the next: the same decisions as `lockstep`, without the ticks between.

Whether and where a gate closes on a recorded path is known the moment the path starts, so only ends are
events. The session is told of them by summaries, as it is by engines that watch their own paths.
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple

from sureenough.core.events import Action, Cancel, Ended, Expired, Fate, Start, Summary, Tokens, Unread
from sureenough.core.session import Session
from sureenough.pools import RecordedPath


class _Run(NamedTuple):
    """A running path: it grows in every tick after `start`, until its end."""

    start: int
    tokens: int  # until its end
    end: Ended

    def grown(self, tick: int) -> int:
        """Its tokens once that tick is over."""
        return max(0, min(self.tokens, tick - self.start))


def fast_replay(paths: Sequence[RecordedPath], session: Session, expired: Callable[[], bool]) -> int:
    """Run the session to its end; the number of ticks in which a token grew."""
    return _Leaper(paths, session).run(expired)


class _Leaper:
    def __init__(self, paths: Sequence[RecordedPath], session: Session) -> None:
        self.paths, self.session = paths, session
        self.reads = session.strategy.reads_confidence
        self.running: dict[int, _Run] = {}
        self.ends: list[tuple[int, int]] = []  # heap of (tick, path)
        self.tick, self.turn = 0, -1  # in this tick, paths up to this number have had their turn
        self.lively = True  # something grew in this tick
        self.idle = 0  # ticks in which nothing grew
        self.ended = 0  # tokens of paths that ended

    def run(self, expired: Callable[[], bool]) -> int:
        session = self.session
        self.obey(session.begin())
        while not session.done:
            if expired():
                self.obey(session.receive(Expired()))
            elif session.max_tokens == inf or not self.cut_short():
                self.next_end()
        return self.tick - self.idle - (not self.lively)

    def next_end(self) -> None:
        """Leap to the next end of a path and tell the session."""
        tick, number = heapq.heappop(self.ends)
        self.enter(tick, number)
        _, tokens, end = self.running.pop(number)
        self.ended += tokens
        # An empty path grows nothing; whether its tick counts is up to the paths before it.
        if tokens or any(run.tokens for n, run in self.running.items() if n < number):
            self.lively = True
        self.obey(self.session.receive(end))

    def enter(self, tick: int, turn: int) -> None:
        if tick > self.tick:
            if not self.lively and not any(run.tokens and run.start < self.tick for run in self.running.values()):
                self.idle += 1
            self.lively = False
        self.tick, self.turn = tick, turn

    def obey(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, Start):
                run = self.running[action.path] = self.started(action.path)
                heapq.heappush(self.ends, (self.tick + (run.tokens or 1), action.path))
            elif isinstance(action, Cancel) and action.path in self.running:
                made = self.grown(action.path, self.running.pop(action.path), self.turn)
                self.session.receive(Ended(action.path, action.fate, None, Summary(made)))

    def started(self, number: int) -> _Run:
        """A path's whole future: the engine that watches it is the recording itself."""
        session, path = self.session, self.paths[number]
        if not self.reads:
            tokens = path.tokens
            return _Run(self.tick, tokens, Ended(number, Fate.KEPT, path.answer, Summary(tokens)))
        windows = path.windows(session.window)
        closed = None if session.paths[number].warmup else session.gate.first_closed(windows)
        if closed is not None:
            summary = Summary(closed.tokens, tier=closed.tier)
            return _Run(self.tick, closed.tokens, Ended(number, Fate.PRUNED, None, summary))
        tokens = windows.tokens
        summary = Summary(tokens, windows.lowest, windows.tail, None, windows)
        return _Run(self.tick, tokens, Ended(number, Fate.KEPT, path.answer, summary))

    def grown(self, number: int, run: _Run, turn: int) -> int:
        """Its tokens at this moment, when paths up to `turn` have grown in this tick."""
        return run.grown(self.tick if number <= turn else self.tick - 1)

    # -- the cap on tokens

    def cut_short(self) -> bool:
        """Tell of all growth up to just before the next end, or to the token at which the cap falls."""
        tick, number = self.ends[0]
        growing = self.running.items()
        made = self.ended + sum(run.grown(tick if n < number else tick - 1) for n, run in growing)
        if made < self.session.max_tokens:
            self.enter(tick, number - 1)
            self.tell(sorted(self.running))
            return False
        tick = bisect_left(range(tick + 1), self.session.max_tokens, lo=self.tick, key=self.made_by)
        short = int(self.session.max_tokens) - self.made_by(tick - 1)
        growers = sorted(n for n, run in growing if run.grown(tick) > run.grown(tick - 1))
        self.enter(tick, growers[short - 1])
        self.lively = True
        self.tell([*(n for n in sorted(self.running) if n != self.turn), self.turn])
        return True

    def made_by(self, tick: int) -> int:
        return self.ended + sum(run.grown(tick) for run in self.running.values())

    def tell(self, numbers: list[int]) -> None:
        for number in numbers:
            news = self.grown(number, self.running[number], self.turn) - self.session.paths[number].tokens
            if news > 0:
                self.obey(self.session.receive(Tokens(number, Unread(news))))
