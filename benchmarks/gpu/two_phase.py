"""A variant of the step at a block's end in `kernels/monitor_step.py`, to be measured beside it.

The published kernel computes a token's terms and adds them in one loop over the block, and is limited by the number of
instructions in that loop. Here the terms of all tokens are computed at once and stored where their sums will be; the
loop in order, which keeps every sum equal to the last bit, only loads, adds and stores.
"""

from __future__ import annotations

import triton
import triton.language as tl

from sureenough.engines.vllm.kernels import monitor_step
from sureenough.engines.vllm.kernels.monitor_step import (
    CHUNK,
    CONF_BLOCKS,
    LOADS_AHEAD,
    PEAK_BLOCKS,
    SUFFIX_COLUMNS,
    SUM_D,
    SUM_DD,
    SUM_DV,
    SUM_PEAK,
    SUM_VV,
)


@triton.jit
def _add_up_backwards(suffixes, wide, size):
    """Replace the terms of every sum by the sum of those from there to the end, in this order."""
    lane = tl.arange(0, 8)
    column = suffixes + lane * wide
    sums = tl.zeros([8], tl.float64)
    tl.store(column + size, sums, mask=lane < SUFFIX_COLUMNS)
    start = 0
    while start < size:
        last = tl.where(lane < SUFFIX_COLUMNS, size - 1 - start, -1)
        # All loads first: the compiler cannot move them before stores that might change what they read.
        terms = ()
        for ahead in tl.static_range(LOADS_AHEAD):
            terms = terms + (tl.load(column + (last - ahead), mask=last >= ahead, other=0.0),)  # noqa: RUF005
        for ahead in tl.static_range(LOADS_AHEAD):
            sums += terms[ahead]
            tl.store(column + (last - ahead), sums, mask=last >= ahead)
        start += LOADS_AHEAD


@triton.jit
def _end_block(blocks, suffixes, longest, size, block):
    """Form the suffix sums of the block before this one: the terms of all tokens at once, then the sums in order."""
    parity = (block - 1) & 1
    confs, peaks = blocks + (CONF_BLOCKS + parity) * longest, blocks + (PEAK_BLOCKS + parity) * longest
    conf_shift, peak_shift = tl.load(confs + size - 1), tl.load(peaks + size - 1)
    before = tl.load(confs)
    if block > 1:
        before = tl.load(blocks + (CONF_BLOCKS + 1 - parity) * longest + size - 1)
    wide = longest + 1
    chunk = 0
    while chunk < size:
        i = chunk + tl.arange(0, CHUNK)
        conf = tl.load(confs + i, mask=i < size, other=0.0)
        earlier = tl.load(confs + i - 1, mask=(i < size) & (i > 0), other=0.0)
        peak = tl.load(peaks + i, mask=i < size, other=0.0)
        d, v = conf - conf_shift, conf - tl.where(i > 0, earlier, before)
        tl.store(suffixes + SUM_D * wide + i, d, mask=i < size)
        tl.store(suffixes + SUM_DD * wide + i, d * d, mask=i < size)
        tl.store(suffixes + SUM_DV * wide + i, d * v, mask=i < size)
        tl.store(suffixes + SUM_VV * wide + i, v * v, mask=i < size)
        tl.store(suffixes + SUM_PEAK * wide + i, peak - peak_shift, mask=i < size)
        chunk += CHUNK
    # What some threads stored is read by others.
    tl.debug_barrier()
    _add_up_backwards(suffixes, wide, size)


def use_two_phases() -> None:
    """Let the monitor's kernel use this variant; before its first launch in this process, when it is compiled."""
    monitor_step._end_block = _end_block
