"""The kernel of signals under Triton's interpreter, against float64.

The other kernel, the monitor's step, is tested in tests/core/test_confidence_backends.py.

TRITON_INTERPRET=1 pytest tests/vllm/test_kernels.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from tests.requirements import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch")
    require("triton")
if os.environ.get("TRITON_INTERPRET") != "1":
    if os.environ.get("SUREENOUGH_KERNEL") == "1":
        raise RuntimeError("set TRITON_INTERPRET=1: these tests have no GPU")
    pytest.skip("TRITON_INTERPRET=1 runs kernels without a GPU", allow_module_level=True)

sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks" / "gpu"))
import common

from sureenough.vllm.kernels.top_k import Workspace, top_k_signals

DTYPES = [torch.float32, torch.bfloat16, torch.float16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("vocab", [7, 100, 4_095, 32_000])
def test_signals_of_every_kind_of_row(vocab: int, dtype: torch.dtype) -> None:
    k = min(20, vocab)
    for kind, logits in common.odd_rows(vocab, dtype, "cpu").items():
        rows = torch.arange(len(logits), dtype=torch.int32).flip(0)
        computed = top_k_signals(logits, rows, k, Workspace(len(rows), vocab, logits.device))
        wanted = common.exact(logits[rows.long()], k)
        for mine, exact in zip(computed, wanted, strict=True):
            assert torch.allclose(mine, exact, rtol=1e-6, atol=2e-6), kind


@pytest.mark.parametrize("seed", range(12))
def test_random_rows(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocab, k = int(rng.integers(40, 3000)), int(rng.integers(1, 33))
    values = rng.normal(size=(4, vocab)) * rng.choice([0.1, 3.0, 50.0])
    values = np.where(rng.random(values.shape) < rng.choice([0.0, 0.5, 0.97]), -np.inf, values)
    values = values.round(int(rng.integers(0, 4)))
    values[:, 0] = 1.0
    logits = torch.from_numpy(values.astype(np.float32))
    wide = torch.zeros(4, vocab + 3)  # rows that do not lie side by side
    wide[:, :vocab] = logits
    rows = torch.tensor([2, 0, 2], dtype=torch.int32)
    computed = top_k_signals(wide[:, :vocab], rows, k, Workspace(3, vocab, wide.device))
    wanted = common.exact(logits[[2, 0, 2]], k)
    for mine, exact in zip(computed, wanted, strict=True):
        assert torch.allclose(mine, exact, rtol=1e-6, atol=2e-6)
