"""One token of every watched row in one kernel: Monitor.push, Gate.tier, and the end token of rows whose gate closed.

A program a row, in float64 and without fused multiply-add, so that every sum is core's to the last bit; only windows
that lost too many digits are summed anew in another order.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureenough.engines.vllm.kernels.state import WINNER, State

ILL_CONDITIONED: tl.constexpr = tl.constexpr(1e-6)
COLUMNS: tl.constexpr = tl.constexpr(10)
AHEAD: tl.constexpr = tl.constexpr(32)  # loads in flight while sums are run backward, one addition after the other
CHUNK: tl.constexpr = tl.constexpr(256)


@triton.jit
def _turn(ring, rests, longest, size, block):
    """Run the sums of the block before backward, shifted by its last token: one lane a sum, one store a token."""
    odd = (block - 1) & 1
    confs, peaks, wide = ring + odd * longest, ring + (2 + odd) * longest, longest + 1
    shift, lift = tl.load(confs + size - 1), tl.load(peaks + size - 1)
    before = tl.load(confs)
    if block > 1:
        before = tl.load(ring + (1 - odd) * longest + size - 1)
    lane = tl.arange(0, 8)
    place = rests + lane * wide
    sums = tl.zeros([8], tl.float64)
    tl.store(place + size, sums, mask=lane < 5)
    start = 0
    while start < size:
        last = size - 1 - start
        # All loads first: the compiler cannot move them before stores that might change what they read.
        conf, peak = (), ()
        for ahead in tl.static_range(AHEAD + 1):
            conf = conf + (tl.load(confs + last - ahead, mask=last >= ahead, other=before),)  # noqa: RUF005
        for ahead in tl.static_range(AHEAD):
            peak = peak + (tl.load(peaks + last - ahead, mask=last >= ahead, other=0.0),)  # noqa: RUF005
        for ahead in tl.static_range(AHEAD):
            x = conf[ahead] - shift
            v = conf[ahead] - conf[ahead + 1]
            # x, x * x, x * v, v * v, and the peak: a product with 1 is exact.
            one = tl.where(lane < 3, x, tl.where(lane == 3, v, peak[ahead] - lift))
            other = tl.where(lane == 1, x, tl.where((lane == 2) | (lane == 3), v, 1.0))
            sums += one * other
            tl.store(place + (last - ahead), sums, mask=tl.where(lane < 5, last, -1) >= ahead)
        start += AHEAD


@triton.jit
def _again(ring, longest, size, before, earlier):
    """Centred sums by two passes over the window, where shifted sums lost their digits; whether it has any spread."""
    start = before - size + 1
    total = earlier - earlier
    least, most = total + float("inf"), total - float("inf")
    chunk = 0
    while chunk < size:
        i = chunk + tl.arange(0, CHUNK)
        t = start + i
        x = tl.load(ring + ((t // size) & 1) * longest + t % size, mask=i < size, other=0.0)
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
        x = tl.load(ring + ((t // size) & 1) * longest + t % size, mask=i < size, other=0.0)
        w = tl.load(ring + ((s // size) & 1) * longest + s % size, mask=(i < size) & (i > 0), other=0.0)
        d = tl.where(i < size, x - mean, 0.0)
        v = tl.where(i < size, x - tl.where(i > 0, w, earlier), 0.0)
        a += tl.sum(d * d, axis=0)
        b += tl.sum(d * v, axis=0)
        c += tl.sum(v * v, axis=0)
        chunk += CHUNK
    return a, b, c, most > least


@triton.jit(do_not_specialize=["watched", "stride", "slots", "longest"])
def _step(
    logits, stride, places, watched, befores, peaks, confs, out,
    sums, ring, rests, gates, windows, ends, slots, longest, WINS: tl.constexpr,
):  # fmt: skip
    at_row = tl.program_id(0)
    row, slot = tl.load(places + at_row).to(tl.int64), tl.load(places + watched + at_row).to(tl.int64)
    before = tl.load(befores + at_row)
    size = tl.load(windows + slot)
    peak, conf = tl.load(peaks + at_row), tl.load(confs + at_row)
    ring += slot * 4 * longest
    rests += slot * 5 * (longest + 1)
    wide = longest + 1
    at, block = before % size, before // size
    old = sums + ((before & 1).to(tl.int64) * slots + slot) * COLUMNS
    new = sums + (((before + 1) & 1).to(tl.int64) * slots + slot) * COLUMNS
    zero = conf - conf
    d, dd, dv, vv, p, held = zero, zero, zero, zero, zero, zero
    shift, last, lift = conf, conf, peak
    lowest = zero + float("inf")
    if before > 0:
        last, lowest, held = tl.load(old + 7), tl.load(old + 8), tl.load(old + 9)
        if at == 0:
            _turn(ring, rests, longest, size, block)
            shift, lift = last, tl.load(ring + (2 + ((block - 1) & 1)) * longest + size - 1)
        else:
            d, dd, dv, vv = tl.load(old), tl.load(old + 1), tl.load(old + 2), tl.load(old + 3)
            p, shift, lift = tl.load(old + 4), tl.load(old + 5), tl.load(old + 6)
    # What one thread of the program stored above is read by all of them below.
    tl.debug_barrier()
    x, v = conf - shift, conf - last
    d += x
    dd += x * x
    dv += x * v
    vv += v * v
    p += peak - lift
    tl.store(ring + (block & 1) * longest + at, conf)
    tl.store(ring + (2 + (block & 1)) * longest + at, peak)
    tl.debug_barrier()
    earlier = tl.load(ring)
    rest_d, rest_dd, rest_dv, rest_vv, rest_p = zero, zero, zero, zero, zero
    if block > 0:
        earlier = tl.load(ring + ((block - 1) & 1) * longest + at)
        rest_d, rest_dd = tl.load(rests + at + 1), tl.load(rests + wide + at + 1)
        rest_dv, rest_vv = tl.load(rests + 2 * wide + at + 1), tl.load(rests + 3 * wide + at + 1)
        rest_p = tl.load(rests + 4 * wide + at + 1)
    n = tl.minimum(before + 1, size).to(tl.float64)
    group = (d + rest_d + n * shift) / n
    low, tier = group, held
    if before + 1 >= size:
        lowest = tl.minimum(lowest, group)
        low = lowest
        if held == 0.0:
            trust, drop = tl.load(gates + slot * 4), tl.load(gates + slot * 4 + 1)
            bar, eta = tl.load(gates + slot * 4 + 2), tl.load(gates + slot * 4 + 3)
            if (p + rest_p + n * lift) / n <= trust:
                if group < drop:
                    tier = zero + 1.0
                elif bar < float("inf"):
                    tier = _risky(
                        ring, longest, size, before, earlier, n,
                        d + rest_d, dd + rest_dd, dv + rest_dv, vv + rest_vv, conf - earlier, bar, eta,
                    )  # fmt: skip
    tl.store(new, d)
    tl.store(new + 1, dd)
    tl.store(new + 2, dv)
    tl.store(new + 3, vv)
    tl.store(new + 4, p)
    tl.store(new + 5, shift)
    tl.store(new + 6, lift)
    tl.store(new + 7, conf)
    tl.store(new + 8, lowest)
    tl.store(new + 9, tier)
    out += at_row * 5
    tl.store(out, peak)
    tl.store(out + 1, conf)
    tl.store(out + 2, low)
    tl.store(out + 3, group)
    tl.store(out + 4, tier)
    if tier > 0.0:
        tl.store(logits + row * stride + tl.load(ends + slot), WINS)


@triton.jit
def _risky(ring, longest, size, before, earlier, n, d, dd, dv, vv, rise, bar, eta):
    """2 where the window's instability lies above the bar, else 0."""
    found = n - n
    if (size > 1) & (dd != 0.0):
        a, b, c = dd - d * d / n, dv - d * rise / n, vv
        spread = dd > 0.0
        if a <= ILL_CONDITIONED * dd:
            a, b, c, spread = _again(ring, longest, size, before, earlier)
        total = a + c
        if spread & (total > 0.0):
            skew = a - c
            h = tl.sqrt(skew * skew + 4.0 * b * b)
            risk = 1.0 - h / total
            if (rise < 0.0) & (h > 0.0):
                risk = risk + eta * ((1.0 + skew / h) / 2.0)
            if risk > bar:
                found = n - n + 2.0
        elif bar < 0.0:
            found = n - n + 2.0
    elif bar < 0.0:
        found = n - n + 2.0
    return found


def step(
    state: State,
    logits: torch.Tensor,
    places: torch.Tensor,
    before: torch.Tensor,
    peak: torch.Tensor,
    conf: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """Launch it; nothing waits."""
    watched = places.shape[1]
    if out is None:
        out = torch.empty((watched, 5), dtype=torch.float64, device=logits.device)
    wins = min(WINNER, torch.finfo(logits.dtype).max)
    _step[(watched,)](
        logits, logits.stride(0), places, watched, before, peak, conf, out,
        state.sums, state.ring, state.rests, state.gates, state.windows, state.ends,
        state.sums.shape[1], state.ring.shape[2], WINS=wins, num_warps=1, enable_fp_fusion=False,
    )  # fmt: skip
    return out
