"""A variant of `kernels/top_k.py` to be measured beside it: the first pass keeps the maxima of groups only.

The K-th largest maximum bounds the K-th largest logit from below, and logits above it lie in at most K - 1 groups: the
second kernel reads these again. So the first pass, which sees every logit, does little more than a maximum and an
exponential per logit; the published kernel also counts and moves the values above a threshold, and is limited by that.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from sureenough.engines.vllm.kernels.top_k import MASKED, _kth_group_maximum, _logprob, _raise_threshold

SLOTS = tl.constexpr(32)  # groups that the second kernel can read again; at least K


@triton.jit
def _load_logits(start, column, mask):
    x = tl.load(start + column, mask=mask, other=float("-inf")).to(tl.float32)
    return tl.where(x > MASKED, x, MASKED)


@triton.jit(do_not_specialize=["parts"])
def _reduce_groups(
    logits, rows, stride, vocab, group_maxima, maxima, sums, parts, GROUPS: tl.constexpr, SIZE: tl.constexpr,
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
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    most_of = tl.load(maxima + row * parts + part, mask=part < parts, other=MASKED)
    sum_of = tl.load(sums + row * parts + part, mask=part < parts, other=0.0)
    most = tl.max(most_of, axis=0)
    lse = most.to(tl.float64) + tl.log(tl.sum(sum_of.to(tl.float64) * tl.exp((most_of - most).to(tl.float64)), axis=0))
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


class GroupShape:
    """How a row is divided: parts of so many groups, each of so many logits; and the warps of a part."""

    def __init__(self, groups: int, size: int, warps: int, merge_warps: int = 4) -> None:
        self.groups, self.size, self.warps, self.merge_warps = groups, size, warps, merge_warps

    def __repr__(self) -> str:
        return f"{self.groups} groups of {self.size} w{self.warps} m{self.merge_warps}"


BEST_GROUPS = GroupShape(64, 64, 4)
GROUP_SHAPES = [
    GroupShape(*of)
    for of in (
        (64, 64, 4), (64, 64, 4, 8), (64, 64, 8), (32, 64, 2), (128, 64, 8), (32, 128, 4), (64, 128, 8), (16, 128, 2),
    )
]  # fmt: skip


class GroupWorkspace:
    """Memory between the two kernels, and for the result."""

    def __init__(self, rows: int, vocab: int, shape: GroupShape, device: torch.device) -> None:
        rounded = -(-rows // 16) * 16
        self.shape, self.parts = shape, -(-vocab // (shape.groups * shape.size))
        self.group_maxima = torch.empty((rounded, self.parts * shape.groups), dtype=torch.float32, device=device)
        self.maxima, self.sums = torch.empty((2, rounded, self.parts), dtype=torch.float32, device=device)
        self.chosen = torch.empty((rounded, SLOTS.value), dtype=torch.int32, device=device)
        self.peak, self.conf = torch.empty((2, rounded), dtype=torch.float64, device=device)


def group_signals(
    logits: torch.Tensor, rows: torch.Tensor, k: int = 20, shape: GroupShape | None = None
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `top_k_signals`."""
    shape = shape or BEST_GROUPS
    n, vocab = len(rows), logits.shape[1]
    buffers = GroupWorkspace(n, vocab, shape, logits.device)
    _reduce_groups[(buffers.parts, n)](
        logits, rows, logits.stride(0), vocab, buffers.group_maxima, buffers.maxima, buffers.sums, buffers.parts,
        GROUPS=shape.groups, SIZE=shape.size, num_warps=shape.warps,
    )  # fmt: skip
    _merge_groups[(n,)](
        logits, rows, logits.stride(0), vocab, buffers.group_maxima, buffers.maxima, buffers.sums, buffers.chosen,
        buffers.peak, buffers.conf, buffers.parts, K=k, GROUPS=shape.groups, SIZE=shape.size,
        PARTS=triton.next_power_of_2(buffers.parts),
        ALL=max(128, triton.next_power_of_2(buffers.parts * shape.groups)), num_warps=shape.merge_warps,
    )  # fmt: skip
    return buffers.peak[:n], buffers.conf[:n]
