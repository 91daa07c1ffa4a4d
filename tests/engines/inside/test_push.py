"""The batched step against core, on every recorded token of a pool: the same decisions and numbers, bit by bit."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sureenough.core.confidence.array import scan
from sureenough.core.confidence.batched import LOW, PRUNED, TAIL, BatchArrays, push_batch
from sureenough.core.confidence.streaming import Monitor
from sureenough.core.pruning import Calibrate, Closed, Gate, Keep, Stratified, TwoTiers
from sureenough.data import BUILTIN_POOL
from sureenough.engines.vllm.server.records_socket import TIERS
from sureenough.pools import Pool, RecordedPath

WARMUP = 16
LARGER = os.environ.get("SUREENOUGH_POOL")


def arrays(windows: list[int], gates: list[Gate]) -> BatchArrays:
    slots, longest = len(windows), max(windows)
    thresholds = np.array([[gate.trust, gate.drop, gate.risk, gate.eta] for gate in gates])
    rooms = np.zeros((2, slots, 10)), np.zeros((slots, 4, longest)), np.zeros((slots, 5, longest + 1))
    return BatchArrays(*rooms, thresholds, np.array(windows, dtype=np.int32))


def watched_at_once(
    paths: list[RecordedPath], gates: list[Gate], window: int
) -> list[tuple[Closed | None, float, float]]:
    """Where each path's gate closed, its C_path and its tail, all paths stepping together."""
    state = arrays([window] * len(paths), gates)
    lengths = np.array([path.tokens for path in paths])
    signals = np.zeros((2, lengths.max(), len(paths)))
    for i, path in enumerate(paths):
        signals[:, : path.tokens, i] = path.peak, path.conf
    closed: list[Closed | None] = [None] * len(paths)
    last = np.zeros((len(paths), 5))
    for t in range(lengths.max()):
        slot = np.flatnonzero(lengths > t)
        found = push_batch(state, slot, np.full(len(slot), t), signals[0, t, slot], signals[1, t, slot])
        last[slot] = found
        for row in np.flatnonzero(found[:, PRUNED] > 0):
            tier = TIERS[int(found[row, PRUNED])]
            assert tier is not None
            closed[slot[row]] = closed[slot[row]] or Closed(t + 1, tier)
    return [(closed[i], last[i, LOW], last[i, TAIL]) for i in range(len(paths))]


CALIBRATIONS: dict[str, Calibrate] = {
    "ddc": Stratified(),
    "two tiers": TwoTiers(trust=99, drop=5),
    "deepconf": Keep(90.0),
    "trend alone": lambda paths: replace(Stratified(risk="p99")(paths), drop=-np.inf, trust=np.inf),
}


def compared(pool: Path, calibrate: Calibrate, window: int, questions: int) -> tuple[int, int]:
    """Tokens and closed gates that were the same."""
    paths: list[RecordedPath] = []
    gates: list[Gate] = []
    for number, question in enumerate(Pool(pool)):
        if number >= questions:
            break
        mine = [path for path in question.paths if path.tokens]
        gate = calibrate([scan(np.asarray(p.peak, float), np.asarray(p.conf, float), window) for p in mine[:WARMUP]])
        paths += mine
        gates += [gate] * len(mine)
    pruned = 0
    for path, gate, (closed, lowest, tail) in zip(paths, gates, watched_at_once(paths, gates, window), strict=True):
        windows = scan(np.asarray(path.peak, float), np.asarray(path.conf, float), window)
        assert closed == gate.first_closed(windows)
        assert (lowest, tail) == (windows.lowest, windows.tail)
        pruned += closed is not None
    return sum(path.tokens for path in paths), pruned


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_a_million_recorded_tokens(name: str) -> None:
    tokens, pruned = compared(BUILTIN_POOL, CALIBRATIONS[name], 64, 50 if name == "ddc" else 8)
    assert pruned > 50
    assert tokens > (1_000_000 if name == "ddc" else 100_000)


@pytest.mark.skipif(
    LARGER is None, reason="SUREENOUGH_POOL names a larger pool; .ci/run gives it one where there is one"
)
def test_a_larger_pool() -> None:
    tokens, pruned = compared(Path(str(LARGER)), Stratified(), 64, 60)
    assert tokens > 1_000_000
    assert pruned > 1_000


signal = st.lists(
    st.tuples(st.floats(0, 1), st.one_of(st.floats(0, 100), st.sampled_from([3.0, 7.25, 7.25 + 1e-9, 40.0]))),
    min_size=1,
    max_size=40,
)


@settings(max_examples=200)
@given(signal, st.integers(1, 9), st.floats(0, 1), st.floats(0, 100), st.floats(0, 1.5), st.data())
def test_repeated_steps_change_nothing(
    signals: list[tuple[float, float]], window: int, trust: float, drop: float, risk: float, data: st.DataObject
) -> None:
    gate = Gate(trust, drop, risk)
    state, path = arrays([window], [gate]), Monitor(window)
    slot = np.zeros(1, dtype=np.int64)
    for t, (peak, conf) in enumerate(signals):
        for _ in range(data.draw(st.integers(0, 2), label="thrown away")):
            push_batch(state, slot, np.array([t]), np.array([0.5]), np.array([99.0]))
        found = push_batch(state, slot, np.array([t]), np.array([peak]), np.array([conf]))[0]
        tier = gate.tier(path) if path.push(peak, conf) else None
        assert (found[LOW], found[TAIL]) == (path.lowest, path.tail)
        assert TIERS[int(found[PRUNED])] == tier
        if tier is not None:
            return
