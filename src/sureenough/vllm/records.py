"""Records of watched paths, in host memory, in the process that samples their tokens.

A step only appends an update; readers apply the updates. An update may be a copy that is still on its way from the
device, with the event of its arrival; readers leave those to later. The last two states of every path are kept, since
an engine that schedules ahead samples one more token after a path's end.

A path's key is its client's secret: whoever sends it gets the record. All of it runs in one thread, that of the engine
or of its worker.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence import Floats
from sureenough.engines.watch.protocol import MissingRecord, PathRecord, Progress
from sureenough.vllm.kernels.steps import RESULT_COLUMNS, RESULT_CONF, RESULT_LOWEST

Ints = NDArray[np.int64]

BLOCK: Final = 512
"""Tokens of a path in a block."""


class Traces:
    """Peak and conf of all tokens of the paths in some slots."""

    def __init__(self, slots: int) -> None:
        self._traced = np.zeros(slots, dtype=bool)  # by slot
        self._blocks: list[Floats] = []  # of so many tokens of every slot; only what is written takes memory

    def __bool__(self) -> bool:
        """Whether any path is traced."""
        return bool(self._traced.any())

    def start(self, slot: int) -> None:
        """Trace the path that starts in this slot."""
        self._traced[slot] = True

    def add(self, slots: Ints, tokens_before: Ints, signals: Floats) -> None:
        """One token of each of these paths, by their tokens before it; those that are not traced are left out."""
        traced = self._traced[slots]
        slots, signals = slots[traced], signals[traced]
        numbers, places = np.divmod(tokens_before[traced], BLOCK)
        for number in set(numbers.tolist()):
            while number >= len(self._blocks):
                self._blocks.append(np.empty((len(self._traced), BLOCK, 2)))
            mine = numbers == number
            self._blocks[number][slots[mine], places[mine]] = signals[mine]

    def read(self, slot: int, tokens: int) -> Floats | None:
        """A copy of the signals of a path's first tokens; None if it is not traced."""
        if not self._traced[slot]:
            return None
        parts = [block[slot] for block in self._blocks[: -(-tokens // BLOCK)]]
        return np.concatenate([np.empty((0, 2)), *parts])[:tokens]

    def stop(self, slot: int) -> None:
        """Forget the path in this slot; without any, the memory is given back."""
        self._traced[slot] = False
        if not self:
            self._blocks = []


FINISHED_BYTES: Final = 512
"""Memory of a finished path's record without its signals, roughly."""
MAX_FINISHED_BYTES: Final = 256 << 20
"""Of all finished paths whose records are kept."""
MAX_PENDING: Final = 64
"""Updates not yet applied. Beyond half of it the engine applies those that have arrived; near the end it waits."""


class _StoredPath(NamedTuple):
    """What is kept of a path."""

    tokens: int
    states: Floats  # lowest, tail, tier, sums of all signals after an even and an odd number of tokens
    trace: Floats | None  # peak and conf of every token

    def record(self, tokens: int | None) -> PathRecord | MissingRecord | None:
        """The record after so many tokens; None if they have not arrived yet."""
        tokens = self.tokens if tokens is None else tokens
        if tokens > self.tokens:
            return None
        if self.tokens - tokens > 1:
            return MissingRecord(f"the path has {self.tokens} tokens, and only its last two states are kept")
        lowest, tail, tier, *sums = self.states[tokens & 1].tolist() if tokens else (0.0,) * 5
        signals = None if self.trace is None else self.trace[:tokens]
        return PathRecord(tokens, lowest, tail, int(tier), signals, *(total / max(1, tokens) for total in sums))

    def progress(self) -> Progress:
        return Progress(self.tokens, float(self.states[self.tokens & 1, 1]) if self.tokens else 0.0)


class _Step(NamedTuple):
    """The results of one step, not yet applied."""

    slots: Ints
    tokens_before: NDArray[np.int32]
    results: Floats
    copied: Any  # the event of the results' arrival; None if they are here


class PathRecords:
    """The records of one engine."""

    def __init__(self, slots: int) -> None:
        self._tokens = np.zeros(slots, dtype=np.int64)
        self._states = np.zeros((slots, 2, RESULT_COLUMNS - RESULT_LOWEST))
        self._traces = Traces(slots)
        self._keys: dict[int, str] = {}
        self._slots: dict[str, int] = {}
        self._finished: dict[str, _StoredPath | MissingRecord] = {}  # the oldest first
        self._finished_bytes = 0
        self._pending: deque[_Step | Callable[[], None]] = deque()  # steps, and changes of the paths in the slots

    # -- written by the monitor

    def start_path(self, slot: int, key: str, trace: bool) -> None:
        """A path starts in this slot, whose last path has ended."""
        self._pending.append(partial(self._start_path, slot, key, trace))

    def lose_path(self, key: str, reason: str) -> None:
        """A path can no longer be watched."""
        self._pending.append(partial(self._lose_path, key, reason))

    def add_step(self, slots: Ints, tokens_before: NDArray[np.int32], results: Floats, copied: Any = None) -> None:
        """One step's result columns, which may be read once the event `copied` has happened."""
        self._pending.append(_Step(slots, tokens_before, results, copied))
        if len(self._pending) > MAX_PENDING // 2:
            self._apply_pending(wait=len(self._pending) >= MAX_PENDING - 2)

    # -- read

    def read(self, paths: Sequence[tuple[str, int | None]]) -> list[PathRecord | MissingRecord | None]:
        """Records of paths after so many tokens each (None: all); None for one that is not known or not that far."""
        self._apply_pending()
        stored = [self._path(key, trace=True) for key, _ in paths]
        return [
            path.record(tokens) if isinstance(path, _StoredPath) else path
            for path, (_, tokens) in zip(stored, paths, strict=True)
        ]

    def read_progress(self, keys: Sequence[str]) -> list[Progress | None]:
        """How far these paths are, by what has arrived; None for a path that is not known or not watched."""
        self._apply_pending()
        paths = [self._path(key) for key in keys]
        return [path.progress() if isinstance(path, _StoredPath) else None for path in paths]

    # -- by key and slot

    def _path(self, key: str, *, trace: bool = False) -> _StoredPath | MissingRecord | None:
        slot = self._slots.get(key)
        return self._finished.get(key) if slot is None else self._stored(slot, trace=trace)

    def _stored(self, slot: int, *, trace: bool) -> _StoredPath:
        tokens = int(self._tokens[slot])
        return _StoredPath(tokens, self._states[slot].copy(), self._traces.read(slot, tokens) if trace else None)

    def _apply_pending(self, *, wait: bool = False) -> None:
        while self._pending:
            update = self._pending[0]
            if not isinstance(update, _Step):
                update()
            elif wait or update.copied is None or update.copied.query():
                self._apply(update)
            else:
                return
            self._pending.popleft()

    def _apply(self, step: _Step) -> None:
        if step.copied is not None:
            step.copied.synchronize()
        tokens_before = step.tokens_before.astype(np.int64)
        self._tokens[step.slots] = tokens_before + 1
        self._states[step.slots, (tokens_before + 1) & 1] = step.results[:, RESULT_LOWEST:]
        if self._traces:
            self._traces.add(step.slots, tokens_before, step.results[:, : RESULT_CONF + 1])

    def _start_path(self, slot: int, key: str, trace: bool) -> None:
        self._finish_path(slot)
        self._drop(key)
        self._slots[key], self._keys[slot] = slot, key
        self._tokens[slot] = 0
        if trace:
            self._traces.start(slot)

    def _lose_path(self, key: str, reason: str) -> None:
        slot = self._slots.pop(key, None)
        if slot is not None:
            self._keys.pop(slot, None)
            self._traces.stop(slot)
        self._keep(key, MissingRecord(reason))

    def _finish_path(self, slot: int) -> None:
        key = self._keys.pop(slot, None)
        if key is not None and self._slots.get(key) == slot:  # a request may have come back in another slot
            del self._slots[key]
            self._keep(key, self._stored(slot, trace=True))
        self._traces.stop(slot)

    def _keep(self, key: str, path: _StoredPath | MissingRecord) -> None:
        self._drop(key)
        self._finished[key] = path
        self._finished_bytes += _size(path)
        # The latest is kept even if it is larger than the limit: it is about to be read.
        while self._finished_bytes > MAX_FINISHED_BYTES and len(self._finished) > 1:
            self._drop(next(iter(self._finished)))

    def _drop(self, key: str) -> None:
        path = self._finished.pop(key, None)
        if path is not None:
            self._finished_bytes -= _size(path)


def _size(path: _StoredPath | MissingRecord) -> int:
    trace = path.trace if isinstance(path, _StoredPath) else None
    return FINISHED_BYTES + (0 if trace is None else trace.nbytes)
