"""Peak, conf and certainty of rows of logits: the fused kernel on a GPU, torch's own operations on a CPU."""

from __future__ import annotations

from typing import Any

import torch

from sureenough.core.confidence.columns import LOGPROB_FLOOR
from sureenough.errors import UsageError


def allocate_workspace(rows: int, logits: torch.Tensor) -> Any:
    """Memory that `row_signals` can use for up to so many rows of such logits; None on a CPU, which needs none."""
    if not logits.is_cuda:
        return None
    from sureenough.engines.vllm.kernels.top_k import BEST_SHAPE, Workspace

    return Workspace(rows, logits.shape[1], BEST_SHAPE, logits.device)


Signals = tuple[torch.Tensor, torch.Tensor, torch.Tensor]
"""Peak, conf and certainty of each row, in float64."""


def row_signals(logits: torch.Tensor, rows: torch.Tensor, k: int, workspace: Any = None) -> Signals:
    """Probability of the likeliest token, minus the mean of the k largest log-probabilities, and certainty.

    Certainty is the divergence of the row's distribution from the uniform one: with l the logits of the V tokens that
    can be sampled, -1/V sum log(V p) = logsumexp(l) - mean(l) - log V. Logits of minus infinity and NaN are left out.
    """
    if logits.shape[1] < k:
        raise UsageError(f"confidence is a mean over {k} candidates, but the vocabulary has {logits.shape[1]} tokens")
    if logits.is_cuda:
        from sureenough.engines.vllm.kernels.top_k import top_k_signals

        return top_k_signals(logits, rows, k, workspace=workspace)
    return torch_signals(logits[rows.long()], k)


def torch_signals(logits: torch.Tensor, k: int) -> Signals:
    """The same with torch's operations; log-probabilities are float32, as in vLLM."""
    logprobs = torch.log_softmax(logits.float(), dim=-1)
    top = torch.topk(logprobs, k, dim=-1).values.double()
    top = top.nan_to_num(nan=LOGPROB_FLOOR).clamp(LOGPROB_FLOOR, 0.0)
    finite = logprobs.isfinite()
    count = finite.sum(dim=-1).double()
    certainty = -torch.where(finite, logprobs, 0.0).sum(dim=-1, dtype=torch.float64) / count - count.log()
    return top[:, 0].exp(), -top.sum(dim=1) / k, certainty.nan_to_num(0.0).clamp(min=0.0)
