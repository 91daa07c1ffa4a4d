"""One token of many paths at once, in numpy: Monitor.push and Gate.tier, the same operations in the same order.

Each path has a slot, which is a row of the arrays. A step receives the number of tokens that a path had before it and
uses the state after that many tokens; the last two states are kept. So a step can be repeated (vLLM discards what it
samples in the middle of a long prompt) and never has to be undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence import (
    SUFFIX_COLUMNS,
    SUM_D,
    SUM_DD,
    SUM_DV,
    SUM_PEAK,
    SUM_VV,
    TIER_DROP,
    TIER_NONE,
    TIER_RISK,
    Floats,
    instability_from_arrays,
    instability_of_window,
    suffix_sums,
)

Ints = NDArray[np.int64]

# What else is kept of a path from token to token, in the same row as its running sums.
CONF_SHIFT, PEAK_SHIFT, LAST_CONF, LOWEST, TIER = range(SUFFIX_COLUMNS, SUFFIX_COLUMNS + 5)
TOTAL_PEAK, TOTAL_CONF = range(SUFFIX_COLUMNS + 5, SUFFIX_COLUMNS + 7)
STATE_COLUMNS: Final = 12

# Rows of the last two blocks of a path. The block's parity, 0 or 1, is added.
CONF_BLOCKS, PEAK_BLOCKS = 0, 2
BLOCK_ROWS: Final = 4

GATE_TRUST, GATE_DROP, GATE_RISK, GATE_ETA = range(4)
GATE_COLUMNS: Final = 4

# What a step returns for each path: the token's own signals; C_path, tail, tier and the sums of all signals so far.
RESULT_PEAK, RESULT_CONF, RESULT_LOWEST, RESULT_TAIL, RESULT_TIER, RESULT_TOTAL_PEAK, RESULT_TOTAL_CONF = range(7)
RESULT_COLUMNS: Final = 7

END_LOGIT: Final = 1e20
"""The logit of an end token that must be sampled: all other probabilities become exactly 0, at any temperature. Types
that cannot hold it get their largest number."""


Array = TypeVar("Array")


class BatchState(NamedTuple, Generic[Array]):
    """The state of all watched paths: arrays, or tensors on one device."""

    states: Array  # after an even and an odd number of tokens; slot; running sums and the columns after them
    blocks: Array  # slot; conf of even and odd blocks, peak of even and odd blocks; position in the block
    suffixes: Array  # slot; suffix sums of the block before; position
    gates: Array  # slot; threshold
    windows: Array  # slot
    end_tokens: Array  # slot; the token that ends the request


Arrays = BatchState[NDArray[Any]]


def empty_arrays(slots: int, longest_window: int) -> Arrays:
    """Memory for this many paths; the sums of a path are reset by its first token."""
    return BatchState(
        np.zeros((2, slots, STATE_COLUMNS)),
        np.zeros((slots, BLOCK_ROWS, longest_window)),
        np.zeros((slots, SUFFIX_COLUMNS, longest_window + 1)),
        np.zeros((slots, GATE_COLUMNS)),
        *np.ones((2, slots), dtype=np.int32),
    )


def push_batch(arrays: Arrays, slots: Ints, tokens_before: Ints, peak: Floats, conf: Floats) -> Floats:
    """Take one token of the path in each of these slots; each path's result columns."""
    states, blocks, suffixes, gates, windows, _ = arrays
    size = windows[slots].astype(np.int64)
    position, block = tokens_before % size, tokens_before // size
    first, starts_block = tokens_before == 0, (position == 0) & (tokens_before > 0)
    for i in np.flatnonzero(starts_block):
        _end_block(blocks[slots[i]], suffixes[slots[i]], int(size[i]), int(block[i]))
    old = states[tokens_before & 1, slots]
    new = np.where((first | starts_block)[:, None], 0.0, old)
    new[:, CONF_SHIFT] = shift = np.where(first, conf, np.where(starts_block, old[:, LAST_CONF], old[:, CONF_SHIFT]))
    last_peak = blocks[slots, PEAK_BLOCKS + ((block - 1) & 1), size - 1]
    new[:, PEAK_SHIFT] = peak_shift = np.where(first, peak, np.where(starts_block, last_peak, old[:, PEAK_SHIFT]))
    d, v = conf - shift, conf - np.where(first, conf, old[:, LAST_CONF])
    new[:, LAST_CONF] = conf
    new[:, SUM_D] += d
    new[:, SUM_DD] += d * d
    new[:, SUM_DV] += d * v
    new[:, SUM_VV] += v * v
    new[:, SUM_PEAK] += peak - peak_shift
    new[:, TOTAL_PEAK] = total_peak = np.where(first, 0.0, old[:, TOTAL_PEAK]) + peak
    new[:, TOTAL_CONF] = total_conf = np.where(first, 0.0, old[:, TOTAL_CONF]) + conf
    blocks[slots, CONF_BLOCKS + (block & 1), position] = conf
    blocks[slots, PEAK_BLOCKS + (block & 1), position] = peak
    suffix = np.where((block > 0)[:, None], suffixes[slots, :, position + 1], 0.0)
    full, n = tokens_before + 1 >= size, np.minimum(tokens_before + 1, size)
    group_conf = (new[:, SUM_D] + suffix[:, SUM_D] + n * shift) / n
    lowest = np.where(first, np.inf, old[:, LOWEST])
    new[:, LOWEST] = np.where(full & (group_conf < lowest), group_conf, lowest)
    group_peak = (new[:, SUM_PEAK] + suffix[:, SUM_PEAK] + n * peak_shift) / n
    tier = np.where(first, TIER_NONE, old[:, TIER])

    def instability(rows: Ints) -> tuple[Floats, Floats]:
        sums = new[rows, :SUFFIX_COLUMNS] + suffix[rows]
        return _instability(blocks, slots[rows], size[rows], tokens_before[rows], sums, conf[rows])

    untested = full & (tier == TIER_NONE)
    new[:, TIER] = tier = np.where(untested, _tier(gates[slots], group_peak, group_conf, instability), tier)
    states[(tokens_before + 1) & 1, slots] = new
    lowest = np.where(full, new[:, LOWEST], group_conf)
    return np.stack([peak, conf, lowest, group_conf, tier, total_peak, total_conf], axis=1)


def _tier(gates: Floats, peak: Floats, conf: Floats, instability: Callable[[Ints], tuple[Floats, Floats]]) -> Floats:
    """The first test of its gate that each row fails; instability is computed only for rows that need it."""
    risk, eta = gates[:, GATE_RISK], gates[:, GATE_ETA]
    untrusted = peak <= gates[:, GATE_TRUST]
    tier = np.where(untrusted & (conf < gates[:, GATE_DROP]), TIER_DROP, TIER_NONE)
    rows = np.flatnonzero(untrusted & (tier == TIER_NONE) & (risk < np.inf))
    if rows.size:
        isotropy, penalty = instability(rows)
        tier[rows] = np.where(isotropy + eta[rows] * penalty > risk[rows], TIER_RISK, TIER_NONE)
    return tier


def _instability(
    blocks: Floats, slots: Ints, size: Ints, tokens_before: Ints, sums: Floats, conf: Floats
) -> tuple[Floats, Floats]:
    block, position = tokens_before // size, tokens_before % size
    # The token before the window has this token's position in the block before; in the first block it is the first.
    previous = blocks[slots, CONF_BLOCKS + ((block - 1) & 1), position]
    before = np.where(block > 0, previous, blocks[slots, CONF_BLOCKS, 0])
    d, dd, dv, vv = (sums[:, column] for column in (SUM_D, SUM_DD, SUM_DV, SUM_VV))
    isotropy, penalty, ill_conditioned = instability_from_arrays(size.astype(np.float64), d, dd, dv, vv, conf - before)
    for i in np.flatnonzero(ill_conditioned):
        token = np.arange(tokens_before[i] - size[i] + 1, tokens_before[i] + 1)
        if token[0] < 0:
            continue  # not a full window: its tier is not used
        window = blocks[slots[i], CONF_BLOCKS + ((token // size[i]) & 1), token % size[i]]
        isotropy[i], penalty[i] = instability_of_window(window, float(before[i]))
    return isotropy, penalty


def _end_block(blocks: Floats, suffixes: Floats, size: int, block: int) -> None:
    """Form the suffix sums of the block before this one."""
    parity = (block - 1) & 1
    conf, peak = blocks[CONF_BLOCKS + parity, :size], blocks[PEAK_BLOCKS + parity, :size]
    before = blocks[CONF_BLOCKS + 1 - parity, size - 1] if block > 1 else conf[0]
    suffixes[:, : size + 1] = suffix_sums(conf, peak, float(before))
