"""The signals of every token of traced paths. A step of all of them is written at once, whatever their number.

Paths are rows of blocks that hold so many tokens each; a block exists if a path is that long.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from sureenough.core.confidence import Floats
from sureenough.engines.vllm.batched import Ints

BLOCK: Final = 512
"""Tokens of a path in a block."""


class Traces:
    """Peak and conf of all tokens of the paths in some slots."""

    def __init__(self, slots: int) -> None:
        self._rows: Ints = np.full(slots, -1, dtype=np.int64)  # by slot; -1: its path is not traced
        self._free: list[int] = []
        self._count = 0  # rows of the blocks
        self._blocks: list[Floats] = []

    def __bool__(self) -> bool:
        """Whether any path is traced."""
        return self._count > len(self._free)

    def start(self, slot: int) -> None:
        """Trace the path that starts in this slot."""
        if not self._free:
            more = max(16, self._count)
            self._free = list(range(self._count, self._count + more))[::-1]
            self._count += more
            self._blocks = [np.concatenate((block, self._empty(more))) for block in self._blocks]
        self._rows[slot] = self._free.pop()

    def add(self, slots: Ints, tokens_before: Ints, signals: Floats) -> None:
        """One token of each of these paths, by their tokens before it; those that are not traced are left out."""
        traced = self._rows[slots] >= 0
        rows, tokens = self._rows[slots[traced]], tokens_before[traced]
        numbers, places = np.divmod(tokens, BLOCK)
        for number in set(numbers.tolist()):
            while number >= len(self._blocks):
                self._blocks.append(self._empty(self._count))
            mine = numbers == number
            self._blocks[number][rows[mine], places[mine]] = signals[traced][mine]

    def read(self, slot: int, tokens: int) -> Floats | None:
        """A copy of the signals of a path's first tokens; None if it is not traced."""
        row = int(self._rows[slot])
        if row < 0:
            return None
        parts = [block[row] for block in self._blocks[: -(-tokens // BLOCK)]]
        return np.concatenate([np.empty((0, 2)), *parts])[:tokens]

    def stop(self, slot: int) -> None:
        """Forget the path in this slot; without any, the memory is given back."""
        row = int(self._rows[slot])
        if row >= 0:
            self._rows[slot] = -1
            self._free.append(row)
        if not self:
            self._free, self._count, self._blocks = [], 0, []

    def _empty(self, rows: int) -> Floats:
        return np.empty((rows, BLOCK, 2))
