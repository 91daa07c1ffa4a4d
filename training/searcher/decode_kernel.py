"""Attention of one new token per path over its own keys and values, each path as far as it has come; in Triton."""

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl


@triton.jit
def attend_kernel(
    query, key, value, position, out, scale, longest,
    GROUPS: tl.constexpr, REPEAT: tl.constexpr, HEAD: tl.constexpr, BLOCK: tl.constexpr,
):  # fmt: skip
    row, group = tl.program_id(0).to(tl.int64), tl.program_id(1)
    length = tl.load(position + row).to(tl.int32) + 1
    repeats, features, places = tl.arange(0, REPEAT), tl.arange(0, HEAD), tl.arange(0, BLOCK)
    heads = (row * GROUPS + group) * REPEAT + repeats
    q = tl.load(query + heads[:, None] * HEAD + features[None, :]).to(tl.float32) * scale
    start = (row * GROUPS + group) * longest * HEAD
    highest = tl.full([REPEAT], float("-inf"), tl.float32)
    total = tl.zeros([REPEAT], tl.float32)
    mixed = tl.zeros([REPEAT, HEAD], tl.float32)
    for begin in range(0, length, BLOCK):
        at = begin + places
        inside = at < length
        where = start + at[:, None] * HEAD + features[None, :]
        k = tl.load(key + where, mask=inside[:, None], other=0.0).to(tl.float32)
        score = tl.sum(q[:, None, :] * k[None, :, :], axis=2)
        score = tl.where(inside[None, :], score, float("-inf"))
        new = tl.maximum(highest, tl.max(score, axis=1))
        kept = tl.exp(highest - new)
        share = tl.exp(score - new[:, None])
        v = tl.load(value + where, mask=inside[:, None], other=0.0).to(tl.float32)
        mixed = mixed * kept[:, None] + tl.sum(share[:, :, None] * v[None, :, :], axis=1)
        total = total * kept + tl.sum(share, axis=1)
        highest = new
    tl.store(out + heads[:, None] * HEAD + features[None, :], mixed / total[:, None])


def attend(query: Any, key: Any, value: Any, position: Any) -> Any:
    """The mix of values for queries [rows, heads, head]; keys and values are [rows, groups, longest, head]."""
    rows, groups, longest, head = key.shape
    out = torch.empty_like(query)
    repeat = query.shape[1] // groups
    attend_kernel[rows, groups](
        query.contiguous(), key, value, position, out, head**-0.5, longest, groups, repeat, head, 64
    )
    return out
