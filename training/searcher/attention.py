"""Attention of new tokens over the cache: in Triton if that works, else in plain torch."""

from __future__ import annotations

import sys
from collections.abc import Callable

import torch
from torch import Tensor

Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def attend_plainly(query: Tensor, key: Tensor, value: Tensor, position: Tensor) -> Tensor:
    """As decode_kernel.attend, over the whole cache, or over the part of it that is used."""
    rows, count, _, head = query.shape
    # reading positions would break a CUDA graph
    used = key.shape[2] if key.is_cuda else min(key.shape[2], int(position.max()) + count)
    key, value = key[:, :, :used], value[:, :, :used]
    grouped = query.view(rows, count, key.shape[1], -1, head)
    scores = torch.einsum("rcgnh,rglh->rgncl", grouped, key).float() * head**-0.5
    seen = position[:, None] + torch.arange(count, device=key.device)
    hidden = torch.arange(used, device=key.device) > seen[:, :, None]
    shares = scores.masked_fill(hidden[:, None, None], float("-inf")).softmax(-1).to(value.dtype)
    return torch.einsum("rgncl,rglh->rcgnh", shares, value).reshape(query.shape)


def best_attention(device: torch.device, dtype: torch.dtype) -> Attend:
    """The Triton kernel if it works here and agrees with plain torch; plain torch otherwise."""
    if device.type != "cuda":
        return attend_plainly
    try:
        from searcher.decode_kernel import attend

        for count in (1, 23):
            generator = torch.Generator(device).manual_seed(0)
            query, key, value = (
                torch.randn(shape, generator=generator, device=device, dtype=dtype)
                for shape in ((64, count, 8, 64), (64, 4, 512, 64), (64, 4, 512, 64))
            )
            position = torch.randint(0, 512 - count, (64,), generator=generator, device=device)
            arguments = query, key, value, position
            torch.testing.assert_close(attend(*arguments), attend_plainly(*arguments), atol=2e-2, rtol=2e-2)
        return attend
    except Exception as error:
        print(f"the Triton kernel does not work here, plain torch is used: {error!r:.300}", file=sys.stderr)
        return attend_plainly
