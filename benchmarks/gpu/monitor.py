"""The whole monitor on a GPU: its decisions against core's, then what it adds to a step.

python benchmarks/gpu/monitor.py [--json FILE] [--tokens 1000000]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

sys.path.insert(0, str(Path(__file__).parent))
import common

from sureenough.core.confidence.array import scan
from sureenough.core.confidence.streaming import Monitor as CoreMonitor
from sureenough.core.pruning import Gate, Stratified
from sureenough.engines.vllm.kernels import monitor_step as stepping
from sureenough.engines.vllm.kernels.signals import signals
from sureenough.engines.vllm.kernels.state import State
from sureenough.engines.vllm.protocol import K, WatchRequest
from sureenough.engines.vllm.server.batch_monitor import BatchMonitor
from sureenough.engines.vllm.server.records import PathRecords

TIERS = {None: 0.0, "drop": 1.0, "risk": 2.0}
LANES, VOCABULARY = 64, 151_936


class Token(NamedTuple):
    """One token of a lane, and what core makes of it."""

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


def lane(seed: int, tokens: int, window: int) -> tuple[Gate, list[Token]]:
    """Paths one after the other, each until its end or until core prunes it."""
    rng = np.random.default_rng(seed)
    gate = Stratified(drop=2.0)([scan(*signal(rng, 3 * window), window) for _ in range(8)])
    if seed % 4 == 0:
        gate = Gate()
    told: list[Token] = []
    while len(told) < tokens:
        path = CoreMonitor(window)
        for before, (peak, conf) in enumerate(
            zip(*map(np.ndarray.tolist, signal(rng, int(rng.integers(1, 5 * window)))), strict=True)
        ):
            tier = TIERS[gate.tier(path) if path.push(peak, conf) else None]
            told.append(Token(before, peak, conf, path.lowest, path.tail, tier))
            if tier:
                break
    return gate, told[:tokens]


def decisions(tokens: int) -> dict[str, Any]:
    """Fed the same signals, does the device decide as core does?"""
    steps = tokens // LANES
    windows = [(64, 256, 1000, 2048)[i % 4] if i % 8 else (1, 2, 3, 5)[i // 8 % 4] for i in range(LANES)]
    lanes = [lane(i, steps, window) for i, window in enumerate(windows)]
    state = State.empty(LANES, 2048, torch.device("cuda"))
    for slot, (gate, _) in enumerate(lanes):
        state.admit(slot, windows[slot], gate, 0)
    told = torch.tensor([[list(token) for token in each] for _, each in lanes], dtype=torch.float64, device="cuda")
    told = told.transpose(0, 1).contiguous()
    index = torch.arange(LANES, dtype=torch.int32, device="cuda")
    before = told[:, :, 0].to(torch.int32)
    places = torch.stack((index, index))
    logits = torch.zeros((LANES, 16), device="cuda")
    found = torch.empty((steps, LANES, 5), dtype=torch.float64, device="cuda")
    start = time.perf_counter()
    for at in range(steps):
        peak, conf = told[at, :, 1].contiguous(), told[at, :, 2].contiguous()
        found[at] = stepping.step(state, logits, places, before[at], peak, conf)
    torch.cuda.synchronize()
    seconds = time.perf_counter() - start
    wanted = told[:, :, 3:]
    return {
        "tokens": steps * LANES,
        "decisions that differ": int((found[:, :, 4] != wanted[:, :, 2]).sum()),
        "pruned by drop": int((wanted[:, :, 2] == 1).sum()),
        "pruned by risk": int((wanted[:, :, 2] == 2).sum()),
        "lowest or tail not equal to the last bit": int((found[:, :, 2:4] != wanted[:, :, :2]).sum()),
        "largest difference": float((found[:, :, 2:4] - wanted[:, :, :2]).abs().max()),
        "seconds": seconds,
    }


def cost(rows: int, vocab: int, *, aligned: bool, board: bool) -> dict[str, Any]:
    """Milliseconds that a step of the whole monitor adds, by what the rows are doing."""
    watcher = BatchMonitor(rows + 8, 2048, torch.device("cuda"), PathRecords(rows + 8) if board else None)
    rng = np.random.default_rng(0)
    made: list[list[int]] = []
    for row in range(rows):
        made.append([0] * (0 if aligned else int(rng.integers(0, 6000))))
        watcher.add(row, WatchRequest(f"path-{row:05}", 2048, Gate(0.99, -1.0, 9.0)), 5, [])
        held = watcher.rows[row]
        watcher.rows[row] = held._replace(made=made[row])
    batches = common.inputs(rows, vocab, torch.float32)

    def one(logits: torch.Tensor) -> object:
        for each in made:
            each.append(0)
        return watcher.step(logits)

    launched = common.with_launches(one, batches, 1.0)
    steady = common.with_launches(one, batches, 1.0, turns=-(-32 // len(batches)))
    behind = common.behind_a_model(one, batches)
    nothing = BatchMonitor(8, 64, torch.device("cuda"))
    start = time.perf_counter()
    for _ in range(100_000):
        nothing.step(batches[0])
    idle = (time.perf_counter() - start) / 100_000 * 1e3
    # Host time: how long the caller is busy launching, the device left to itself.
    torch.cuda.synchronize()
    start = time.perf_counter()
    for turn in range(12):
        watcher.step(batches[turn % len(batches)])
    host = (time.perf_counter() - start) / 12 * 1e3
    torch.cuda.synchronize()
    index = torch.arange(rows, dtype=torch.int32, device="cuda")
    alone = common.on_device(lambda logits: signals(logits, index, K), batches, 0.3)
    peak, conf = signals(batches[0], index, K)
    by_turn = {}
    for name, at in (("in a block", 3000), ("at a block's end", 4096)):
        table = torch.stack((index, index, torch.full_like(index, at)))
        by_turn[name] = common.on_device(partial(_state_alone, watcher.state, table, peak, conf), batches, 0.2)
    reads = min(common.on_device(lambda logits: logits.amax(dim=-1), batches, 0.1),
                common.on_device(lambda logits: logits.sum(), batches, 0.1))  # fmt: skip
    return {
        "rows": rows, "vocab": vocab, "aligned": aligned, "board": board, "a step": launched,
        "one of 32 steps": steady, "host": host,
        "behind a model": {"median": behind[30], "90%": behind[54], "most": behind[-1]},
        "signals alone": alone, "state alone": by_turn, "a step with nothing watched": idle, "one read": reads,
        "state MiB": watcher.state.bytes / 2**20,
    }  # fmt: skip


def _state_alone(
    state: State, table: torch.Tensor, peak: torch.Tensor, conf: torch.Tensor, logits: torch.Tensor
) -> object:
    return stepping.step(state, logits, table[:2], table[2], peak, conf)


def ends() -> dict[str, Any]:
    """A row whose gate closes draws its end token, at any temperature, from any logits; others are left alone."""
    wrong = 0
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        watcher = BatchMonitor(16, 8, torch.device("cuda"))
        watcher.warm_up(1000)
        logits = (torch.randn(8, 1000, device="cuda") * 5).to(dtype)
        made: list[int] = []
        for row in range(0, 8, 2):
            watcher.add(row, WatchRequest(f"path-{row:05}", 4, Gate(drop=1e9 if row % 4 == 0 else -1.0)), 7, made)
        for turn in range(4):
            copy = logits.clone()
            watcher.step(copy)
            made.append(0)
            changed = (copy != logits).any(dim=1).nonzero().flatten().tolist()
            wrong += changed != ([0, 4] if turn == 3 else [])
        for temperature in (0.01, 0.6, 2.0):
            chances = torch.softmax(copy.float() / temperature, dim=-1)
            wrong += not bool((chances[[0, 4], 7] == 1.0).all())
    return {"wrong": wrong}


def main() -> None:
    """Decisions, then costs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="where to write all figures")
    parser.add_argument("--tokens", type=int, default=1_000_000)
    options = parser.parse_args()
    found: dict[str, Any] = {"device": torch.cuda.get_device_name()}
    parts: dict[str, Callable[[], dict[str, Any]]] = {"ends": ends, "decisions": partial(decisions, options.tokens)}
    for rows, vocab, aligned, board in (
        (512, VOCABULARY, False, True), (512, VOCABULARY, True, True), (512, VOCABULARY, False, False),
        (256, VOCABULARY, False, True), (64, VOCABULARY, False, True), (16, VOCABULARY, False, True),
        (512, 32_000, False, True),
    ):  # fmt: skip
        name = f"cost {rows} x {vocab} aligned={aligned} board={board}"
        parts[name] = partial(cost, rows, vocab, aligned=aligned, board=board)
    for name, part in parts.items():
        start = time.perf_counter()
        try:
            found[name] = part()
        except Exception:
            found[name] = traceback.format_exc()
        print(f"{name} ({time.perf_counter() - start:.0f} s): {found[name]}", flush=True)
        if options.json is not None:
            options.json.write_text(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
