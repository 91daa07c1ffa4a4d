"""Muon: momentum, made orthogonal by a few Newton-Schulz steps; for the matrices of a model's layers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor

COEFFICIENTS = (3.4445, -4.7750, 2.0315)


def orthogonal(stack: Tensor, steps: int = 5) -> Tensor:
    """The nearest orthogonal matrices, roughly, of a stack of matrices of one shape."""
    x = stack.bfloat16() if stack.is_cuda else stack.float()
    tall = x.shape[-2] > x.shape[-1]
    x = x.mT if tall else x
    x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
    a, b, c = COEFFICIENTS
    for _ in range(steps):
        square = x @ x.mT
        x = a * x + (b * square + c * square @ square) @ x
    return x.mT if tall else x


class Muon(torch.optim.Optimizer):
    """Updates have the size that AdamW's have, so that both take the same learning rate."""

    def __init__(self, matrices: Iterable[Tensor], rate: float, decay: float = 0.1, momentum: float = 0.95) -> None:
        super().__init__(matrices, {"lr": rate, "decay": decay, "momentum": momentum})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:
        """One step for all matrices, those of one shape together."""
        for group in self.param_groups:
            shapes: dict[torch.Size, list[Tensor]] = defaultdict(list)
            for matrix in group["params"]:
                if matrix.grad is not None:
                    shapes[matrix.shape].append(matrix)
            for shape, matrices in shapes.items():
                moved = orthogonal(torch.stack([self._momentum(one, group["momentum"]) for one in matrices]))
                size = 0.2 * max(shape) ** 0.5
                for matrix, update in zip(matrices, moved.unbind(), strict=True):
                    matrix.mul_(1 - group["lr"] * group["decay"])
                    matrix.add_(update.to(matrix.dtype), alpha=-group["lr"] * size)

    def _momentum(self, matrix: Tensor, momentum: float) -> Tensor:
        """The gradient with Nesterov's momentum."""
        state = self.state[matrix]
        if "momentum" not in state:
            state["momentum"] = torch.zeros_like(matrix)
        gradient = matrix.grad
        state["momentum"].lerp_(gradient, 1 - momentum)
        return gradient.lerp(state["momentum"], momentum)
