"""Records of watched paths, on the host: a step only leaves a note, and notes are entered when somebody reads.

A note is a copy that may still be on its way from the device, and the event of its arrival; only readers wait for it.
Of every path the last two states are kept, since an engine that plans ahead makes a token more after a path's end.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence.batched import CONF, LOW, PRUNED, Ints
from sureenough.core.confidence.instability import Floats

KEPT: Final = 4096
"""Records of paths whose slot has another path now, at most; the oldest are forgotten first."""
BEHIND: Final = 64
"""Notes that may lie about; beyond half of that the engine enters those that have come, and waits only near the end."""


UNKNOWN: Final = "no path of that name was watched"


class PathRecord(NamedTuple):
    """A path as the monitor saw it, after so many tokens."""

    tokens: int
    lowest: float
    tail: float
    tier: int
    signals: Floats | None  # peak and conf of every token, where they were asked for


class MissingRecord(NamedTuple):
    """Why there is no record."""

    why: str


class _RemovedPath(NamedTuple):
    """What is kept of a path."""

    tokens: int
    states: Floats  # lowest, tail and tier after an even and an odd number of tokens
    trace: Floats | None

    def record(self, asked: int | None) -> PathRecord | MissingRecord | None:
        """After so many tokens; None where they have not come yet."""
        tokens = self.tokens if asked is None else asked
        if tokens > self.tokens:
            return None
        if self.tokens - tokens > 1:
            return MissingRecord(f"the path has {self.tokens} tokens, and only its last two states are kept")
        lowest, tail, tier = self.states[tokens & 1] if tokens else (0.0, 0.0, 0.0)
        signals = None if self.trace is None else self.trace[:tokens].copy()
        return PathRecord(tokens, float(lowest), float(tail), int(tier), signals)


NOBODY: Final[Ints] = np.empty(0, dtype=np.int64)


class _PendingCopy(NamedTuple):
    """One step, or a change of who is where, not entered yet."""

    slot: Ints = NOBODY  # the same object for as long as nobody joins, leaves or moves
    before: NDArray[np.int32] = NOBODY.astype(np.int32)
    found: Any = None
    done: Any = None  # an event, or None where nothing is on its way
    change: Callable[[], None] | None = None


def _overwrites(later: _PendingCopy, note: _PendingCopy) -> bool:
    """Whether the states of a step are overwritten two notes later: the same rows, two tokens on."""
    return later.slot is note.slot and note.change is None and bool((later.before - note.before == 2).all())


class PathRecords:
    """Told in the engine's thread, read from any other."""

    def __init__(self, slots: int) -> None:
        self._tokens = np.zeros(slots, dtype=np.int64)
        self._states = np.zeros((slots, 2, 3))
        self._traces: dict[int, Floats] = {}
        self._keys: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._left: OrderedDict[str, _RemovedPath | MissingRecord] = OrderedDict()
        self._notes: deque[_PendingCopy] = deque()
        self._lock = threading.Lock()

    # -- told

    def admit(self, slot: int, key: str, trace: bool) -> None:
        """A path begins in this slot, whose last one has left."""
        self._notes.append(_PendingCopy(change=partial(self._admit, slot, key, trace)))

    def lose(self, key: str, why: str) -> None:
        """A path can no longer be watched."""
        self._notes.append(_PendingCopy(change=partial(self._lose, key, why)))

    def post(self, slot: Ints, before: NDArray[np.int32], found: Any, done: Any = None) -> None:
        """One step's rows: `found` may be read once `done` has happened."""
        self._notes.append(_PendingCopy(slot, before, found, done))
        full = len(self._notes) >= BEHIND - 2
        if len(self._notes) > BEHIND // 2 and self._lock.acquire(blocking=full):
            try:
                self._enter_all(wait=full)
            finally:
                self._lock.release()

    # -- read

    def read(self, key: str, tokens: int | None = None, patience: float = 5.0) -> PathRecord | MissingRecord:
        """A path's record after so many tokens, waited for where it is still on its way; its latest by default."""
        end = time.monotonic() + patience
        while True:
            with self._lock:
                self._enter_all()
                path = self._path(key)
                found = path if isinstance(path, MissingRecord) else None if path is None else path.record(tokens)
            if found is not None:
                return found
            if time.monotonic() > end:
                return MissingRecord(UNKNOWN if path is None else "its last tokens did not come")
            time.sleep(0.002)

    def _path(self, key: str) -> _RemovedPath | MissingRecord | None:
        slot = self._slots.get(key)
        if slot is None:
            return self._left.get(key)
        return _RemovedPath(int(self._tokens[slot]), self._states[slot].copy(), self._traces.get(slot))

    # -- with the lock held

    def _enter_all(self, *, wait: bool = True) -> None:
        notes = self._notes
        while notes and (wait or notes[0].done is None or notes[0].done.query()):
            self._enter(notes[0], states=not (len(notes) > 2 and _overwrites(notes[2], notes[0])))
            notes.popleft()

    def _enter(self, note: _PendingCopy, *, states: bool) -> None:
        if note.change is not None:
            note.change()
            return
        if not states and not self._traces:
            return
        if note.done is not None:
            note.done.synchronize()
        rows: Floats = np.asarray(note.found)
        before = note.before.astype(np.int64)
        if states:
            self._tokens[note.slot] = before + 1
            self._states[note.slot, (before + 1) & 1] = rows[:, LOW : PRUNED + 1]
        if self._traces:
            for i, slot in enumerate(note.slot.tolist()):
                if slot in self._traces:
                    self._trace(slot, int(before[i]), rows[i, : CONF + 1])

    def _trace(self, slot: int, before: int, signals: Floats) -> None:
        trace = self._traces[slot]
        if before >= len(trace):
            trace = self._traces[slot] = np.concatenate((trace, np.empty_like(trace)))
        trace[before] = signals

    def _admit(self, slot: int, key: str, trace: bool) -> None:
        self._leave(slot)
        self._left.pop(key, None)
        self._slots[key], self._keys[slot] = slot, key
        self._tokens[slot] = 0
        if trace:
            self._traces[slot] = np.empty((256, 2))

    def _lose(self, key: str, why: str) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._keys.pop(slot, None)
            self._traces.pop(slot, None)
        self._keep(key, MissingRecord(why))

    def _leave(self, slot: int) -> None:
        key = self._keys.pop(slot, None)
        trace = self._traces.pop(slot, None)
        if key is not None and self._slots.get(key) == slot:  # a request may have come back in another slot
            del self._slots[key]
            self._keep(key, _RemovedPath(int(self._tokens[slot]), self._states[slot].copy(), trace))

    def _keep(self, key: str, path: _RemovedPath | MissingRecord) -> None:
        self._left[key] = path
        while len(self._left) > KEPT:
            self._left.popitem(last=False)
