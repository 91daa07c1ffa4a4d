"""Peak and confidence of every watched row in one pass over its logits, in Triton.

A row is divided into parts, with one program each, and a part into groups. The first kernel keeps the maxima of the
groups, and of every part its maximum and its sum of exponentials. The K-th largest group maximum bounds the K-th
largest logit from below, and logits above it lie in few groups: the second kernel, with one program per row, reads
these again and merges the parts. Sums of the K largest do not depend on the order of ties.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureenough.core.confidence import LOGPROB_FLOOR

MASKED = tl.constexpr(-3.4028234663852886e38)  # the lowest float32 stands for -inf and NaN
FLOOR = tl.constexpr(LOGPROB_FLOOR)
SLOTS = tl.constexpr(32)  # groups that the second kernel can read again; at least K


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


@triton.jit
def _load_logits(start, column, mask):
    x = tl.load(start + column, mask=mask, other=float("-inf")).to(tl.float32)
    return tl.maximum(x, MASKED)  # of NaN and a number, the number


@triton.jit(do_not_specialize=["parts"])
def _reduce_groups(
    logits, rows, stride, vocab, group_maxima, maxima, sums, parts, GROUPS: tl.constexpr, SIZE: tl.constexpr
):  # fmt: skip
    part, row = tl.program_id(0), tl.program_id(1)
    group = tl.arange(0, GROUPS)
    column = (part * GROUPS + group)[:, None] * SIZE + tl.arange(0, SIZE)[None, :]
    start = logits + tl.load(rows + row).to(tl.int64) * stride
    x = _load_logits(start, column, column < vocab)
    largest = tl.max(x, axis=1)
    most = tl.max(largest, axis=0)
    index = row * parts + part
    tl.store(group_maxima + index * GROUPS + group, largest)
    tl.store(maxima + index, most)
    tl.store(sums + index, tl.sum(tl.exp(x - most)))


@triton.jit(do_not_specialize=["parts"])
def _merge_groups(
    logits, rows, stride, vocab, group_maxima, maxima, sums, chosen, peak, conf, parts,
    K: tl.constexpr, GROUPS: tl.constexpr, SIZE: tl.constexpr, PARTS: tl.constexpr, ALL: tl.constexpr,
):  # fmt: skip
    """Merge the parts of one row, in float64, since there is little left to add."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    most_of = tl.load(maxima + row * parts + part, mask=part < parts, other=MASKED)
    sum_of = tl.load(sums + row * parts + part, mask=part < parts, other=0.0)
    most = tl.max(most_of, axis=0)
    total = tl.sum(sum_of.to(tl.float64) * tl.exp((most_of - most).to(tl.float64)), axis=0)
    lse = most.to(tl.float64) + tl.log(total)
    group = tl.arange(0, ALL)
    largest = tl.load(group_maxima + row * parts * GROUPS + group, mask=group < parts * GROUPS, other=MASKED)
    bound = _kth_group_maximum(tl.max(tl.reshape(largest, [ALL // 64, 64]), axis=0), K)
    bound, count = _raise_threshold(largest, bound, most, K, SLOTS)
    taken = (largest > bound).to(tl.int32)
    place = tl.cumsum(taken, axis=0) - 1
    tl.store(chosen + row * SLOTS + place, group, mask=taken > 0)
    # What some threads stored is read by others.
    tl.debug_barrier()
    slot = tl.arange(0, SLOTS)
    column = tl.load(chosen + row * SLOTS + slot, mask=slot < count, other=0)[:, None] * SIZE
    column += tl.arange(0, SIZE)[None, :]
    start = logits + tl.load(rows + row).to(tl.int64) * stride
    x = _load_logits(start, column, (slot < count)[:, None] & (column < vocab))
    # The remaining places hold the bound: K logits are not below it, so the copies cannot enter the K largest.
    x = tl.reshape(tl.where((slot < count)[:, None], x, bound), [SLOTS * SIZE])
    threshold, above = _raise_threshold(x, bound, most, K, K)
    kept = tl.sum(tl.where(x > threshold, _logprob(x, lse), 0.0), axis=0)
    tl.store(peak + row, tl.exp(_logprob(most, lse)))
    tl.store(conf + row, -(kept + (K - above) * _logprob(threshold, lse)) / K)


# How a row is divided: parts of so many groups, each of so many logits; and the warps of both kernels.
GROUPS, SIZE, WARPS, MERGE_WARPS = 32, 64, 2, 4


class Workspace:
    """Memory for what the first kernel hands to the second, and for the result; callers keep it from step to step.

    Sizes are rounded up, so that pointers have the same alignment for any number of rows and nothing is recompiled.
    """

    def __init__(self, rows: int, vocab: int, device: torch.device) -> None:
        rounded = -(-rows // 16) * 16
        self.vocab, self.parts = vocab, -(-vocab // (GROUPS * SIZE))
        self.group_maxima = torch.empty((rounded, self.parts * GROUPS), dtype=torch.float32, device=device)
        self.maxima, self.sums = torch.empty((2, rounded, self.parts), dtype=torch.float32, device=device)
        self.chosen = torch.empty((rounded, SLOTS.value), dtype=torch.int32, device=device)
        self.peak, self.conf = torch.empty((2, rounded), dtype=torch.float64, device=device)
        self.part_capacity = triton.next_power_of_2(self.parts)
        self.group_capacity = max(128, triton.next_power_of_2(self.parts * GROUPS))


def top_k_signals(
    logits: torch.Tensor, rows: torch.Tensor, k: int, workspace: Workspace
) -> tuple[torch.Tensor, torch.Tensor]:
    """Peak and conf of these rows of logits (float32, bfloat16 or float16, the last dimension dense).

    The results are float64. They are part of the workspace and valid until it is used again.
    """
    n = len(rows)
    _reduce_groups[(workspace.parts, n)](
        logits, rows, logits.stride(0), workspace.vocab, workspace.group_maxima, workspace.maxima, workspace.sums,
        workspace.parts, GROUPS=GROUPS, SIZE=SIZE, num_warps=WARPS,
    )  # fmt: skip
    _merge_groups[(n,)](
        logits, rows, logits.stride(0), workspace.vocab, workspace.group_maxima, workspace.maxima, workspace.sums,
        workspace.chosen, workspace.peak, workspace.conf, workspace.parts,
        K=k, GROUPS=GROUPS, SIZE=SIZE, PARTS=workspace.part_capacity, ALL=workspace.group_capacity,
        num_warps=MERGE_WARPS,
    )  # fmt: skip
    return workspace.peak[:n], workspace.conf[:n]
