"""The watched requests of a batch, and one step for all of them; independent of vLLM.

On a GPU a step is three kernels. What does not change from step to step stays on the device: a step gives the device
one integer per watched row to read, and never waits. On a CPU every path has core's own monitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from sureenough.core.confidence import LOGPROB_FLOOR, Floats
from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import TIER_NONE, K, WatchRequest
from sureenough.vllm.kernels.steps import END_LOGIT, RESULT_COLUMNS, HostPath
from sureenough.vllm.records import MAX_PENDING, Ints, PathRecords


def torch_signals(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Peak and conf of each row, in float64: probability of the likeliest token, and minus the mean of the K largest
    log-probabilities, which are float32, as in vLLM."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top = torch.topk(logprobs, K, dim=-1).values.double()
    top = top.nan_to_num(nan=LOGPROB_FLOOR).clamp(LOGPROB_FLOOR, 0.0)
    return top[:, 0].exp(), -top.sum(dim=1) / K


class HostPaths:
    """Watched paths on a CPU, by slot."""

    def __init__(self) -> None:
        self._paths: dict[int, HostPath] = {}

    def start(self, slot: int, window: int, gate: Gate, end_token: int) -> None:
        """Give a slot to another request."""
        self._paths[slot] = HostPath(window, gate, end_token)

    def place(self, rows: list[int], slots: Ints) -> Any:
        """What `step` needs to know of the watched rows, until one joins, leaves or moves."""
        return rows, [self._paths[slot] for slot in slots.tolist()]

    def step(self, logits: torch.Tensor, places: Any, tokens_before: NDArray[np.int32]) -> tuple[Floats, Any]:
        """Take one token of every watched row, and give rows whose gate closes their end token.

        Returns the result columns, and the event after which they may be read.
        """
        rows, paths = places
        signals = [part.tolist() for part in torch_signals(logits[rows])]
        results = [path.push(*token) for path, *token in zip(paths, tokens_before.tolist(), *signals, strict=True)]
        end_logit = min(END_LOGIT, torch.finfo(logits.dtype).max)
        for row, path in zip(rows, paths, strict=True):
            if path.tier != TIER_NONE:
                logits[row, path.end_token] = end_logit
        return np.array(results), None


class DevicePaths:
    """Watched paths on a GPU, by slot. It has the methods of `HostPaths`, and its steps do not wait.

    The device itself reads and writes pinned memory of the host: pairs of buffers, one per step, used in turn. The host
    waits for a pair only if the device still needs it.
    """

    def __init__(self, slots: int, longest_window: int, device: torch.device) -> None:
        from sureenough.vllm.kernels.monitor_step import empty_state

        self.state, self._device = empty_state(slots, longest_window, device), device
        self._workspace: Any = None
        results = (slots, RESULT_COLUMNS)
        self._counts = [torch.empty(slots, dtype=torch.int32).pin_memory() for _ in range(MAX_PENDING)]
        self._results = [torch.empty(results, dtype=torch.float64).pin_memory() for _ in range(MAX_PENDING)]
        self._events = [torch.cuda.Event() for _ in range(MAX_PENDING)]
        self._current = -1

    def start(self, slot: int, window: int, gate: Gate, end_token: int) -> None:
        thresholds = torch.tensor([gate.trust, gate.drop, gate.risk, gate.eta], dtype=torch.float64)
        # A copy from pinned memory does not make the host wait.
        self.state.gates[slot].copy_(thresholds.pin_memory(), non_blocking=True)
        self.state.windows[slot] = window
        self.state.end_tokens[slot] = end_token

    def place(self, rows: list[int], slots: Ints) -> Any:
        places = torch.from_numpy(np.stack((np.array(rows), slots)).astype(np.int32))
        return places.pin_memory().to(self._device, non_blocking=True)

    def step(self, logits: torch.Tensor, places: Any, tokens_before: NDArray[np.int32]) -> tuple[Floats, Any]:
        from sureenough.vllm.kernels.monitor_step import launch_step
        from sureenough.vllm.kernels.top_k import Workspace, top_k_signals

        if self._workspace is None or self._workspace.vocab != logits.shape[1]:
            self._workspace = Workspace(len(self.state.windows), logits.shape[1], logits.device)
        self._current = (self._current + 1) % MAX_PENDING
        event, watched = self._events[self._current], len(tokens_before)
        counts, results = self._counts[self._current][:watched], self._results[self._current][:watched]
        event.synchronize()
        counts.copy_(torch.from_numpy(tokens_before))
        signals = top_k_signals(logits, places[0], K, self._workspace)
        launch_step(self.state, logits, places, counts, *signals, results)
        event.record()
        return results.numpy(), event


class BatchMonitor:
    """The watched requests of one engine, by slot.

    A request takes a slot when it joins the batch, and gives it back when it leaves. One that was preempted continues
    in its slot, unless another request needed that meanwhile.
    """

    def __init__(self, slots: int, longest_window: int, device: torch.device, records: PathRecords) -> None:
        self.paths = HostPaths() if device.type == "cpu" else DevicePaths(slots, longest_window, device)
        self.records = records
        self._watched: dict[str, int] = {}  # slots by key
        # Free slots, the longest free first, with the key of the path that left each.
        self._free: dict[int, str | None] = dict.fromkeys(range(slots))
        self._placed: tuple[Ints, Ints, Any] | None = None  # rows and slots of the last step, on the device

    def start(self, request: WatchRequest, end_token: int | None, tokens: int = 0) -> int | None:
        """The slot of a request that joins with so many tokens already sampled; None if it cannot be watched."""
        kept = [slot for slot, key in self._free.items() if key == request.key]
        if request.key in self._watched:
            self.records.lose_path(request.key, "two paths have the same key")
        elif end_token is None:
            self.records.lose_path(request.key, "the model has no end token")
        elif tokens and not kept:
            self.records.lose_path(request.key, "it was preempted and its slot given away")
        else:
            slot = kept[0] if tokens else self._begin(request, end_token, kept)
            del self._free[slot]
            self._watched[request.key] = slot
            return slot
        return None

    def _begin(self, request: WatchRequest, end_token: int, kept: Sequence[int]) -> int:
        for slot in kept:
            self._free[slot] = None  # the path starts again: its old slot must not be taken for its own
        slot = next(iter(self._free))
        self.paths.start(slot, request.window, request.gate, end_token)
        self.records.start_path(slot, request.key, request.trace)
        self._placed = None
        return slot

    def leave(self, slot: int) -> None:
        """The request in this slot has ended or was preempted."""
        key = next(key for key, at in self._watched.items() if at == slot)
        del self._watched[key]
        self._free[slot] = key

    def step(self, logits: torch.Tensor, rows: Ints, slots: Ints, tokens_before: NDArray[np.int32]) -> None:
        """Take one token of each of these rows, and force the end token of rows whose gate closes."""
        placed = self._placed
        if placed is None or not (np.array_equal(placed[0], rows) and np.array_equal(placed[1], slots)):
            placed = self._placed = rows, slots, self.paths.place(rows.tolist(), slots)
        results, copied = self.paths.step(logits, placed[2], tokens_before)
        self.records.add_step(slots, tokens_before, results, copied)
