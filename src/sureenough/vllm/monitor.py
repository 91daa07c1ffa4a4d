"""Which row of the batch is which watched request, and one step for all of them; independent of vLLM.

Rows join, leave and move. A request keeps its slot, even while it is preempted, until another request needs the slot.
What does not change from step to step stays on the device: a step gives the device one integer per watched row to read,
and never waits. On a GPU a step is three kernels, on a CPU torch's own operations and numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch

from sureenough.core.confidence import LOGPROB_FLOOR, TIER_NONE
from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import K, WatchRequest
from sureenough.vllm.kernels.batched import (
    END_LOGIT,
    RESULT_COLUMNS,
    RESULT_TIER,
    BatchState,
    Ints,
    empty_arrays,
    push_batch,
)
from sureenough.vllm.records import MAX_PENDING, PathRecords

Signals = tuple[torch.Tensor, torch.Tensor]
"""Peak and conf of each row, in float64: probability of the likeliest token, and minus the mean of the K largest
log-probabilities."""
State = BatchState[torch.Tensor]


def row_signals(logits: torch.Tensor, rows: torch.Tensor, workspace: Any = None) -> Signals:
    """Signals of these rows of logits."""
    if logits.is_cuda:
        from sureenough.vllm.kernels.top_k import top_k_signals

        return top_k_signals(logits, rows, K, workspace=workspace)
    return torch_signals(logits[rows.long()])


def torch_signals(logits: torch.Tensor) -> Signals:
    """The same with torch's operations; log-probabilities are float32, as in vLLM."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top = torch.topk(logprobs, K, dim=-1).values.double()
    top = top.nan_to_num(nan=LOGPROB_FLOOR).clamp(LOGPROB_FLOOR, 0.0)
    return top[:, 0].exp(), -top.sum(dim=1) / K


def empty_state(slots: int, longest_window: int, device: torch.device) -> State:
    """Memory for this many requests."""
    return BatchState(*(torch.from_numpy(part).to(device) for part in empty_arrays(slots, longest_window)))


def start_path(state: State, slot: int, window: int, gate: Gate, end_token: int) -> None:
    """Give a slot to another request."""
    thresholds = torch.tensor([gate.trust, gate.drop, gate.risk, gate.eta], dtype=torch.float64)
    # A copy from pinned memory does not make the host wait.
    source = thresholds.pin_memory() if state.gates.is_cuda else thresholds
    state.gates[slot].copy_(source, non_blocking=True)
    state.windows[slot] = window
    state.end_tokens[slot] = end_token


def step_rows(
    state: State,
    logits: torch.Tensor,
    places: torch.Tensor,
    tokens_before: torch.Tensor,
    peak: torch.Tensor,
    conf: torch.Tensor,
    results: torch.Tensor | None = None,
) -> torch.Tensor:
    """Take one token of every watched row, give rows whose gate closes their end token, and return result columns.

    `places` holds rows of logits and their slots. A GPU reads `tokens_before` and writes `results` in place, on the
    device or in pinned memory.
    """
    if logits.is_cuda:
        from sureenough.vllm.kernels.monitor_step import launch_step

        return launch_step(state, logits, places, tokens_before, peak, conf, results)
    arrays = BatchState(*(part.numpy() for part in state))
    rows, slots = places.numpy().astype(np.int64)
    values = push_batch(arrays, slots, tokens_before.numpy().astype(np.int64), peak.numpy(), conf.numpy())
    pruned = values[:, RESULT_TIER] != TIER_NONE
    if pruned.any():
        end_tokens = arrays.end_tokens[slots[pruned]].astype(np.int64)
        end_logit = min(END_LOGIT, torch.finfo(logits.dtype).max)
        logits[torch.from_numpy(rows[pruned]), torch.from_numpy(end_tokens)] = end_logit
    return torch.from_numpy(values)


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
        self.state = empty_state(slots, longest_window, device)
        self.device, self.records = device, records
        self.rows: dict[int, WatchedRequest] = {}
        # Free slots, the longest free first, with the key of the path that left each.
        self._free: dict[int, str | None] = dict.fromkeys(range(slots))
        self._batch_rows: BatchRows | None = None
        self._workspace: Any = None
        self._buffers = None if device.type == "cpu" else _PinnedBuffers(MAX_PENDING, slots)

    def add(self, row: int, request: WatchRequest, end_token: int | None, output_tokens: Sequence[int]) -> None:
        """Watch the request in this row; one that was preempted continues in its slot."""
        kept = [slot for slot, key in self._free.items() if key == request.key]
        if any(other.key == request.key for other in self.rows.values()):
            self._lose(request, "two paths have the same key")
        elif end_token is None:
            self._lose(request, "the model has no end token")
        elif output_tokens and not kept:
            self._lose(request, "it was preempted and its slot given away")
        else:
            slot = kept[0] if output_tokens else self._start(request, end_token, kept)
            del self._free[slot]
            self.rows[row] = WatchedRequest(slot, request.key, output_tokens)
            self._batch_rows = None

    def _lose(self, request: WatchRequest, reason: str) -> None:
        if self.records is not None:
            self.records.lose_path(request.key, reason)

    def _start(self, request: WatchRequest, end_token: int, kept: Sequence[int]) -> int:
        for slot in kept:
            self._free[slot] = None  # the path starts again: its old slot must not be taken for its own
        slot = next(iter(self._free))
        start_path(self.state, slot, request.window, request.gate, end_token)
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
        if not swap:
            self.remove(target)
        moved, other = self.rows.pop(source, None), self.rows.pop(target, None)
        if moved is not None:
            self.rows[target], self._batch_rows = moved, None
        if other is not None:
            self.rows[source], self._batch_rows = other, None

    def step(self, logits: torch.Tensor) -> torch.Tensor:
        """Take one token of every watched row, and force the end token of rows whose gate closes."""
        if not self.rows:
            return logits
        batch = self._batch_rows = self._batch_rows or self._list_rows()
        counts = np.fromiter(map(len, batch.output_tokens), np.int32, len(batch.output_tokens))
        tokens_before, results = torch.from_numpy(counts), None
        if self._buffers is not None:
            tokens_before, results = self._buffers.next_pair(tokens_before)
            if self._workspace is None or self._workspace.vocab != logits.shape[1]:
                from sureenough.vllm.kernels.top_k import Workspace

                self._workspace = Workspace(len(self.state.windows), logits.shape[1], logits.device)
        signals = row_signals(logits, batch.places[0], self._workspace)
        values = step_rows(self.state, logits, batch.places, tokens_before, *signals, results)
        copied = None if self._buffers is None else self._buffers.record_event()
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
