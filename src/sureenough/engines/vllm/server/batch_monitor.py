"""Which row of the batch is which watched request, and one step for all of them; knows nothing of vLLM.

Rows join, leave and move; a request keeps its slot, also while it is preempted, for as long as no other needs it. What
does not change from step to step stays on the device: a step leaves one integer a watched row for the device to read,
and waits for nothing.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from sureenough.core.confidence.batched import Ints
from sureenough.engines.vllm.kernels.signals import scratch, signals
from sureenough.engines.vllm.kernels.state import State, step
from sureenough.engines.vllm.protocol import K, WatchRequest
from sureenough.engines.vllm.server.records import BEHIND, PathRecords


class WatchedRequest(NamedTuple):
    """A watched request in the batch."""

    slot: int
    key: str
    made: Sequence[int]  # its output tokens, as the engine keeps them


class BatchRows(NamedTuple):
    """Where the watched requests are, for as long as nobody joins, leaves or moves."""

    slot: Ints
    made: list[Sequence[int]]
    table: torch.Tensor  # on the device: row, slot


class BatchMonitor:
    """The watched rows of one engine."""

    def __init__(self, slots: int, longest_window: int, device: torch.device, board: PathRecords | None = None) -> None:
        self.state = State.empty(slots, longest_window, device)
        self.device, self.board = device, board
        self.rows: dict[int, WatchedRequest] = {}
        self._free: OrderedDict[int, str | None] = OrderedDict.fromkeys(range(slots))  # and who left it
        self._places: BatchRows | None = None
        self._slots, self._like, self._room = slots, (0, torch.float32), None
        if device.type != "cpu":
            self._ring = _Ring(BEHIND, slots)

    def add(self, row: int, asked: WatchRequest, end: int | None, made: Sequence[int]) -> None:
        """Watch the request in this row; one that was preempted goes on where it was."""
        slot = next((slot for slot, key in self._free.items() if key == asked.key), None) if made else None
        if slot is None and (made or end is None):
            if self.board is not None:
                why = "the model has no end token" if end is None else "it was preempted and its slot given away"
                self.board.lose(asked.key, why)
            return
        if slot is None:
            for old in [free for free, key in self._free.items() if key == asked.key]:
                self._free[old] = None  # it begins anew, in whatever slot
            slot = next(iter(self._free))
            self.state.admit(slot, asked.window, asked.gate, end or 0)
            if self.board is not None:
                self.board.admit(slot, asked.key, asked.trace)
        del self._free[slot]
        self.rows[row] = WatchedRequest(slot, asked.key, made)
        self._places = None

    def remove(self, row: int) -> None:
        """The row's request, if it was watched, has ended or was preempted."""
        held = self.rows.pop(row, None)
        if held is not None:
            self._free[held.slot] = held.key
            self._places = None

    def move(self, one: int, other: int, *, swap: bool) -> None:
        """A request moves to another row, or two change places."""
        mover, there = self.rows.pop(one, None), self.rows.pop(other, None)
        if mover is not None:
            self.rows[other] = mover
        if there is not None and swap:
            self.rows[one] = there
        elif there is not None:
            self._free[there.slot] = there.key
        if mover is not None or there is not None:
            self._places = None

    def step(self, logits: torch.Tensor) -> torch.Tensor:
        """Take one token of every watched row, and put the end token into rows whose gate closed."""
        if not self.rows:
            return logits
        places = self._places = self._places or self._look()
        before = np.fromiter(map(len, places.made), np.int32, len(places.made))
        sent, back = torch.from_numpy(before), None
        if self.device.type != "cpu":
            sent, back = self._ring.send(sent)
        if self._like != (logits.shape[1], logits.dtype):
            self._like, self._room = (logits.shape[1], logits.dtype), scratch(self._slots, logits)
        peak, conf = signals(logits, places.table[0], K, self._room)
        found = step(self.state, logits, places.table, sent, peak, conf, back)
        done = None if back is None else self._ring.mark()
        if self.board is not None:
            self.board.post(places.slot, before, found.numpy(), done)
        return logits

    def warm_up(self, vocabulary: int) -> None:
        """Compile what there is to compile before the first request has to wait for it."""
        if self.device.type != "cpu":
            board, self.board = self.board, None
            self.add(0, WatchRequest("warming-up", 1), 0, [])
            self.step(torch.zeros((1, vocabulary), device=self.device))
            self.remove(0)
            self.board = board

    def _look(self) -> BatchRows:
        slot = np.array([held.slot for held in self.rows.values()], dtype=np.int64)
        table = torch.from_numpy(np.stack((np.fromiter(self.rows, np.int64), slot)).astype(np.int32))
        if self.device.type != "cpu":
            table = table.pin_memory().to(self.device, non_blocking=True)
        return BatchRows(slot, [held.made for held in self.rows.values()], table)


class _Ring:
    """Pinned memory that the device reads and writes itself, a pair of buffers a step, used in turn.

    A pair is waited for only where the device still needs it.
    """

    def __init__(self, many: int, slots: int) -> None:
        self._sent = [torch.empty(slots, dtype=torch.int32).pin_memory() for _ in range(many)]
        self._back = [torch.empty((slots, 5), dtype=torch.float64).pin_memory() for _ in range(many)]
        self._events = [torch.cuda.Event() for _ in range(many)]
        self._at = -1

    def send(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """These values for the device to read, and where it may write as many rows."""
        self._at = (self._at + 1) % len(self._events)
        self._events[self._at].synchronize()
        sent = self._sent[self._at][: len(values)]
        sent.copy_(values)
        return sent, self._back[self._at][: len(values)]

    def mark(self) -> torch.cuda.Event:
        """What was written is there, and the pair is free again, once this event has happened."""
        self._events[self._at].record()
        return self._events[self._at]
