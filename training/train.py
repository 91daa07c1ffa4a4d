"""Train the built-in model from scratch: `python training/train.py OUT`, a few minutes on one GPU.

The data, the initial weights and the order of rows come from one seed; sums on a GPU do not repeat to the last bit.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

import torch
from arithmetic import generate
from corpus import corpus
from measure import sample, table
from shape import config, save_tokenizer
from transformers import Qwen3ForCausalLM


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--steps", type=int, default=2400)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--rate", type=float, default=3e-3)
    parser.add_argument("--width", type=int, default=192)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--haste", default="0.15,0.45,0.85")
    parser.add_argument("--questions", type=int, default=48)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--no-compile", action="store_true")
    return parser.parse_args()


def rate(step: int, steps: int, top: float) -> float:
    """The learning rate: a hundred steps of linear warm-up, then a cosine decay."""
    warm = min(100, steps // 10 + 1)
    if step < warm:
        return top * (step + 1) / warm
    return top * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))))


def train(model: Any, arguments: argparse.Namespace, device: str) -> float:
    """Train for one pass over the data; returns the mean loss of the last hundred steps."""
    count = arguments.steps * arguments.batch
    started = time.time()
    tokens, marks = corpus(arguments.seed, count, tuple(map(float, arguments.haste.split(","))), arguments.workers)
    print(
        f"{count} rows, {int(marks.sum())} learned of {tokens.size} tokens, {time.time() - started:.0f} s", flush=True
    )
    data = torch.from_numpy(tokens.astype("int16")).to(device), torch.from_numpy(marks.astype("uint8")).to(device)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=arguments.rate, betas=(0.9, 0.98), fused=device == "cuda")
    body = model if arguments.no_compile else torch.compile(model)
    started, total = time.time(), torch.zeros((), device=device)
    last = float("nan")
    for step in range(arguments.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, arguments.steps, arguments.rate)
        at = step * arguments.batch
        loss = _loss(body, data[0][at : at + arguments.batch].long(), data[1][at : at + arguments.batch], device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.detach()
        if step % 100 == 99:
            last = float(total) / 100
            total.zero_()
            print(f"step {step + 1} loss {last:.4f} {time.time() - started:.0f} s", flush=True)
    return last


def _loss(body: Any, rows: torch.Tensor, marks: torch.Tensor, device: str) -> torch.Tensor:
    with torch.autocast(device, torch.bfloat16):
        logits = body(input_ids=rows[:, :-1], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
    weight = marks[:, 1:].flatten().float()
    return (losses * weight).sum() / weight.sum()


def main() -> None:
    """Train the model, save it in 16 bits, and measure the saved weights."""
    arguments = options()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    model = Qwen3ForCausalLM(config(arguments.width, arguments.layers)).to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}", flush=True)
    started = time.time()
    loss = train(model, arguments, device)
    seconds = time.time() - started
    arguments.out.mkdir(parents=True, exist_ok=True)
    small = model.to(torch.float16)
    small.save_pretrained(arguments.out)
    save_tokenizer(arguments.out)
    small.eval()
    if device == "cpu":
        small = small.float()
    lines = table(small, seed=9000 + arguments.seed, each=arguments.questions)
    for level in (1, 3, 5):
        problem = generate(level, 1, 4)[level % 4]
        print(problem.question, "\n", sample(small, [problem.question], 2)[0][0].text, "gold", problem.gold)
    chosen = {key: str(value) for key, value in vars(arguments).items() if key != "out"}
    log = {"options": chosen, "loss": loss, "seconds": round(seconds), "levels": lines, "torch": torch.__version__}
    (arguments.out / "log.json").write_text(json.dumps(log, indent=1))


if __name__ == "__main__":
    main()
