"""What is known of every watched request, as tensors on one device; a step is numpy on a CPU, one kernel on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
import torch

from sureenough.core.confidence.batched import PRUNED, BatchArrays, push_batch
from sureenough.core.pruning import Gate

WINNER: Final = 1e20
"""The logit of an end token that must be drawn: all other probabilities become exactly 0, at any temperature."""


@dataclass(frozen=True)
class State:
    """`push.Arrays` on a device, and the token that ends each request."""

    sums: torch.Tensor
    ring: torch.Tensor
    rests: torch.Tensor
    gates: torch.Tensor
    windows: torch.Tensor
    ends: torch.Tensor

    @classmethod
    def empty(cls, slots: int, longest_window: int, device: torch.device) -> State:
        """Room for so many requests."""

        def room(*size: int) -> torch.Tensor:
            return torch.zeros(size, dtype=torch.float64, device=device)

        counts = torch.ones((2, slots), dtype=torch.int32, device=device)
        return cls(
            sums=room(2, slots, 10),
            ring=room(slots, 4, longest_window),
            rests=room(slots, 5, longest_window + 1),
            gates=room(slots, 4),
            windows=counts[0],
            ends=counts[1],
        )

    @property
    def bytes(self) -> int:
        """Memory that it takes."""
        return sum(part.numel() * part.element_size() for part in (self.sums, self.ring, self.rests, self.gates))

    def admit(self, slot: int, window: int, gate: Gate, end: int) -> None:
        """A slot's request is another one from here on; its sums begin anew with its first token."""
        told = torch.tensor([gate.trust, gate.drop, gate.risk, gate.eta], dtype=torch.float64)
        # From pinned memory nothing waits for the copy.
        self.gates[slot].copy_(told.pin_memory() if self.gates.is_cuda else told, non_blocking=True)
        self.windows[slot] = window
        self.ends[slot] = end

    @property
    def arrays(self) -> BatchArrays:
        """The same memory, for numpy; on a CPU only."""
        return BatchArrays(*(part.numpy() for part in (self.sums, self.ring, self.rests, self.gates, self.windows)))


def step(
    state: State,
    logits: torch.Tensor,
    places: torch.Tensor,
    before: torch.Tensor,
    peak: torch.Tensor,
    conf: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Take one token of every watched row; a row whose gate closes gets its end token. What is known of each row.

    `places` holds rows of logits and their slots, `before` the tokens before this one. A GPU reads `before` and writes
    `out` where they are, on the device or in pinned memory.
    """
    if logits.device.type == "cpu":
        row, slot = places.numpy().astype(np.int64)
        found = push_batch(state.arrays, slot, before.numpy().astype(np.int64), peak.numpy(), conf.numpy())
        closed = found[:, PRUNED] > 0
        if closed.any():
            ends = state.ends.numpy()[slot[closed]].astype(np.int64)
            logits[torch.from_numpy(row[closed]), torch.from_numpy(ends)] = WINNER
        return torch.from_numpy(found)
    from sureenough.engines.vllm.kernels import monitor_step as stepping

    return stepping.step(state, logits, places, before, peak, conf, out)
