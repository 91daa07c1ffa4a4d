"""Peak and conf of rows of logits: the fused kernel on a GPU, torch's own operations elsewhere."""

from __future__ import annotations

from typing import Any

import torch

from sureenough.engines.openai.logprobs import FLOOR
from sureenough.errors import UsageError


def scratch(rows: int, logits: torch.Tensor) -> Any:
    """Memory that `signals` can use for logits like these, up to so many rows; None where it needs none."""
    if not logits.is_cuda:
        return None
    from sureenough.engines.vllm.kernels import top_k as kernel

    return kernel.Scratch(rows, logits.shape[1], kernel.BEST[logits.element_size()], logits.device)


def signals(logits: torch.Tensor, rows: torch.Tensor, k: int, room: Any = None) -> tuple[torch.Tensor, torch.Tensor]:
    """Probability of the likeliest token, and minus the mean of the k largest log-probabilities; in float64."""
    if logits.shape[1] < k:
        raise UsageError(f"confidence is a mean over {k} candidates; there are {logits.shape[1]}")
    if logits.is_cuda:
        from sureenough.engines.vllm.kernels import top_k as kernel

        return kernel.signals(logits, rows, k, scratch=room)
    return plain(logits[rows.long()], k)


def plain(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The same by torch's operations; log-probabilities are float32, as vLLM's own."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top = torch.topk(logprobs, k, dim=-1).values.double().nan_to_num(nan=FLOOR).clamp(FLOOR, 0.0)
    return top[:, 0].exp(), -top.sum(dim=1) / k
