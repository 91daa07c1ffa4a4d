"""Peak and confidence of every watched row in one pass over its logits, in Triton.

A row is cut into parts, one program each. A part's K-th largest value is bounded from below by the K-th largest of its
groups' maxima, so few values lie above that bound: only they leave the program, with the part's maximum and sum of
exponentials. A second kernel, a program a row, merges parts. Sums of the K largest do not depend on the order of ties.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

LOWEST: tl.constexpr = tl.constexpr(-3.4028234663852886e38)  # stands for -inf and NaN: nothing is subtracted from it
FLOOR: tl.constexpr = tl.constexpr(-100.0)  # log-probabilities below it count as this much


@triton.jit
def _order(x):
    """A float32 as an integer that sorts as it does."""
    i = x.to(tl.int32, bitcast=True)
    return (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.int64)


@triton.jit
def _value(order):
    i = order.to(tl.int32)
    return (i ^ ((i >> 31) & 0x7FFFFFFF)).to(tl.float32, bitcast=True)


@triton.jit
def _at_least(groups, K: tl.constexpr):
    """The K-th largest of the groups' maxima: at least K values are not below it."""
    larger = tl.sum((groups[None, :] > groups[:, None]).to(tl.int32), axis=1)
    return tl.min(tl.where(larger < K, groups, -LOWEST), axis=0)


@triton.jit
def _above(x, bar):
    return tl.sum((x > bar).to(tl.int32))


@triton.jit
def _raise(x, bar, most, K: tl.constexpr, CAP: tl.constexpr):
    """Bisect for a higher bar until at most CAP values lie above it and at least K not below; how many lie above.

    Where ties leave no such bar, the value itself that is tied.
    """
    count = _above(x, bar)
    if count > CAP:
        low, high = _order(bar), _order(most)
        while (count > CAP) & (high - low > 1):
            middle = low + (high - low) // 2
            found = _above(x, _value(middle))
            if found >= K:
                low = middle
                count = found
            else:
                high = middle
        if count > CAP:
            bar = _value(high)
            count = _above(x, bar)
        else:
            bar = _value(low)
    return bar, count


@triton.jit
def _logprob(x, lse):
    return tl.where(x > LOWEST, tl.minimum(tl.maximum(x.to(tl.float64) - lse, FLOOR), 0.0), FLOOR)


@triton.jit(do_not_specialize=["parts"])
def _scan(
    logits, rows, stride, vocab, tops, maxima, sums, parts,
    K: tl.constexpr, CAP: tl.constexpr, HEIGHT: tl.constexpr, WIDTH: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """One part of one row."""
    part, row = tl.program_id(0), tl.program_id(1)
    column = tl.arange(0, HEIGHT)[:, None] * WIDTH + tl.arange(0, WIDTH)[None, :] + part * (HEIGHT * WIDTH)
    start = logits + tl.load(rows + row).to(tl.int64) * stride
    x = tl.load(start + column, mask=column < vocab, other=float("-inf")).to(tl.float32)
    x = tl.where(x > LOWEST, x, LOWEST)
    groups = tl.max(tl.reshape(tl.max(x, axis=0), [GROUPS, WIDTH // GROUPS]), axis=1)
    most = tl.max(groups, axis=0)
    bar, count = _raise(x, _at_least(groups, K), most, K, CAP)
    here = row * parts + part
    tl.store(maxima + here, most)
    tl.store(sums + here, tl.sum(tl.exp(x - most)))
    taken = (x > bar).to(tl.int32)
    a_column = tl.sum(taken, axis=0)
    place = (tl.cumsum(a_column, axis=0) - a_column)[None, :] + tl.cumsum(taken, axis=0) - 1
    out = tops + here.to(tl.int64) * CAP
    tl.store(out + place, x, mask=taken > 0)
    # What is left is filled with the bar: K values are not below it, so no copy too many can reach the K largest.
    rest = tl.arange(0, CAP)
    tl.store(out + rest, tl.zeros([CAP], tl.float32) + bar, mask=rest >= count)


@triton.jit(do_not_specialize=["parts"])
def _merge(
    tops, maxima, sums, peak, conf, parts,
    K: tl.constexpr, CAP: tl.constexpr, PARTS: tl.constexpr, MANY: tl.constexpr, GROUPS: tl.constexpr,
):  # fmt: skip
    """The parts of one row, in float64: what is left to add is little."""
    row = tl.program_id(0)
    part = tl.arange(0, PARTS)
    most_of = tl.load(maxima + row * parts + part, mask=part < parts, other=LOWEST)
    sum_of = tl.load(sums + row * parts + part, mask=part < parts, other=0.0)
    most = tl.max(most_of, axis=0)
    total = tl.sum(sum_of.to(tl.float64) * tl.exp((most_of - most).to(tl.float64)), axis=0)
    lse = most.to(tl.float64) + tl.log(total)
    at = tl.arange(0, MANY)
    x = tl.load(tops + row.to(tl.int64) * parts * CAP + at, mask=at < parts * CAP, other=LOWEST)
    # A part's values lie side by side: groups take every GROUPS-th, so that one part's are spread over all.
    groups = tl.max(tl.reshape(x, [MANY // GROUPS, GROUPS]), axis=0)
    bar, count = _raise(x, _at_least(groups, K), most, K, K)
    kept = tl.sum(tl.where(x > bar, _logprob(x, lse), 0.0), axis=0)
    tl.store(peak + row, tl.exp(_logprob(most, lse)))
    tl.store(conf + row, -(kept + (K - count) * _logprob(bar, lse)) / K)


class Shape:
    """How a row is cut: tiles of height x width, a program of so many warps each."""

    def __init__(self, height: int, width: int, warps: int, cap: int = 32, groups: int = 64) -> None:
        self.height, self.width, self.warps, self.cap, self.groups = height, width, warps, cap, groups

    def __repr__(self) -> str:
        return f"{self.height}x{self.width} w{self.warps} c{self.cap} g{self.groups}"


# A warp reads 16 bytes a lane: where that fills the width exactly, a column stays in one thread.
BEST = {4: Shape(8, 512, 4), 2: Shape(4, 1024, 4)}
"""By the bytes of a logit."""


class Scratch:
    """Memory for what the first kernel leaves to the second, and for the result; kept from step to step by a caller.

    Sizes are rounded up, so that pointers are aligned alike at any number of rows and nothing is compiled anew later.
    """

    def __init__(self, rows: int, vocab: int, shape: Shape, device: torch.device) -> None:
        even = -(-rows // 16) * 16
        self.rows, self.vocab, self.shape = rows, vocab, shape
        self.parts = -(-vocab // (shape.height * shape.width))
        self.tops = torch.empty((even, self.parts, shape.cap), dtype=torch.float32, device=device)
        self.maxima, self.sums = torch.empty((2, even, self.parts), dtype=torch.float32, device=device)
        self.peak, self.conf = torch.empty((2, even), dtype=torch.float64, device=device)
        self.many = max(triton.next_power_of_2(self.parts * shape.cap), shape.groups)
        self.part_room = triton.next_power_of_2(self.parts)


def signals(
    logits: torch.Tensor,
    rows: torch.Tensor,
    k: int = 20,
    shape: Shape | None = None,
    scratch: Scratch | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Peak and conf, float64, of these rows of logits (float32, bfloat16 or float16, the last dimension dense).

    With a scratch the result lies in it, and lasts until it is used again.
    """
    n = len(rows)
    room = scratch or Scratch(n, logits.shape[1], shape or BEST[logits.element_size()], logits.device)
    shape = room.shape
    _scan[(room.parts, n)](
        logits, rows, logits.stride(0), room.vocab, room.tops, room.maxima, room.sums, room.parts,
        K=k, CAP=shape.cap, HEIGHT=shape.height, WIDTH=shape.width, GROUPS=shape.groups, num_warps=shape.warps,
    )  # fmt: skip
    _merge[(n,)](
        room.tops, room.maxima, room.sums, room.peak, room.conf, room.parts,
        K=k, CAP=shape.cap, PARTS=room.part_room, MANY=room.many, GROUPS=shape.groups,
        num_warps=min(8, max(1, room.many // 256)),
    )  # fmt: skip
    return room.peak[:n], room.conf[:n]
