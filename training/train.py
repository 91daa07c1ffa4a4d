"""Make the built-in model from nothing: `python training/train.py OUT`, minutes on one GPU.

The corpus, the first weights and the order of rows come from one seed; GPU sums do not repeat to the last bit.
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
from corpus import corpus
from measure import sample, table
from shape import config, save_tokenizer
from transformers import Qwen3ForCausalLM

from sureenough.problems import generate


def options() -> argparse.Namespace:
    """What can be chosen."""
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
    """Up in a hundred steps, then down a cosine."""
    warm = min(100, steps // 10 + 1)
    if step < warm:
        return top * (step + 1) / warm
    return top * (0.02 + 0.98 * 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm))))


def train(model: Any, asked: argparse.Namespace, device: str) -> float:
    """One pass over the corpus; the loss of the last hundred steps."""
    count = asked.steps * asked.batch
    began = time.time()
    tokens, marks = corpus(asked.seed, count, tuple(map(float, asked.haste.split(","))), asked.workers)
    print(f"{count} rows, {int(marks.sum())} learned of {tokens.size} tokens, {time.time() - began:.0f} s", flush=True)
    held = torch.from_numpy(tokens.astype("int16")).to(device), torch.from_numpy(marks.astype("uint8")).to(device)
    decayed = [p for p in model.parameters() if p.ndim > 1]
    others = [p for p in model.parameters() if p.ndim <= 1]
    groups = [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=asked.rate, betas=(0.9, 0.98), fused=device == "cuda")
    body = model if asked.no_compile else torch.compile(model)
    began, total = time.time(), torch.zeros((), device=device)
    last = float("nan")
    for step in range(asked.steps):
        for group in optimizer.param_groups:
            group["lr"] = rate(step, asked.steps, asked.rate)
        at = step * asked.batch
        loss = _loss(body, held[0][at : at + asked.batch].long(), held[1][at : at + asked.batch], device)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        total += loss.detach()
        if step % 100 == 99:
            last = float(total) / 100
            total.zero_()
            print(f"step {step + 1} loss {last:.4f} {time.time() - began:.0f} s", flush=True)
    return last


def _loss(body: Any, rows: torch.Tensor, marks: torch.Tensor, device: str) -> torch.Tensor:
    with torch.autocast(device, torch.bfloat16):
        logits = body(input_ids=rows[:, :-1], use_cache=False).logits
    losses = torch.nn.functional.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten(), reduction="none")
    weight = marks[:, 1:].flatten().float()
    return (losses * weight).sum() / weight.sum()


def main() -> None:
    """Train, save in 16 bits, measure what was saved."""
    asked = options()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    torch.manual_seed(asked.seed)
    torch.set_float32_matmul_precision("high")
    model = Qwen3ForCausalLM(config(asked.width, asked.layers)).to(device)
    print(f"{sum(p.numel() for p in model.parameters())} parameters on {device}", flush=True)
    began = time.time()
    loss = train(model, asked, device)
    seconds = time.time() - began
    asked.out.mkdir(parents=True, exist_ok=True)
    small = model.to(torch.float16)
    small.save_pretrained(asked.out)
    save_tokenizer(asked.out)
    small.eval()
    if device == "cpu":
        small = small.float()
    lines = table(small, seed=9000 + asked.seed, each=asked.questions)
    for level in (1, 3, 5):
        problem = generate(level, 1, 4)[level % 4]
        print(problem.question, "\n", sample(small, [problem.question], 2)[0][0].text, "gold", problem.gold)
    said = {key: str(value) for key, value in vars(asked).items() if key != "out"}
    log = {"options": said, "loss": loss, "seconds": round(seconds), "levels": lines, "torch": torch.__version__}
    (asked.out / "log.json").write_text(json.dumps(log, indent=1))


if __name__ == "__main__":
    main()
