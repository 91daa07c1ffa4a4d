"""Records of watched paths, on the host: written behind the device, a step at a time, and read when a path has ended.

The engine's step never waits: it queues a copy and an event, and a thread of its own waits for the event. Of every path
the last two states are kept, since an engine that plans ahead makes a token more after a path's end.
"""

from __future__ import annotations

import queue
import threading
import time
from collections import OrderedDict
from typing import Any, Final, NamedTuple

import numpy as np

from sureenough.core.trend import Floats
from sureenough.engines.vllm.push import CONF, LOW, PRUNED, Ints

KEPT: Final = 4096
"""Records of paths whose slot has another path now, at most; the oldest are forgotten first."""
BEHIND: Final = 48
"""Steps that may wait for the device; the engine waits for the board only beyond."""


class Record(NamedTuple):
    """A path as the monitor saw it, after so many tokens."""

    tokens: int
    lowest: float
    tail: float
    tier: int
    signals: Floats | None  # peak and conf of every token, where they were asked for


class Lost(NamedTuple):
    """Why there is no record."""

    why: str


class _Left(NamedTuple):
    """What is kept of a path."""

    tokens: int
    states: Floats  # lowest, tail and tier after an even and an odd number of tokens
    trace: Floats | None

    def record(self, asked: int | None) -> Record | Lost | None:
        """After so many tokens; None where they have not come yet."""
        tokens = self.tokens if asked is None else asked
        if tokens > self.tokens:
            return None
        if self.tokens - tokens > 1:
            return Lost(f"the path has {self.tokens} tokens, and only its last two states are kept")
        lowest, tail, tier = self.states[tokens & 1] if tokens else (0.0, 0.0, 0.0)
        signals = None if self.trace is None else self.trace[:tokens].copy()
        return Record(tokens, float(lowest), float(tail), int(tier), signals)


class Board:
    """Told in the engine's thread, read from any other."""

    def __init__(self, slots: int, *, beside: bool) -> None:
        self._tokens = np.zeros(slots, dtype=np.int64)
        self._states = np.zeros((slots, 2, 3))
        self._traces: dict[int, Floats] = {}
        self._keys: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._left: OrderedDict[str, _Left | Lost] = OrderedDict()
        self._news = threading.Condition()
        self._queue: queue.Queue[tuple[Any, ...]] | None = None
        if beside:
            self._queue = queue.Queue(maxsize=BEHIND)
            threading.Thread(target=self._work, name="sureenough-board", daemon=True).start()

    def admit(self, slot: int, key: str, trace: bool) -> None:
        """A path begins in this slot, whose last one has left."""
        self._do((self._admit, slot, key, trace))

    def lose(self, key: str, why: str) -> None:
        """A path can no longer be watched."""
        self._do((self._lose, key, why))

    def post(self, slot: Ints, before: Ints, found: Any, done: Any = None) -> None:
        """One step's rows: `found` may be read once `done` has happened."""
        self._do((self._post, slot, before, found, done))

    def read(self, key: str, tokens: int | None = None, patience: float = 5.0) -> Record | Lost:
        """A path's record after so many tokens, waited for where it is still on its way; its latest by default."""
        end = time.monotonic() + patience
        with self._news:
            while True:
                path = self._path(key)
                found = path if isinstance(path, Lost) else None if path is None else path.record(tokens)
                if found is not None:
                    return found
                if not self._news.wait(max(0.0, end - time.monotonic())):
                    return Lost("no path of that name was watched" if path is None else "its last tokens did not come")

    # -- in the board's own thread, where there is one

    def _do(self, task: tuple[Any, ...]) -> None:
        if self._queue is None:
            task[0](*task[1:])
        else:
            self._queue.put(task)

    def _work(self) -> None:
        assert self._queue is not None
        while True:
            do, *told = self._queue.get()
            do(*told)

    def _path(self, key: str) -> _Left | Lost | None:
        slot = self._slots.get(key)
        if slot is None:
            return self._left.get(key)
        return _Left(int(self._tokens[slot]), self._states[slot], self._traces.get(slot))

    def _admit(self, slot: int, key: str, trace: bool) -> None:
        with self._news:
            self._leave(slot)
            self._slots[key], self._keys[slot] = slot, key
            self._tokens[slot] = 0
            if trace:
                self._traces[slot] = np.empty((256, 2))

    def _leave(self, slot: int) -> None:
        key = self._keys.pop(slot, None)
        if key is not None and self._slots.pop(key, None) is not None:
            self._keep(key, _Left(int(self._tokens[slot]), self._states[slot].copy(), self._traces.pop(slot, None)))

    def _keep(self, key: str, path: _Left | Lost) -> None:
        self._left[key] = path
        while len(self._left) > KEPT:
            self._left.popitem(last=False)

    def _lose(self, key: str, why: str) -> None:
        with self._news:
            slot = self._slots.pop(key, None)
            if slot is not None:
                self._keys.pop(slot, None)
                self._traces.pop(slot, None)
            self._keep(key, Lost(why))
            self._news.notify_all()

    def _post(self, slot: Ints, before: Ints, found: Any, done: Any) -> None:
        if done is not None:
            done.synchronize()
        rows: Floats = np.asarray(found)
        with self._news:
            self._tokens[slot] = before + 1
            self._states[slot, (before + 1) & 1] = rows[:, LOW : PRUNED + 1]
            if self._traces:
                for i in [i for i, one in enumerate(slot.tolist()) if one in self._traces]:
                    self._trace(int(slot[i]), int(before[i]), rows[i, : CONF + 1])
            self._news.notify_all()

    def _trace(self, slot: int, before: int, signals: Floats) -> None:
        trace = self._traces[slot]
        if before >= len(trace):
            trace = self._traces[slot] = np.concatenate((trace, np.empty_like(trace)))
        trace[before] = signals
