"""Peak and conf of rows of logits: the fused kernel on a GPU, torch's own operations on a CPU."""

from __future__ import annotations

from typing import Any

import torch

from sureenough.core.confidence import LOGPROB_FLOOR
from sureenough.errors import UsageError


def allocate_workspace(rows: int, logits: torch.Tensor) -> Any:
    """Memory that `row_signals` can use for up to so many rows of such logits; None on a CPU, which needs none."""
    if not logits.is_cuda:
        return None
    from sureenough.vllm.kernels.top_k import BEST_SHAPE, Workspace

    return Workspace(rows, logits.shape[1], BEST_SHAPE, logits.device)


Signals = tuple[torch.Tensor, torch.Tensor]
"""Peak and conf of each row, in float64."""


def row_signals(logits: torch.Tensor, rows: torch.Tensor, k: int, workspace: Any = None) -> Signals:
    """Probability of the likeliest token, and minus the mean of the k largest log-probabilities."""
    if logits.shape[1] < k:
        raise UsageError(f"confidence is a mean over {k} candidates, but the vocabulary has {logits.shape[1]} tokens")
    if logits.is_cuda:
        from sureenough.vllm.kernels.top_k import top_k_signals

        return top_k_signals(logits, rows, k, workspace=workspace)
    return torch_signals(logits[rows.long()], k)


def torch_signals(logits: torch.Tensor, k: int) -> Signals:
    """The same with torch's operations; log-probabilities are float32, as in vLLM."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top = torch.topk(logprobs, k, dim=-1).values.double()
    top = top.nan_to_num(nan=LOGPROB_FLOOR).clamp(LOGPROB_FLOOR, 0.0)
    return top[:, 0].exp(), -top.sum(dim=1) / k
