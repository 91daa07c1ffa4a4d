"""Peak, confidence and certainty of every watched row in one pass over its logits, in Triton.

A row is divided into parts, with one program each. A part's K-th largest value is bounded from below by the K-th
largest of its groups' maxima, so few values lie above this threshold: only these leave the program, with the part's
maximum, its sum of exponentials, the number of its finite values and the sum of their distances from the maximum. A
second kernel, with one program per row, merges the parts. Sums of the K largest do not depend on the order of ties.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureenough.core.confidence.columns import LOGPROB_FLOOR

MASKED = tl.constexpr(-3.4028234663852886e38)  # the lowest float32 stands for -inf and NaN
FLOOR = tl.constexpr(LOGPROB_FLOOR)


@triton.jit
def _to_ordered_int(x):
    """A float32 as an integer that sorts in the same order."""
    i = x.to(tl.int32, bitcast=True)
    return (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.int64)


@triton.jit
def _from_ordered_int(ordered):
    i = ordered.to(tl.int32)
    return (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _kth_group_maximum(groups, K: tl.constexpr):
    """The K-th largest of the groups' maxima: at least K values are equal to it or above."""
    larger = tl.sum((groups[None, :] > groups[:, None]).to(tl.int32), axis=1)
    return tl.min(tl.where(larger < K, groups, -MASKED), axis=0)


@triton.jit
def _count_above(x, threshold):
    return tl.sum((x > threshold).to(tl.int32))


@triton.jit
def _raise_threshold(x, threshold, most, K: tl.constexpr, CAP: tl.constexpr):
    """A higher threshold, and how many values lie above it: at most CAP above, and at least K above or equal.

    It is found by bisection. If ties make this impossible, it is the tied value itself.
    """
    count = _count_above(x, threshold)
    if count > CAP:
        low, high = _to_ordered_int(threshold), _to_ordered_int(most)
        while (count > CAP) & (high - low > 1):
            middle = low + (high - low) // 2
            above = _count_above(x, _from_ordered_int(middle))
            if above >= K:
                low = middle
                count = above
            else:
                high = middle
        if count > CAP:
            threshold = _from_ordered_int(high)
            count = _count_above(x, threshold)
        else:
            threshold = _from_ordered_int(low)
    return threshold, count


@triton.jit
def _logprob(x, lse):
    return tl.where(x > MASKED, tl.minimum(tl.maximum(x.to(tl.float64) - lse, FLOOR), 0.0), FLOOR)


@triton.jit(do_not_specialize=["parts"])
def _reduce_part(
    logits, rows, stride, vocab, tops, maxima, sums, falls, counts, parts,
    K: tl.constexpr, CAP: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    part, row = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, HEIGHT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :] + part * (HEIGHT * WIDTH)
    start = logits + tl.load(rows + row).to(tl.int64) * stride
    x = tl.load(start + column, mask=column < vocab, other=float("-inf")).to(tl.float32)
    x = tl.where(x > MASKED, x, MASKED)
    groups = tl.max(tl.reshape(tl.max(x, axis=0), [GROUPS, WIDTH // GROUPS]), axis=1)
    most = tl.max(groups, axis=0)
    threshold, count = _raise_threshold(x, _kth_group_maximum(groups, K), most, K, CAP)
    index = row * parts + part
    tl.store(maxima + index, most)
    tl.store(sums + index, tl.sum(tl.exp(x - most)))
    tl.store(falls + index, tl.sum(tl.where(x > MASKED, most - x, 0.0)))
    tl.store(counts + index, tl.sum((x > MASKED).to(tl.float32)))
    taken = (x > threshold).to(tl.int32)
    per_column = tl.sum(taken, axis=0)
    place = (tl.cumsum(per_column, axis=0) - per_column)[None, :] + tl.cumsum(taken, axis=0) - 1
    out = tops + index.to(tl.int64) * CAP
    tl.store(out + place, x, mask=taken > 0)
    # The remaining places hold the threshold: K values are not below it, so the copies cannot enter the K largest.
    rest = tl.arange(0, CAP)
    tl.store(out + rest, tl.zeros([CAP], tl.float32) + threshold, mask=rest >= count)


@triton.jit(do_not_specialize=["parts"])
def _merge_parts(
    tops, maxima, sums, falls, counts, peak, conf, certainty, parts,
    K: tl.constexpr, CAP: tl.constexpr, PARTS: tl.constexpr, CANDIDATES: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one row, in float64, since there is little left to add."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    most_of = tl.load(maxima + row * parts + part, mask=part < parts, other=MASKED)
    sum_of = tl.load(sums + row * parts + part, mask=part < parts, other=0.0)
    most = tl.max(most_of, axis=0)
    total = tl.sum(sum_of.to(tl.float64) * tl.exp((most_of - most).to(tl.float64)), axis=0)
    lse = most.to(tl.float64) + tl.log(total)
    at = tl.arange(0, CANDIDATES)
    x = tl.load(tops + row.to(tl.int64) * parts * CAP + at, mask=at < parts * CAP, other=MASKED)
    # A part's values are adjacent: groups take every GROUPS-th, so that each part's values go to all groups.
    groups = tl.max(tl.reshape(x, [CANDIDATES // GROUPS, GROUPS]), axis=0)
    threshold, count = _raise_threshold(x, _kth_group_maximum(groups, K), most, K, K)
    kept = tl.sum(tl.where(x > threshold, _logprob(x, lse), 0.0), axis=0)
    tl.store(peak + row, tl.exp(_logprob(most, lse)))
    tl.store(conf + row, -(kept + (K - count) * _logprob(threshold, lse)) / K)
    # -1/V sum log(V p) over the V finite logits: log of the sum of exponentials, minus the mean, minus log V.
    count_of = tl.load(counts + row * parts + part, mask=part < parts, other=0.0).to(tl.float64)
    fall_of = tl.load(falls + row * parts + part, mask=part < parts, other=0.0).to(tl.float64)
    finite = tl.maximum(tl.sum(count_of, axis=0), 1.0)
    between = tl.where(count_of > 0.0, most - most_of, 0.0).to(tl.float64)
    divergence = tl.log(total) + tl.sum(fall_of + count_of * between, axis=0) / finite - tl.log(finite)
    sound = (most > MASKED) & (divergence > 0.0) & (divergence < float("inf"))
    tl.store(certainty + row, tl.where(sound, divergence, 0.0))


class TileShape:
    """How a row is divided: tiles of height x width, each a program with so many warps."""

    def __init__(self, height: int, width: int, warps: int, cap: int = 32, groups: int = 64) -> None:
        self.height, self.width, self.warps, self.cap, self.groups = height, width, warps, cap, groups

    def __repr__(self) -> str:
        return f"{self.height}x{self.width} w{self.warps} c{self.cap} g{self.groups}"


# A warp reads 16 bytes per lane: if that fills the width exactly, a column stays in one thread.
BEST_TILES = {4: TileShape(8, 512, 4), 2: TileShape(4, 1024, 4)}  # by the number of bytes of a logit


class Workspace:
    """Memory for what the first kernel hands to the second, and for the result; callers keep it from step to step.

    Sizes are rounded up, so that pointers have the same alignment for any number of rows and nothing is recompiled.
    """

    def __init__(self, rows: int, vocab: int, shape: TileShape, device: torch.device) -> None:
        rounded = -(-rows // 16) * 16
        self.rows, self.vocab, self.shape = rows, vocab, shape
        self.parts = -(-vocab // (shape.height * shape.width))
        self.tops = torch.empty((rounded, self.parts, shape.cap), dtype=torch.float32, device=device)
        by_part = torch.empty((4, rounded, self.parts), dtype=torch.float32, device=device)
        self.maxima, self.sums, self.falls, self.counts = by_part
        self.peak, self.conf, self.certainty = torch.empty((3, rounded), dtype=torch.float64, device=device)
        self.candidates = max(triton.next_power_of_2(self.parts * shape.cap), shape.groups)
        self.part_capacity = triton.next_power_of_2(self.parts)


def top_k_signals(
    logits: torch.Tensor,
    rows: torch.Tensor,
    k: int = 20,
    shape: TileShape | None = None,
    workspace: Workspace | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Peak, conf and certainty of these rows of logits (float32, bfloat16 or float16, the last dimension dense).

    The results are float64. With a workspace, they are part of it and valid until the workspace is used again.
    """
    n = len(rows)
    buffers = workspace or Workspace(n, logits.shape[1], shape or BEST_TILES[logits.element_size()], logits.device)
    shape = buffers.shape
    _reduce_part[(buffers.parts, n)](
        logits, rows, logits.stride(0), buffers.vocab, buffers.tops, buffers.maxima, buffers.sums,
        buffers.falls, buffers.counts, buffers.parts,
        K=k, CAP=shape.cap, HEIGHT=shape.height, WIDTH=shape.width, GROUPS=shape.groups, num_warps=shape.warps,
    )  # fmt: skip
    _merge_parts[(n,)](
        buffers.tops, buffers.maxima, buffers.sums, buffers.falls, buffers.counts,
        buffers.peak, buffers.conf, buffers.certainty, buffers.parts,
        K=k, CAP=shape.cap, PARTS=buffers.part_capacity, CANDIDATES=buffers.candidates, GROUPS=shape.groups,
        num_warps=min(8, max(1, buffers.candidates // 256)),
    )  # fmt: skip
    return buffers.peak[:n], buffers.conf[:n], buffers.certainty[:n]
