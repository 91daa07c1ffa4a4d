"""Shared by the measurements on a GPU: times by device events and graphs, inputs larger than the cache, odd rows.

They need torch, numpy and Triton; the package itself need not be installed.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2] / "src"))


Step = Callable[[torch.Tensor], object]
"""The function that is measured; it takes one batch of logits."""


def inputs(rows: int, vocab: int, dtype: torch.dtype, at_least: int = 400 << 20) -> list[torch.Tensor]:
    """Different batches of logits, together larger than any cache."""
    one = rows * vocab * torch.finfo(dtype).bits // 8
    count = max(2, min(16, -(-at_least // one)))
    return [(torch.randn(rows, vocab, device="cuda") * 3).to(dtype) for _ in range(count)]


def on_device(step: Step, batches: Sequence[torch.Tensor], seconds: float = 0.4) -> float:
    """Milliseconds per step on the device: a graph over all batches, replayed; the median of replays."""
    for batch in batches[:2]:
        step(batch)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for batch in batches:
                step(batch)
    except RuntimeError as error:
        print("this cannot be captured as a graph:", str(error)[:100])
        torch.cuda.synchronize()
        return with_launches(step, batches, seconds)
    return _replayed(graph.replay, len(batches), seconds)


def with_launches(step: Step, batches: Sequence[torch.Tensor], seconds: float = 0.4, turns: int = 1) -> float:
    """Milliseconds per step for a caller that launches every step and waits once for all of them."""
    for batch in batches[:2]:
        step(batch)

    def launch_all() -> None:
        for batch in [*batches] * turns:
            step(batch)

    return _replayed(launch_all, turns * len(batches), seconds)


def behind_a_model(step: Step, batches: Sequence[torch.Tensor], many: int = 60) -> list[float]:
    """Milliseconds that a step adds if the device has a model's work to do before it, sorted.

    An engine launches model and monitor together: the host's work is done while the device still runs the model.
    """
    times: list[float] = []
    for turn in range(many):
        torch.cuda._sleep(4_000_000)  # cycles: 2 to 3 ms, a small model's step
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        step(batches[turn % len(batches)])
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after))
    return sorted(times)


def _replayed(work: Callable[[], object], steps: int, seconds: float) -> float:
    times: list[float] = []
    work()
    torch.cuda.synchronize()
    end = time.perf_counter() + seconds
    while len(times) < 5 or time.perf_counter() < end:
        before, after = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        before.record()
        work()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / steps)
        if len(times) >= 200:
            break
    return statistics.median(times)


def odd_rows(vocab: int, dtype: torch.dtype, device: str = "cuda") -> dict[str, torch.Tensor]:
    """Rows of every kind that a kernel may be given."""
    rng = torch.Generator(device=device).manual_seed(vocab)

    def normal(rows: int) -> torch.Tensor:
        return torch.randn(rows, vocab, device=device, generator=rng)

    chance = torch.rand(4, vocab, device=device, generator=rng)
    chance[:, 0] = 1.0
    few = torch.full((2, vocab), -torch.inf, device=device)
    few[:, : min(vocab, 5)] = normal(2)[:, :5]
    peaked = normal(3)
    peaked[:, vocab // 2] = 60.0
    side = normal(2) - 30.0
    side[:, vocab // 3 : vocab // 3 + 200] += 40.0
    rows = {
        "random": normal(8) * 3,
        "wide": normal(3) * 200,
        "constant": torch.full((2, vocab), 1.5, device=device),
        "tied": (normal(4) * 2).round(),
        "two values": (chance > 0.5).float(),
        "masked": torch.where(chance < 0.98, -torch.inf, normal(4)),
        "five left": few,
        "peaked": peaked,
        "side by side": side,
        "sorted": torch.linspace(-9, 9, vocab, device=device).repeat(2, 1),
        "all masked": torch.full((1, vocab), -torch.inf, device=device),
    }
    return {name: values.to(dtype) for name, values in rows.items()}


def exact(logits: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Peak and conf in float64 by sorting."""
    logprobs = torch.log_softmax(logits.double(), dim=-1).nan_to_num(nan=-100.0).clamp(-100.0, 0.0)
    top = logprobs.sort(dim=-1, descending=True).values[:, :k]
    return top[:, 0].exp(), -top.mean(dim=1)
