"""The kernels' own code under Triton's interpreter: signals against float64, steps against numpy, bit by bit.

TRITON_INTERPRET=1 pytest tests/engines/inside/test_kernel.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from sureenough.core.pruning import Gate
from tests.engines.inside.needs import needed

if TYPE_CHECKING:
    import torch
else:
    torch = needed("torch")
    needed("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    if os.environ.get("SUREENOUGH_KERNEL") == "1":
        raise RuntimeError("set TRITON_INTERPRET=1: these tests have no GPU")
    pytest.skip("TRITON_INTERPRET=1 runs kernels without a GPU", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks" / "gpu"))
import common

from sureenough.engines.vllm.kernels import monitor_step as stepping
from sureenough.engines.vllm.kernels import top_k as kernel
from sureenough.engines.vllm.kernels.state import State, step

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocab", [7, 100, 4_095, 32_000])
def test_signals_of_every_kind_of_row(vocab: int, dtype: torch.dtype) -> None:
    k = min(20, vocab)
    for kind, logits in common.odd_rows(vocab, dtype, "cpu").items():
        rows = torch.arange(len(logits), dtype=torch.int32).flip(0)
        found, wanted = kernel.signals(logits, rows, k), common.exact(logits[rows.long()], k)
        for mine, exact in zip(found, wanted, strict=True):
            assert torch.allclose(mine, exact, rtol=0, atol=2e-6), kind


@pytest.mark.parametrize("seed", range(12))
def test_random_rows_and_shapes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocab, k = int(rng.integers(40, 3000)), int(rng.integers(1, 33))
    values = rng.normal(size=(4, vocab)) * rng.choice([0.1, 3.0, 50.0])
    values = np.where(rng.random(values.shape) < rng.choice([0.0, 0.5, 0.97]), -np.inf, values)
    values = values.round(int(rng.integers(0, 4)))
    values[:, 0] = 1.0
    logits = torch.from_numpy(values.astype(np.float32))
    shape = kernel.Shape(int(rng.choice([1, 2, 4])), int(rng.choice([64, 128, 512])), 1, int(rng.choice([32, 64])))
    wide = torch.zeros(4, vocab + 3)  # rows that do not lie side by side
    wide[:, :vocab] = logits
    rows = torch.tensor([2, 0, 2], dtype=torch.int32)
    found, wanted = kernel.signals(wide[:, :vocab], rows, k, shape), common.exact(logits[[2, 0, 2]], k)
    for mine, exact in zip(found, wanted, strict=True):
        assert torch.allclose(mine, exact, rtol=0, atol=2e-6)


def test_the_step_is_numpys_bit_by_bit() -> None:
    rng = np.random.default_rng(0)
    windows = [1, 2, 3, 5, 8, 8]
    rows, tokens = len(windows), 27
    conf = rng.normal(10, 1, (tokens, rows))
    conf[:, 3] = conf[:, 3].round()
    conf[5:20, 4] = 7.25  # no spread
    conf[:, 5] = 7 + 1e-9 * conf[:, 5]
    conf[4, 5] = 50.0  # sums that lose their digits
    peak = rng.random((tokens, rows))
    gates = [Gate(0.6, 9.2, 0.5), Gate(0.7, -np.inf, 0.9), Gate(), Gate(drop=9.0), Gate(risk=0.55), Gate(risk=1.3)]
    states = [State.empty(rows + 2, 8, torch.device("cpu")) for _ in range(2)]
    for slot, (window, gate) in enumerate(zip(windows, gates, strict=True)):
        for state in states:
            state.admit(slot, window, gate, 3)
    order = torch.arange(rows, dtype=torch.int32)
    places = torch.stack((order.flip(0), order))
    for t in range(tokens):
        told = [torch.from_numpy(part[t].copy()) for part in (peak, conf)]
        before = torch.full((rows,), t, dtype=torch.int32)
        logits = torch.zeros(rows, 8), torch.zeros(rows, 8)
        plain = step(states[0], logits[0], places, before, *told)
        fused = stepping.step(states[1], logits[1], places, before, *told)
        assert torch.equal(plain, fused)
        assert torch.equal(*logits)
    assert {0.0, 1.0, 2.0} <= set(plain[:, 4].tolist())
