"""One token of every watched row in one Triton kernel: Monitor.push, Gate.tier, and the end token of pruned rows.

There is one program per row, in float64 and without fused multiply-add, so that every sum equals the other backends' to
the last bit; only windows that lost too many digits are summed again, in another order.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl

from sureenough.core import confidence
from sureenough.engines.watch import protocol
from sureenough.vllm.kernels import steps


def _constants(*names, module=steps):
    return [tl.constexpr(getattr(module, name)) for name in names]


ILL_CONDITIONED = tl.constexpr(confidence.ILL_CONDITIONED)
TIER_NONE, TIER_DROP, TIER_RISK = _constants("TIER_NONE", "TIER_DROP", "TIER_RISK", module=protocol)
RESULT_COLUMNS, RESULT_PEAK, RESULT_CONF = _constants("RESULT_COLUMNS", "RESULT_PEAK", "RESULT_CONF")
RESULT_LOWEST, RESULT_TAIL, RESULT_TIER = _constants("RESULT_LOWEST", "RESULT_TAIL", "RESULT_TIER")
RESULT_TOTAL_PEAK, RESULT_TOTAL_CONF = _constants("RESULT_TOTAL_PEAK", "RESULT_TOTAL_CONF")

# The sums of a block so far (running sums), and of the rest of the block before it (suffix sums).
SUM_D, SUM_DD, SUM_DV, SUM_VV, SUM_PEAK = map(tl.constexpr, range(5))
SUFFIX_COLUMNS = tl.constexpr(5)
# What else is kept of a path from token to token, in the same row as its running sums.
CONF_SHIFT, PEAK_SHIFT, LAST_CONF, LOWEST, TIER, TOTAL_PEAK, TOTAL_CONF = map(tl.constexpr, range(5, 12))
STATE_COLUMNS = tl.constexpr(12)
# Rows of the last two blocks of a path. The block's parity, 0 or 1, is added.
CONF_BLOCKS, PEAK_BLOCKS, BLOCK_ROWS = map(tl.constexpr, (0, 2, 4))
GATE_TRUST, GATE_DROP, GATE_RISK, GATE_ETA, GATE_COLUMNS = map(tl.constexpr, range(5))

LOADS_AHEAD = tl.constexpr(32)  # loads in flight while suffix sums are added up one after the other
CHUNK = tl.constexpr(256)


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


@triton.jit
def _centred_sums(blocks, longest, size, tokens_before, before):
    """Centred sums by two passes over the window, if shifted sums lost their digits; whether its values differ."""
    start = tokens_before - size + 1
    total = before - before
    least, most = total + float("inf"), total - float("inf")
    chunk = 0
    while chunk < size:
        i = chunk + tl.arange(0, CHUNK)
        t = start + i
        x = tl.load(blocks + (CONF_BLOCKS + ((t // size) & 1)) * longest + t % size, mask=i < size, other=0.0)
        total += tl.sum(x, axis=0)
        least = tl.minimum(least, tl.min(tl.where(i < size, x, float("inf")), axis=0))
        most = tl.maximum(most, tl.max(tl.where(i < size, x, float("-inf")), axis=0))
        chunk += CHUNK
    mean = total / size
    a, b, c = mean - mean, mean - mean, mean - mean
    chunk = 0
    while chunk < size:
        i = chunk + tl.arange(0, CHUNK)
        t = start + i
        s = t - 1
        x = tl.load(blocks + (CONF_BLOCKS + ((t // size) & 1)) * longest + t % size, mask=i < size, other=0.0)
        w = tl.load(
            blocks + (CONF_BLOCKS + ((s // size) & 1)) * longest + s % size, mask=(i < size) & (i > 0), other=0.0
        )
        d = tl.where(i < size, x - mean, 0.0)
        v = tl.where(i < size, x - tl.where(i > 0, w, before), 0.0)
        a += tl.sum(d * d, axis=0)
        b += tl.sum(d * v, axis=0)
        c += tl.sum(v * v, axis=0)
        chunk += CHUNK
    return a, b, c, most > least


@triton.jit(do_not_specialize=["watched", "stride", "slots", "longest"])
def _step(
    logits, stride, places, watched, tokens_before_rows, peaks, confs, results,
    states, blocks, suffixes, gates, windows, end_tokens, slots, longest, END: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0)
    row, slot = tl.load(places + program).to(tl.int64), tl.load(places + watched + program).to(tl.int64)
    tokens_before = tl.load(tokens_before_rows + program)
    size = tl.load(windows + slot)
    peak, conf = tl.load(peaks + program), tl.load(confs + program)
    wide = longest + 1
    blocks += slot * BLOCK_ROWS * longest
    suffixes += slot * SUFFIX_COLUMNS * wide
    gates += slot * GATE_COLUMNS
    position, block = tokens_before % size, tokens_before // size
    old = states + ((tokens_before & 1).to(tl.int64) * slots + slot) * STATE_COLUMNS
    new = states + (((tokens_before + 1) & 1).to(tl.int64) * slots + slot) * STATE_COLUMNS
    zero = conf - conf
    d, dd, dv, vv, p, tier = zero, zero, zero, zero, zero, zero + TIER_NONE
    conf_shift, last_conf, peak_shift = conf, conf, peak
    lowest, total_peak, total_conf = zero + float("inf"), peak, conf
    if tokens_before > 0:
        total_peak, total_conf = tl.load(old + TOTAL_PEAK) + peak, tl.load(old + TOTAL_CONF) + conf
        last_conf, lowest, tier = tl.load(old + LAST_CONF), tl.load(old + LOWEST), tl.load(old + TIER)
        if position == 0:
            _end_block(blocks, suffixes, longest, size, block)
            conf_shift = last_conf
            peak_shift = tl.load(blocks + (PEAK_BLOCKS + ((block - 1) & 1)) * longest + size - 1)
        else:
            d, dd, dv = tl.load(old + SUM_D), tl.load(old + SUM_DD), tl.load(old + SUM_DV)
            vv, p = tl.load(old + SUM_VV), tl.load(old + SUM_PEAK)
            conf_shift, peak_shift = tl.load(old + CONF_SHIFT), tl.load(old + PEAK_SHIFT)
    # What one thread of the program stored above is read by all of them below.
    tl.debug_barrier()
    x, v = conf - conf_shift, conf - last_conf
    d += x
    dd += x * x
    dv += x * v
    vv += v * v
    p += peak - peak_shift
    tl.store(blocks + (CONF_BLOCKS + (block & 1)) * longest + position, conf)
    tl.store(blocks + (PEAK_BLOCKS + (block & 1)) * longest + position, peak)
    tl.debug_barrier()
    before = tl.load(blocks + CONF_BLOCKS * longest)
    suffix_d, suffix_dd, suffix_dv, suffix_vv, suffix_p = zero, zero, zero, zero, zero
    if block > 0:
        before = tl.load(blocks + (CONF_BLOCKS + ((block - 1) & 1)) * longest + position)
        suffix = suffixes + position + 1
        suffix_d, suffix_dd = tl.load(suffix + SUM_D * wide), tl.load(suffix + SUM_DD * wide)
        suffix_dv, suffix_vv = tl.load(suffix + SUM_DV * wide), tl.load(suffix + SUM_VV * wide)
        suffix_p = tl.load(suffix + SUM_PEAK * wide)
    n = tl.minimum(tokens_before + 1, size).to(tl.float64)
    group_conf = (d + suffix_d + n * conf_shift) / n
    path_lowest = group_conf
    if tokens_before + 1 >= size:
        lowest = tl.minimum(lowest, group_conf)
        path_lowest = lowest
        if tier == TIER_NONE:
            trust, drop = tl.load(gates + GATE_TRUST), tl.load(gates + GATE_DROP)
            risk, eta = tl.load(gates + GATE_RISK), tl.load(gates + GATE_ETA)
            if (p + suffix_p + n * peak_shift) / n <= trust:
                if group_conf < drop:
                    tier = zero + TIER_DROP
                elif risk < float("inf"):
                    tier = _instability_tier(
                        blocks, longest, size, tokens_before, before, n,
                        d + suffix_d, dd + suffix_dd, dv + suffix_dv, vv + suffix_vv, conf - before, risk, eta,
                    )  # fmt: skip
    tl.store(new + SUM_D, d)
    tl.store(new + SUM_DD, dd)
    tl.store(new + SUM_DV, dv)
    tl.store(new + SUM_VV, vv)
    tl.store(new + SUM_PEAK, p)
    tl.store(new + CONF_SHIFT, conf_shift)
    tl.store(new + PEAK_SHIFT, peak_shift)
    tl.store(new + LAST_CONF, conf)
    tl.store(new + LOWEST, lowest)
    tl.store(new + TIER, tier)
    tl.store(new + TOTAL_PEAK, total_peak)
    tl.store(new + TOTAL_CONF, total_conf)
    results += program * RESULT_COLUMNS
    tl.store(results + RESULT_PEAK, peak)
    tl.store(results + RESULT_CONF, conf)
    tl.store(results + RESULT_LOWEST, path_lowest)
    tl.store(results + RESULT_TAIL, group_conf)
    tl.store(results + RESULT_TIER, tier)
    tl.store(results + RESULT_TOTAL_PEAK, total_peak)
    tl.store(results + RESULT_TOTAL_CONF, total_conf)
    if tier != TIER_NONE:
        tl.store(logits + row * stride + tl.load(end_tokens + slot), END)


@triton.jit
def _instability_tier(blocks, longest, size, tokens_before, before, n, d, dd, dv, vv, rise, risk, eta):
    """TIER_RISK if the window's instability is above the threshold, else TIER_NONE."""
    instability = n - n
    if (size > 1) & (dd != 0.0):
        a, b, c = dd - d * d / n, dv - d * rise / n, vv
        varies = dd > 0.0
        if a <= ILL_CONDITIONED * dd:
            a, b, c, varies = _centred_sums(blocks, longest, size, tokens_before, before)
        total = a + c
        if varies & (total > 0.0):
            difference = a - c
            h = tl.sqrt(difference * difference + 4.0 * b * b)
            instability = 1.0 - h / total
            if (rise < 0.0) & (h > 0.0):
                instability = instability + eta * ((1.0 + difference / h) / 2.0)
    tier = n - n + TIER_NONE
    if instability > risk:
        tier = n - n + TIER_RISK
    return tier


class BatchState(NamedTuple):
    """The state of all watched paths: tensors on one device.

    The last two states of each are kept, so that a step that is repeated need not be undone.
    """

    states: Any  # after an even and an odd number of tokens; slot; running sums and the columns after them
    blocks: Any  # slot; conf of even and odd blocks, peak of even and odd blocks; position in the block
    suffixes: Any  # slot; suffix sums of the block before; position
    gates: Any  # slot; threshold
    windows: Any  # slot
    end_tokens: Any  # slot; the token that ends the request


def empty_state(slots: int, longest_window: int, device: torch.device) -> BatchState:
    """Memory on the device for this many paths; the sums of a path are reset by its first token."""

    def zeros(*shape: int) -> torch.Tensor:
        return torch.zeros(shape, dtype=torch.float64, device=device)

    return BatchState(
        zeros(2, slots, STATE_COLUMNS.value),
        zeros(slots, BLOCK_ROWS.value, longest_window),
        zeros(slots, SUFFIX_COLUMNS.value, longest_window + 1),
        zeros(slots, GATE_COLUMNS.value),
        *torch.ones((2, slots), dtype=torch.int32, device=device),
    )


def launch_step(
    state: BatchState, logits: torch.Tensor, places: torch.Tensor, tokens_before: torch.Tensor,
    peak: torch.Tensor, conf: torch.Tensor, results: torch.Tensor,
) -> None:  # fmt: skip
    """Take one token of every watched row, and give rows whose gate closes their end token; without waiting for it.

    `places` holds rows of logits and their slots. The device reads `tokens_before` and writes `results` in place, in
    its own or in pinned memory.
    """
    watched = places.shape[1]
    _step[(watched,)](
        logits, logits.stride(0), places, watched, tokens_before, peak, conf, results, *state,
        state.states.shape[1], state.blocks.shape[2], END=min(steps.END_LOGIT, torch.finfo(logits.dtype).max),
        num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip
