"""One path's record in a session, and the bill over all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan
from typing import Any

import numpy as np

from sureenough.core.confidence.array import Windows, scan
from sureenough.core.confidence.streaming import Monitor
from sureenough.core.events import Answer, Fate, Summary, Tier, Token
from sureenough.core.options import suggested_window
from sureenough.core.outcome import BUCKETS, Spent
from sureenough.core.pruning import Gate
from sureenough.core.strategy import Strategy
from sureenough.core.weights import Ballot
from sureenough.errors import ProtocolError


class PathState:
    """What the session knows of a path it started."""

    # Defaults live on the class: sweeps over recorded paths make millions of these.
    tokens = 0
    overrun = 0
    counted = False
    blind = False  # tokens came without signals: only a summary can speak for it
    fate: Fate | None = None  # None while it runs
    tier: Tier | None = None
    answer: Answer | None = None
    monitor: Monitor | None = None
    signals: list[tuple[float, float]] | None = None  # of warm-up paths, until they end
    windows: Windows | None = None
    lowest = 0.0
    tail = 0.0

    def __init__(self, number: int, chain: int, warmup: bool) -> None:
        self.number = number
        self.chain = chain  # the run's longest chain of tokens when this path was started
        self.warmup = warmup

    def record(self, tokens: Iterable[Token]) -> None:
        """Keep a warm-up path's signals for the calibration."""
        if self.signals is None:
            self.signals = []
        for _, peak, conf in tokens:
            self.blind |= isnan(conf)
            self.signals.append((peak, conf))

    def watch(self, tokens: Iterable[Token], gate: Gate, window: int) -> int:
        """Follow the path token by token; how many until the gate closed on it, or all of them."""
        if self.monitor is None:
            self.monitor = Monitor(window)
        monitor = self.monitor
        push, test = monitor.push, gate.tier  # looked up once: this loop is most of what a live token costs here
        taken = 0
        for _, peak, conf in tokens:
            taken += 1
            if isnan(conf):
                self.blind = True
            elif push(peak, conf) and (tier := test(monitor)) is not None:
                self.tier = tier
                break
        return taken

    def close(self, window: int, summary: Summary | None) -> None:
        """The path ran to its end: its confidence, from its own signals or from the engine's summary."""
        if summary is not None:
            self.lowest, self.tail, self.windows = summary.lowest, summary.tail, summary.windows
        elif self.blind:
            raise ProtocolError(f"path {self.number} ended with neither signals nor a summary")
        elif self.monitor is not None:
            self.lowest, self.tail = self.monitor.lowest, self.monitor.tail
        else:
            both = np.array(self.signals or [], dtype=np.float64).reshape(-1, 2)
            self.windows = scan(both[:, 0], both[:, 1], window)
            self.lowest, self.tail = self.windows.lowest, self.windows.tail

    def seen(self) -> Windows:
        """A warm-up path's windows, for the calibration."""
        if self.windows is None:
            raise ProtocolError(f"the summary of warm-up path {self.number} came without its windows")
        return self.windows

    def ballot(self, gate: Gate) -> Ballot | None:
        """Its vote, where it has one."""
        if self.answer is None or self.fate is not Fate.KEPT or (self.warmup and self.lowest < gate.floor):
            return None
        return Ballot(self.number, self.answer, self.lowest, self.tail)


def token_bill(paths: Iterable[PathState]) -> Spent:
    """Every token of every path, each in its bucket."""
    spent = dict.fromkeys(BUCKETS, 0)
    for path in paths:
        fate = path.fate or Fate.SPARED
        spent["init" if path.warmup and fate is Fate.KEPT else fate] += path.tokens
        spent["overrun"] += path.overrun
    return Spent(**spent)  # type: ignore[arg-type]  # all are ints


def path_counts(paths: Sequence[PathState]) -> dict[str, Any]:
    """What an outcome says of its paths."""
    pruned = [path.tier for path in paths if path.fate is Fate.PRUNED]
    return {
        "tokens": token_bill(paths),
        "started": len(paths),
        "pruned": len(pruned),
        "tiers": {tier: pruned.count(tier) for tier in Tier},
        "counted": sum(path.counted for path in paths),
        "failed": sum(path.fate is Fate.FAILED for path in paths),
        "abstained": sum(path.counted and path.fate is Fate.KEPT and path.answer is None for path in paths),
    }


def outcome_notes(strategy: Strategy, paths: Sequence[PathState], window: int, count: str) -> tuple[str, ...]:
    """What a reader of the outcome should know."""
    said = []
    longest = max((path.tokens for path in paths), default=0)
    if strategy.prunes and longest < window:
        said.append(
            f"no path was watched: longest {longest} tokens, window {window}; try --window {suggested_window(longest)}"
        )
    if count == "finish":
        said.append("votes were counted as paths finished, which favours short paths")
    return tuple(said)
