"""The fused kernel on a GPU: first against float64, then against the alternatives.

    python benchmarks/gpu/kernel.py [--json FILE] [--quick]

(a) a loop over requests with a host sync each, (b) batched torch, (c) ours, (d) one plain read of the logits.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
import triton

sys.path.insert(0, str(Path(__file__).parent))
import common

from sureenough.vllm.kernels.top_k import Workspace, top_k_signals

K = 20
Keep = Callable[[str, object], None]
"""Keeps a figure under a name."""
VOCABULARIES = (7, 100, 1_000, 8_191, 32_000, 32_003, 128_257, 151_936, 151_937)
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def rows_of(logits: torch.Tensor) -> torch.Tensor:
    """All rows."""
    return torch.arange(len(logits), dtype=torch.int32, device=logits.device)


def check() -> dict[str, Any]:
    """The largest error against float64 over all kinds of rows, and the rows for which it is too large."""
    worst, cases, wrong = 0.0, 0, []
    for vocab in VOCABULARIES:
        for name, dtype in DTYPES.items():
            for kind, logits in common.odd_rows(vocab, dtype).items():
                k = min(K, vocab)
                rows = rows_of(logits).flip(0)
                computed = top_k_signals(logits, rows, k, Workspace(len(rows), vocab, logits.device))
                wanted = common.exact(logits[rows.long()], k)
                pairs = zip(computed, wanted, strict=True)
                error = max(float(((f - w).abs() / w.abs().clamp(min=1.0)).max()) for f, w in pairs)
                error = float("inf") if math.isnan(error) else error
                cases += 1
                worst = max(worst, error)
                if error > 2e-5:
                    wrong.append(f"{vocab} {name} {kind}: {error:.2e}")
    return {"cases": cases, "worst": worst, "wrong": wrong}


def loop(logits: torch.Tensor) -> list[float]:
    """The simplest processor: one request at a time, its confidence fetched to the host."""
    confidences = []
    for row in range(len(logits)):
        probabilities = torch.softmax(logits[row].float(), dim=-1)
        top = torch.topk(probabilities, K).values
        confidences.append(-torch.log(top).mean().item())
    return confidences


def batched(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Torch's own operations over the whole batch."""
    values = logits.float()
    top = torch.topk(values, K, dim=-1).values - torch.logsumexp(values, dim=-1, keepdim=True)
    return top[:, 0].exp(), -top.mean(dim=1)


READS = {
    "amax": lambda logits: logits.amax(dim=-1),
    "sum": lambda logits: logits.sum(),
    "sum per row": lambda logits: logits.sum(dim=-1),
}


def table(sizes: tuple[int, ...], vocabularies: tuple[int, ...]) -> list[dict[str, Any]]:
    """One line per size."""
    lines = []
    for vocab, rows, (name, dtype) in itertools.product(vocabularies, sizes, list(DTYPES.items())[:2]):
        batches = common.inputs(rows, vocab, dtype)
        index = torch.arange(rows, dtype=torch.int32, device="cuda")

        ours = partial(top_k_signals, rows=index, k=K, workspace=Workspace(rows, vocab, index.device))
        reads = {how: common.on_device(read, batches, 0.1) for how, read in READS.items()}
        line = {
            "rows": rows, "vocab": vocab, "dtype": name,
            "loop": common.with_launches(loop, batches[:1], 0.2),
            "torch": common.on_device(batched, batches, 0.2),
            "ours": common.on_device(ours, batches, 0.3),
            "ours again": common.on_device(ours, batches, 0.3),
            "ours launched": common.with_launches(ours, batches, 0.3),
            "read": min(reads.values()), "reads": reads,
        }  # fmt: skip
        lines.append(line)
        print(
            f"{rows:4} x {vocab:7,} {name}  loop {line['loop']:8.3f}  torch {line['torch']:7.4f}"
            f"  ours {line['ours']:7.4f}"
            f" (again {line['ours again']:7.4f}, launched {line['ours launched']:7.4f})  read {line['read']:7.4f} ms"
            f"  loop/ours {line['loop'] / line['ours']:6.0f}  ours/read {line['ours'] / line['read']:5.2f}",
            flush=True,
        )
    return lines


def main() -> None:
    """Check and measure; print a table and write JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--quick", action="store_true", help="one size")
    options = parser.parse_args()
    began = time.perf_counter()
    figures: dict[str, Any] = {}

    def keep(name: str, what: object) -> None:
        figures[name] = what
        figures["seconds"] = time.perf_counter() - began
        if options.json is not None:
            options.json.write_text(json.dumps(figures, indent=1))

    keep("device", f"{torch.cuda.get_device_name()}, torch {torch.__version__}, Triton {triton.__version__}")
    print(figures["device"], flush=True)
    try:
        keep("check", check())
        print("against float64:", figures["check"], f"{figures['seconds']:.0f} s", flush=True)
        sizes = (256,) if options.quick else (16, 64, 256, 512)
        keep("table", table(sizes, (151_936,) if options.quick else (32_000, 151_936)))
    except Exception:
        keep("error", traceback.format_exc())
        print(figures["error"], flush=True)
    print(f"{figures['seconds']:.0f} s", flush=True)


if __name__ == "__main__":
    main()
