"""Which row of the batch is which watched request, and one step for all of them; independent of vLLM.

Rows join, leave and move. A request keeps its slot, even while it is preempted, until another request needs the slot.
What does not change from step to step stays on the device: a step gives the device one integer per watched row to read,
and never waits.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch

from sureenough.engines.watch.protocol import K, WatchRequest
from sureenough.vllm.batched import RESULT_COLUMNS, Ints
from sureenough.vllm.kernels.signals import allocate_workspace, row_signals
from sureenough.vllm.kernels.state import MonitorState, step_rows
from sureenough.vllm.records import MAX_PENDING, PathRecords


class WatchedRequest(NamedTuple):
    """A watched request in the batch."""

    slot: int
    key: str
    output_tokens: Sequence[int]  # the engine's own list, which grows


class BatchRows(NamedTuple):
    """The watched rows, valid until one joins, leaves or moves."""

    slots: Ints
    output_tokens: list[Sequence[int]]
    places: torch.Tensor  # on the device: row, slot


class BatchMonitor:
    """The watched rows of one engine."""

    def __init__(
        self, slots: int, longest_window: int, device: torch.device, records: PathRecords | None = None
    ) -> None:
        self.state = MonitorState.empty(slots, longest_window, device)
        self.device, self.records = device, records
        self.rows: dict[int, WatchedRequest] = {}
        # Free slots, the longest free first, with the key of the path that left each.
        self._free: OrderedDict[int, str | None] = OrderedDict.fromkeys(range(slots))
        self._batch_rows: BatchRows | None = None
        self._slots, self._logits_type, self._workspace = slots, (0, torch.float32), None
        if device.type != "cpu":
            self._buffers = _PinnedBuffers(MAX_PENDING, slots)

    def add(self, row: int, request: WatchRequest, end_token: int | None, output_tokens: Sequence[int]) -> None:
        """Watch the request in this row; one that was preempted continues in its slot."""
        if any(other.key == request.key for other in self.rows.values()):
            if self.records is not None:
                self.records.lose_path(request.key, "two paths have the same key")
            return
        own = next((slot for slot, key in self._free.items() if key == request.key), None) if output_tokens else None
        if own is None and (output_tokens or end_token is None):
            if self.records is not None:
                preempted = "it was preempted and its slot given away"
                self.records.lose_path(request.key, "the model has no end token" if end_token is None else preempted)
            return
        slot = self._new_slot(request, end_token or 0) if own is None else own
        del self._free[slot]
        self.rows[row] = WatchedRequest(slot, request.key, output_tokens)
        self._batch_rows = None

    def _new_slot(self, request: WatchRequest, end_token: int) -> int:
        for slot in [free for free, key in self._free.items() if key == request.key]:
            self._free[slot] = None  # the path starts again: its old slot must not be taken for its own
        slot = next(iter(self._free))
        self.state.start_path(slot, request.window, request.gate, end_token)
        if self.records is not None:
            self.records.start_path(slot, request.key, request.trace)
        return slot

    def remove(self, row: int) -> None:
        """The row's request, if it was watched, has ended or was preempted."""
        request = self.rows.pop(row, None)
        if request is not None:
            self._free[request.slot] = request.key
            self._batch_rows = None

    def move(self, source: int, target: int, *, swap: bool) -> None:
        """A request moves to another row, or two exchange their rows."""
        moved, displaced = self.rows.pop(source, None), self.rows.pop(target, None)
        if moved is not None:
            self.rows[target] = moved
        if displaced is not None and swap:
            self.rows[source] = displaced
        elif displaced is not None:
            self._free[displaced.slot] = displaced.key
        if moved is not None or displaced is not None:
            self._batch_rows = None

    def step(self, logits: torch.Tensor) -> torch.Tensor:
        """Take one token of every watched row, and force the end token of rows whose gate closes."""
        if not self.rows:
            return logits
        batch = self._batch_rows = self._batch_rows or self._list_rows()
        counts = np.fromiter(map(len, batch.output_tokens), np.int32, len(batch.output_tokens))
        tokens_before, results = torch.from_numpy(counts), None
        if self.device.type != "cpu":
            tokens_before, results = self._buffers.next_pair(tokens_before)
        if self._logits_type != (logits.shape[1], logits.dtype):
            self._logits_type = (logits.shape[1], logits.dtype)
            self._workspace = allocate_workspace(self._slots, logits)
        signals = row_signals(logits, batch.places[0], K, self._workspace)
        values = step_rows(self.state, logits, batch.places, tokens_before, *signals, results)
        copied = None if results is None else self._buffers.record_event()
        if self.records is not None:
            self.records.add_step(batch.slots, counts, values.numpy(), copied)
        return logits

    def _list_rows(self) -> BatchRows:
        slots = np.array([request.slot for request in self.rows.values()], dtype=np.int64)
        places = torch.from_numpy(np.stack((np.fromiter(self.rows, np.int64), slots)).astype(np.int32))
        if self.device.type != "cpu":
            places = places.pin_memory().to(self.device, non_blocking=True)
        return BatchRows(slots, [request.output_tokens for request in self.rows.values()], places)


class _PinnedBuffers:
    """Pinned memory that the device reads and writes itself: pairs of buffers, one per step, used in turn.

    The host waits for a pair only if the device still needs it.
    """

    def __init__(self, pairs: int, slots: int) -> None:
        self._inputs = [torch.empty(slots, dtype=torch.int32).pin_memory() for _ in range(pairs)]
        shape = (slots, RESULT_COLUMNS)
        self._outputs = [torch.empty(shape, dtype=torch.float64).pin_memory() for _ in range(pairs)]
        self._events = [torch.cuda.Event() for _ in range(pairs)]
        self._current = -1

    def next_pair(self, values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """These values for the device to read, and memory for as many rows of results."""
        self._current = (self._current + 1) % len(self._events)
        self._events[self._current].synchronize()
        inputs = self._inputs[self._current][: len(values)]
        inputs.copy_(values)
        return inputs, self._outputs[self._current][: len(values)]

    def record_event(self) -> torch.cuda.Event:
        """The event after which the results are written and the pair is free again."""
        self._events[self._current].record()
        return self._events[self._current]
