"""Attention of some new tokens per path over its own keys and values, each path as far as it has come; in Triton."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl

BLOCK = 64
"""Keys that are read at a time."""
LEAST = 16
"""Rows of a product of matrices, which are filled up with zeros."""


@triton.jit
def attend_kernel(
    query, key, value, position, out, scale, longest, count,
    GROUPS: tl.constexpr, REPEAT: tl.constexpr, HEAD: tl.constexpr, LINES: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    first = tl.load(position + row).to(tl.int32)
    lines, features, places = tl.arange(0, LINES), tl.arange(0, HEAD), tl.arange(0, BLOCK)
    token, repeat = lines // REPEAT, lines % REPEAT
    heads = ((row * count + token) * GROUPS + group) * REPEAT + repeat
    real = token < count
    q = tl.load(query + heads[:, None] * HEAD + features[None, :], mask=real[:, None], other=0.0)
    start = (row * GROUPS + group) * longest * HEAD
    length = tl.minimum(first + count, longest)
    highest = tl.full([LINES], float("-inf"), tl.float32)
    total = tl.zeros([LINES], tl.float32)
    mixed = tl.zeros([LINES, HEAD], tl.float32)
    for begin in range(0, length, BLOCK):
        at = begin + places
        inside = at < length
        where = start + at[:, None] * HEAD + features[None, :]
        k = tl.load(key + where, mask=inside[:, None], other=0.0)
        score = tl.dot(q, tl.trans(k)) * scale
        score = tl.where(at[None, :] <= first + token[:, None], score, float("-inf"))
        new = tl.maximum(highest, tl.max(score, axis=1))
        kept = tl.exp(highest - new)
        share = tl.exp(score - new[:, None])
        v = tl.load(value + where, mask=inside[:, None], other=0.0)
        mixed = mixed * kept[:, None] + tl.dot(share.to(v.dtype), v)
        total = total * kept + tl.sum(share, axis=1)
        highest = new
    tl.store(out + heads[:, None] * HEAD + features[None, :], mixed / total[:, None], mask=real[:, None])


def attend(query: Any, key: Any, value: Any, position: Any) -> Any:
    """The mix of values for queries [rows, tokens, heads, head], the first of which are at these positions.

    Keys and values are [rows, groups, longest, head].
    """
    rows, groups, longest, head = key.shape
    query = query.contiguous()
    out = torch.empty_like(query)
    count, repeat = query.shape[1], query.shape[2] // groups
    lines = max(LEAST, triton.next_power_of_2(count * repeat))
    attend_kernel[rows, groups](
        query, key, value, position, out, head**-0.5, longest, count, groups, repeat, head, lines, BLOCK
    )
    return out
