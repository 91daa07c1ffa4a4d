"""One token of many paths at once, in numpy: Monitor.push and Gate.tier, the same operations in the same order.

Arrays hold a row a slot. A step is told how many tokens a path had before it, and takes what it needs of the state
after so many tokens; of states the last two are kept. So a step can be repeated (vLLM throws away what it samples in
the middle of a long prompt) and nothing has to be taken back.
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence.instability import Floats, instability_from_arrays, instability_of_window

D, DD, DV, VV, P, SHIFT, LIFT, LAST, LOWEST, TIER = range(10)
"""Columns of the running sums, as core's Monitor names them."""
PEAK, CONF, LOW, TAIL, PRUNED = range(5)
"""Columns of what a step reports of a row."""
DROP: Final = 1.0
RISK: Final = 2.0

Ints = NDArray[np.int64]


class BatchArrays(NamedTuple):
    """Everything that is known of the watched paths."""

    sums: Floats  # after an even and an odd number of tokens; slot; column
    ring: Floats  # slot; conf of even and odd blocks, peak of even and odd blocks; place in the block
    rests: Floats  # slot; D, DD, DV, VV, P of the rest of the block before; place
    gates: Floats  # slot; trust, drop, risk, eta
    windows: NDArray[np.int32]


def push_batch(state: BatchArrays, slot: Ints, before: Ints, peak: Floats, conf: Floats) -> Floats:
    """One token of each of these slots' paths; what is known of each path now."""
    sums, ring, rests, gates, windows = state
    size = windows[slot].astype(np.int64)
    at, block = before % size, before // size
    first, turns = before == 0, (at == 0) & (before > 0)
    for i in np.flatnonzero(turns):
        _turn(ring[slot[i]], rests[slot[i]], int(size[i]), int(block[i]))
    old = sums[before & 1, slot]
    new = np.where((first | turns)[:, None], 0.0, old)
    new[:, SHIFT] = shift = np.where(first, conf, np.where(turns, old[:, LAST], old[:, SHIFT]))
    end_of_block = ring[slot, 2 + ((block - 1) & 1), size - 1]
    new[:, LIFT] = lift = np.where(first, peak, np.where(turns, end_of_block, old[:, LIFT]))
    d, v = conf - shift, conf - np.where(first, conf, old[:, LAST])
    new[:, LAST] = conf
    new[:, D] += d
    new[:, DD] += d * d
    new[:, DV] += d * v
    new[:, VV] += v * v
    new[:, P] += peak - lift
    ring[slot, block & 1, at] = conf
    ring[slot, 2 + (block & 1), at] = peak
    rest = np.where((block > 0)[:, None], rests[slot, :, at + 1], 0.0)
    full, n = before + 1 >= size, np.minimum(before + 1, size)
    group = (new[:, D] + rest[:, D] + n * shift) / n
    lowest = np.where(first, np.inf, old[:, LOWEST])
    new[:, LOWEST] = np.where(full & (group < lowest), group, lowest)
    group_peak = (new[:, P] + rest[:, P] + n * lift) / n
    held = np.where(first, 0.0, old[:, TIER])
    new[:, TIER] = np.where(
        full & (held == 0.0),
        _tier(gates[slot], group_peak, group, lambda i: _risk(ring, slot, size, before, new, rest, i)),
        held,
    )
    sums[(before + 1) & 1, slot] = new
    return np.stack([peak, conf, np.where(full, new[:, LOWEST], group), group, new[:, TIER]], axis=1)


def _tier(gates: Floats, peak: Floats, conf: Floats, risk: Any) -> Floats:
    trust, drop, bar, eta = gates.T
    asked = peak <= trust
    tier = np.where(asked & (conf < drop), DROP, 0.0)
    rest = np.flatnonzero(asked & (tier == 0.0) & (bar < np.inf))
    if rest.size:
        noise, fall = risk(rest)
        tier[rest] = np.where(noise + eta[rest] * fall > bar[rest], RISK, 0.0)
    return tier


def _risk(
    ring: Floats, slot: Ints, size: Ints, before: Ints, new: Floats, rest: Floats, rows: Ints
) -> tuple[Floats, Floats]:
    slot, size, before, new, rest = slot[rows], size[rows], before[rows], new[rows], rest[rows]
    block, at = before // size, before % size
    # The token before the window stands at this token's place in the block before; the path's first where none is.
    earlier = np.where(block > 0, ring[slot, (block - 1) & 1, at], ring[slot, 0, 0])
    d, dd, dv, vv = (new[:, column] + rest[:, column] for column in (D, DD, DV, VV))
    noise, fall, weak = instability_from_arrays(size.astype(np.float64), d, dd, dv, vv, new[:, LAST] - earlier)
    for i in np.flatnonzero(weak):
        place = np.arange(before[i] - size[i] + 1, before[i] + 1)
        if place[0] < 0:
            continue  # no full window: nobody asks
        window = ring[slot[i], (place // size[i]) & 1, place % size[i]]
        noise[i], fall[i] = instability_of_window(window, float(earlier[i]))
    return noise, fall


def _turn(ring: Floats, rests: Floats, size: int, block: int) -> None:
    """The block before this one is full: run its sums backward, shifted by its last token."""
    odd = (block - 1) & 1
    conf, peak = ring[odd, :size], ring[2 + odd, :size]
    before = ring[1 - odd, size - 1] if block > 1 else conf[0]
    d, v = conf - conf[-1], np.diff(conf, prepend=before)
    for row, values in enumerate((d, d * d, d * v, v * v, peak - peak[-1])):
        rests[row, :size] = np.cumsum(values[::-1])[::-1]
        rests[row, size] = 0.0
