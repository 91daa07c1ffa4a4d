"""The state of every watched request, as tensors on one device; a step is numpy on a CPU and one kernel on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from sureenough.core.confidence import TIER_NONE
from sureenough.core.pruning import Gate
from sureenough.engines.watch.protocol import refuse_trend_window
from sureenough.vllm.batched import RESULT_TIER, BatchArrays, batch_shapes, push_batch

END_LOGIT: Final = 1e20
"""The logit of an end token that must be sampled: all other probabilities become exactly 0, at any temperature."""


def end_logit(dtype: torch.dtype) -> float:
    """`END_LOGIT`, or the largest number of types that cannot hold it."""
    return min(END_LOGIT, float(torch.finfo(dtype).max))


@dataclass(frozen=True)
class MonitorState:
    """`BatchArrays` on a device, and the token that ends each request."""

    states: torch.Tensor
    blocks: torch.Tensor
    suffixes: torch.Tensor
    gates: torch.Tensor
    windows: torch.Tensor
    end_tokens: torch.Tensor

    @classmethod
    def empty(cls, slots: int, longest_window: int, device: torch.device) -> MonitorState:
        """Memory for this many requests."""
        shapes = batch_shapes(slots, longest_window)
        integers = torch.ones((2, slots), dtype=torch.int32, device=device)
        return cls(*(torch.zeros(shape, dtype=torch.float64, device=device) for shape in shapes), *integers)

    @property
    def bytes(self) -> int:
        """Memory in use."""
        parts = (self.states, self.blocks, self.suffixes, self.gates)
        return sum(part.numel() * part.element_size() for part in parts)

    def start_path(self, slot: int, window: int, gate: Gate, end_token: int) -> None:
        """Give a slot to another request; its sums are reset by its first token."""
        refuse_trend_window(gate)
        thresholds = torch.tensor([gate.trust, gate.drop, gate.risk, gate.eta], dtype=torch.float64)
        # A copy from pinned memory does not make the host wait.
        source = thresholds.pin_memory() if self.gates.is_cuda else thresholds
        self.gates[slot].copy_(source, non_blocking=True)
        self.windows[slot] = window
        self.end_tokens[slot] = end_token

    @property
    def arrays(self) -> BatchArrays:
        """The same memory as numpy arrays; on a CPU only."""
        parts = (self.states, self.blocks, self.suffixes, self.gates, self.windows)
        return BatchArrays(*(part.numpy() for part in parts))


def step_rows(
    state: MonitorState,
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
    if logits.device.type == "cpu":
        rows, slots = places.numpy().astype(np.int64)
        counts = tokens_before.numpy().astype(np.int64)
        values = push_batch(state.arrays, slots, counts, peak.numpy(), conf.numpy())
        pruned = values[:, RESULT_TIER] != TIER_NONE
        if pruned.any():
            end_tokens = state.end_tokens.numpy()[slots[pruned]].astype(np.int64)
            logits[torch.from_numpy(rows[pruned]), torch.from_numpy(end_tokens)] = end_logit(logits.dtype)
        return torch.from_numpy(values)
    from sureenough.vllm.kernels.monitor_step import launch_step

    return launch_step(state, logits, places, tokens_before, peak, conf, results)
