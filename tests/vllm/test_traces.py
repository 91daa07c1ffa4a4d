"""Traces: whatever starts, grows and ends in which order, a path's signals are those that were added for it."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.vllm.records import Traces

SLOTS = 20
Step = tuple[list[int], list[int], int]
"""Slots in which a traced path starts, in which one ends, and how many tokens come after that."""
slots = st.lists(st.integers(0, SLOTS - 1), unique=True, max_size=SLOTS)


@pytest.fixture(autouse=True)
def _small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sureenough.vllm.records.BLOCK", 4)


@given(st.lists(st.tuples(slots, slots, st.integers(0, 7)), max_size=12))
def test_signals_are_those_that_were_added(steps: list[Step]) -> None:
    traced, wanted, value = Traces(SLOTS), dict[int, list[list[float]]](), 0.0
    running = dict.fromkeys(range(SLOTS), 0)  # tokens of all paths, of which some are traced
    for starting, ending, tokens in steps:
        for slot in ending:
            traced.stop(slot)
            wanted.pop(slot, None)
        for slot in starting:
            traced.stop(slot)
            traced.start(slot)
            running[slot], wanted[slot] = 0, []
        for _ in range(tokens):
            value += 1.0
            signals = np.array([[value, slot] for slot in range(SLOTS)], dtype=np.float64)
            traced.add(np.arange(SLOTS), np.array(list(running.values())), signals)
            for slot in range(SLOTS):
                running[slot] += 1
                if slot in wanted:
                    wanted[slot].append([value, float(slot)])
        assert bool(traced) == bool(wanted)
        for slot in range(SLOTS):
            read = traced.read(slot, running[slot])
            assert (None if read is None else read.tolist()) == wanted.get(slot)


def test_memory_is_given_back_when_no_path_is_traced() -> None:
    traced = Traces(SLOTS)
    traced.start(3)
    traced.add(np.array([3]), np.array([1000]), np.ones((1, 2)))
    assert len(traced._blocks) == 251
    traced.stop(3)
    assert not traced._blocks
    assert not traced


def test_what_is_read_is_a_copy() -> None:
    traced = Traces(SLOTS)
    traced.start(0)
    traced.add(np.array([0]), np.array([0]), np.ones((1, 2)))
    read = traced.read(0, 1)
    assert read is not None
    traced.add(np.array([0]), np.array([0]), np.zeros((1, 2)))
    assert read.tolist() == [[1.0, 1.0]]
