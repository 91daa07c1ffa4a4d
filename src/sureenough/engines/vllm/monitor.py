"""Which row of the batch is which watched request, and one step for all of them; knows nothing of vLLM.

Rows join, leave and move; a request keeps its slot, also while it is preempted, for as long as no other needs it.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from sureenough.engines.vllm.arguments import Asked, K
from sureenough.engines.vllm.board import BEHIND, Board
from sureenough.engines.vllm.signals import signals
from sureenough.engines.vllm.state import State, step


class Held(NamedTuple):
    """A watched request in the batch."""

    slot: int
    key: str
    made: Sequence[int]  # its output tokens, as the engine keeps them


class Monitor:
    """The watched rows of one engine."""

    def __init__(self, slots: int, longest_window: int, device: torch.device, board: Board | None = None) -> None:
        self.state = State.empty(slots, longest_window, device)
        self.device, self.board = device, board
        self.rows: dict[int, Held] = {}
        self._free: OrderedDict[int, str | None] = OrderedDict.fromkeys(range(slots))  # and who left it
        self._copies: list[torch.Tensor] = []
        self._turn = 0
        if device.type != "cpu" and board is not None:
            self._copies = [torch.empty((slots, 5), dtype=torch.float64).pin_memory() for _ in range(BEHIND + 4)]

    def add(self, row: int, asked: Asked, end: int | None, made: Sequence[int]) -> None:
        """Watch the request in this row; one that was preempted goes on where it was."""
        slot = next((slot for slot, key in self._free.items() if key == asked.key), None) if made else None
        if slot is None and (made or end is None):
            if self.board is not None:
                why = "the model has no end token" if end is None else "it was preempted and its slot given away"
                self.board.lose(asked.key, why)
            return
        if slot is None:
            slot = next(iter(self._free))
            self.state.admit(slot, asked.window, asked.gate, end or 0)
            if self.board is not None:
                self.board.admit(slot, asked.key, asked.trace)
        del self._free[slot]
        self.rows[row] = Held(slot, asked.key, made)

    def remove(self, row: int) -> None:
        """The row's request, if it was watched, has ended or was preempted."""
        held = self.rows.pop(row, None)
        if held is not None:
            self._free[held.slot] = held.key

    def move(self, one: int, other: int, *, swap: bool) -> None:
        """A request moves to another row, or two change places."""
        mover, there = self.rows.pop(one, None), self.rows.pop(other, None)
        if mover is not None:
            self.rows[other] = mover
        if there is None:
            return
        if swap:
            self.rows[one] = there
        else:
            self._free[there.slot] = there.key

    def step(self, logits: torch.Tensor) -> torch.Tensor:
        """Take one token of every watched row, and put the end token into rows whose gate closed."""
        if not self.rows:
            return logits
        table = np.array([[row, held.slot, len(held.made)] for row, held in self.rows.items()], dtype=np.int32).T.copy()
        rows = torch.from_numpy(table)
        if self.device.type != "cpu":
            rows = rows.pin_memory().to(self.device, non_blocking=True)
        peak, conf = signals(logits, rows[0], K)
        found = step(self.state, logits, rows, peak, conf)
        if self.board is not None:
            self._post(table, found)
        return logits

    def _post(self, table: NDArray[np.int32], found: torch.Tensor) -> None:
        assert self.board is not None
        slot, before = table[1].astype(np.int64), table[2].astype(np.int64)
        if not self._copies:
            self.board.post(slot, before, found.numpy())
            return
        self._turn = (self._turn + 1) % len(self._copies)
        copy = self._copies[self._turn][: len(slot)]
        copy.copy_(found, non_blocking=True)
        done = torch.cuda.Event()
        done.record()
        self.board.post(slot, before, copy.numpy(), done)
