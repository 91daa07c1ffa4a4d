"""The whole monitor on a GPU: its decisions against core's, then the time that it adds to a step.

python benchmarks/gpu/monitor.py [--json FILE] [--tokens 1000000] [--quick]

--quick measures only the largest batch.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import common

from sureenough.core.confidence import Monitor, scan
from sureenough.core.pruning import Gate, Stratified
from sureenough.engines.watch.protocol import TIERS, K, WatchRequest
from sureenough.vllm.kernels.monitor_step import BatchState, launch_step
from sureenough.vllm.kernels.steps import RESULT_COLUMNS, RESULT_LOWEST, RESULT_TAIL, RESULT_TIER
from sureenough.vllm.kernels.top_k import Workspace, top_k_signals
from sureenough.vllm.monitor import BatchMonitor, DevicePaths
from sureenough.vllm.records import Ints, PathRecords

CODES = {tier: code for code, tier in TIERS.items()}
ROWS, VOCABULARY = 64, 151_936


class Token(NamedTuple):
    """One token of a row, and core's values after it."""

    before: int
    peak: float
    conf: float
    lowest: float
    tail: float
    tier: float


def signal(rng: np.random.Generator, n: int) -> tuple[np.ndarray, np.ndarray]:
    """A path's signals: noise around a drift, rounded as recorded paths are, with flat stretches."""
    conf = 14 + np.cumsum(rng.normal(0, 0.02, n)) + rng.gamma(2, 1.5, n)
    peak = rng.beta(4, 1, n)
    flat = rng.random(n) < 0.002
    for start in np.flatnonzero(flat):
        conf[start : start + 200], peak[start : start + 200] = 17.25, 1.0
    return peak.astype(np.float16).astype(np.float64), conf.astype(np.float16).astype(np.float64)


def row_of_paths(seed: int, tokens: int, window: int) -> tuple[Gate, list[Token]]:
    """Paths one after the other, each until it ends or core prunes it."""
    rng = np.random.default_rng(seed)
    gate = Stratified(drop=2.0)([scan(*signal(rng, 3 * window), window) for _ in range(8)])
    if seed % 4 == 0:
        gate = Gate()
    row: list[Token] = []
    while len(row) < tokens:
        path = Monitor(window)
        for before, (peak, conf) in enumerate(
            zip(*map(np.ndarray.tolist, signal(rng, int(rng.integers(1, 5 * window)))), strict=True)
        ):
            tier = CODES[gate.tier(path) if path.push(peak, conf) else None]
            row.append(Token(before, peak, conf, path.lowest, path.tail, tier))
            if tier:
                break
    return gate, row[:tokens]


def decisions(tokens: int) -> dict[str, Any]:
    """Compare the device's decisions with core's on the same signals."""
    steps = tokens // ROWS
    windows = [(64, 256, 1000, 2048)[i % 4] if i % 8 else (1, 2, 3, 5)[i // 8 % 4] for i in range(ROWS)]
    rows = [row_of_paths(i, steps, window) for i, window in enumerate(windows)]
    paths = DevicePaths(ROWS, 2048, torch.device("cuda"))
    for slot, (gate, _) in enumerate(rows):
        paths.start(slot, windows[slot], gate, 0)
    tokens_of_rows = torch.tensor(
        [[list(token) for token in each] for _, each in rows], dtype=torch.float64, device="cuda"
    )
    tokens_of_rows = tokens_of_rows.transpose(0, 1).contiguous()
    index = torch.arange(ROWS, dtype=torch.int32, device="cuda")
    before = tokens_of_rows[:, :, 0].to(torch.int32)
    places = torch.stack((index, index))
    logits = torch.zeros((ROWS, 16), device="cuda")
    results = torch.empty((steps, ROWS, RESULT_COLUMNS), dtype=torch.float64, device="cuda")
    start = time.perf_counter()
    for at in range(steps):
        peak, conf = tokens_of_rows[at, :, 1].contiguous(), tokens_of_rows[at, :, 2].contiguous()
        launch_step(paths.state, logits, places, before[at], peak, conf, results[at])
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    wanted, means = tokens_of_rows[:, :, 3:], results[:, :, RESULT_LOWEST : RESULT_TAIL + 1]
    return {
        "tokens": steps * ROWS,
        "decisions that differ": int((results[:, :, RESULT_TIER] != wanted[:, :, 2]).sum()),
        "pruned by drop": int((wanted[:, :, 2] == 1).sum()),
        "pruned by risk": int((wanted[:, :, 2] == 2).sum()),
        "lowest or tail not equal to the last bit": int((means != wanted[:, :, :2]).sum()),
        "largest difference": float((means - wanted[:, :, :2]).abs().max()),
        "seconds": seconds,
    }


class Watched:
    """Rows that are watched, each with so many tokens."""

    def __init__(self, rows: Sequence[int], gates: Sequence[Gate], window: int, end_token: int, tokens: Ints) -> None:
        records = PathRecords(len(rows) + 8)
        self.monitor = BatchMonitor(len(rows) + 8, max(window, 8), torch.device("cuda"), records)
        requests = [WatchRequest(f"path-{row:05}", window, gate) for row, gate in zip(rows, gates, strict=True)]
        slots = [self.monitor.start(request, end_token) for request in requests]
        self._rows, self._slots, self._tokens = np.array(rows), np.array(slots), tokens

    def step(self, logits: torch.Tensor) -> None:
        self.monitor.step(logits, self._rows, self._slots, self._tokens.astype(np.int32))
        self._tokens = self._tokens + 1


def cost(rows: int, vocab: int, *, aligned: bool) -> dict[str, Any]:
    """Milliseconds that a step of the whole monitor adds, by what the rows are doing."""
    tokens = np.zeros(rows, np.int64) if aligned else np.random.default_rng(0).integers(0, 6000, rows)
    watched = Watched(range(rows), [Gate(0.99, -1.0, 9.0)] * rows, 2048, 5, tokens)
    monitor, one = watched.monitor, watched.step
    batches = common.inputs(rows, vocab, torch.float32)
    launched = common.with_launches(one, batches, 1.0)
    steady = common.with_launches(one, batches, 1.0, turns=-(-32 // len(batches)))
    behind = common.behind_a_model(one, batches)
    # Host time: how long the caller takes to launch, without waiting for the device.
    torch.cuda.synchronize()
    start = time.perf_counter()
    for turn in range(12):
        one(batches[turn % len(batches)])
    host = (time.perf_counter() - start) / 12 * 1e3
    torch.cuda.synchronize()
    index = torch.arange(rows, dtype=torch.int32, device="cuda")
    workspace = Workspace(rows, vocab, batches[0].device)
    alone = common.on_device(lambda logits: top_k_signals(logits, index, K, workspace), batches, 0.3)
    signals = top_k_signals(batches[0], index, K, workspace)
    results = torch.empty((rows, RESULT_COLUMNS), dtype=torch.float64, device="cuda")
    assert isinstance(monitor.paths, DevicePaths)
    state = monitor.paths.state
    by_turn = {}
    for name, at in (("in a block", 3000), ("at a block's end", 4096)):
        table = torch.stack((index, index, torch.full_like(index, at)))
        by_turn[name] = common.on_device(partial(_state_alone, state, table, signals, results), batches, 0.2)
    reads = min(common.on_device(lambda logits: logits.amax(dim=-1), batches, 0.1),
                common.on_device(lambda logits: logits.sum(), batches, 0.1))  # fmt: skip
    return {
        "rows": rows, "vocab": vocab, "aligned": aligned, "per step": launched,
        "one of 32 steps": steady, "host": host,
        "behind a model": {"median": behind[30], "90%": behind[54], "most": behind[-1]},
        "signals alone": alone, "state alone": by_turn, "one read": reads,
        "state MiB": sum(part.nbytes for part in state) / 2**20,
    }  # fmt: skip


def _state_alone(
    state: BatchState, table: torch.Tensor, signals: tuple[torch.Tensor, torch.Tensor], results: torch.Tensor,
    logits: torch.Tensor,
) -> None:  # fmt: skip
    launch_step(state, logits, table[:2], table[2], *signals, results)


def ends() -> dict[str, Any]:
    """A row whose gate closes samples its end token, at any temperature, from any logits; others are unchanged."""
    wrong = 0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        logits = (torch.randn(8, 1000, device="cuda") * 5).to(dtype)
        rows = range(0, 8, 2)
        gates = [Gate(drop=1e9 if row % 4 == 0 else -1.0) for row in rows]
        watched = Watched(rows, gates, 4, 7, np.zeros(len(rows), np.int64))
        for turn in range(4):
            copy = logits.clone()
            watched.step(copy)
            changed = (copy != logits).any(dim=1).nonzero().flatten().tolist()
            wrong += changed != ([0, 4] if turn == 3 else [])
        for temperature in (0.01, 0.6, 2.0):
            probabilities = torch.softmax(copy.float() / temperature, dim=-1)
            wrong += not bool((probabilities[[0, 4], 7] == 1.0).all())
    return {"wrong": wrong}


def main() -> None:
    """Check the decisions, then measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    parser.add_argument("--quick", action="store_true", help="one size")
    options = parser.parse_args()
    figures: dict[str, Any] = {"device": torch.cuda.get_device_name()}
    parts: dict[str, Callable[[], dict[str, Any]]] = {"ends": ends, "decisions": partial(decisions, options.tokens)}
    sizes = [
        (512, VOCABULARY, False), (512, VOCABULARY, True), (256, VOCABULARY, False), (64, VOCABULARY, False),
        (16, VOCABULARY, False), (512, 32_000, False),
    ]  # fmt: skip
    for rows, vocab, aligned in sizes[:1] if options.quick else sizes:
        parts[f"cost {rows} x {vocab} aligned={aligned}"] = partial(cost, rows, vocab, aligned=aligned)
    for name, part in parts.items():
        start = time.perf_counter()
        try:
            figures[name] = part()
        except Exception:
            figures[name] = traceback.format_exc()
        print(f"{name} ({time.perf_counter() - start:.0f} s): {figures[name]}", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(figures, indent=1))


if __name__ == "__main__":
    main()
