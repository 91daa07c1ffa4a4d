"""Train the model that searches, within a time: `python -m searcher.train OUT --seconds 700`.

Everything that could fail for a silly reason is tried in the first minute: data, one step, a checkpoint, the weights'
files and the sampler. Rows are made by other processes while the GPU works, and none is seen twice. The learning rate
falls to zero by the clock. With the same OUT a run that was interrupted goes on from its checkpoint, with the seconds
that it had left.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import time
from pathlib import Path
from typing import Any

STARTED = time.monotonic()

import torch  # noqa: E402
from searcher.corpus import BLOCK, LEARNED, ROW, Stream, held_out_questions  # noqa: E402
from searcher.files import load_weights, save_weights  # noqa: E402
from searcher.model import Searcher, Size  # noqa: E402
from searcher.muon import Muon  # noqa: E402
from searcher.sampler import Sampler  # noqa: E402
from shape import prompt_tokens  # noqa: E402
from torch import Tensor  # noqa: E402
from torch.nn import functional  # noqa: E402

WARM_UP = 100
"""Steps over which the learning rate rises."""
SAVING = 8.0
"""Seconds that are left for the last checkpoint and the weights."""


def options(arguments: list[str] | None = None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument("--seconds", type=float, default=700.0, help="from start to end, compilation included")
    parser.add_argument("--left", type=float, default=math.inf, help="seconds of this process, if that is less")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--batch", type=int, default=64, help="rows per step")
    parser.add_argument("--micro", type=int, default=32, help="rows per pass")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--width", type=int, default=Size.width)
    parser.add_argument("--layers", type=int, default=Size.layers)
    parser.add_argument("--row", type=int, default=ROW)
    parser.add_argument("--optimizer", choices=("muon", "adamw"), default="muon")
    parser.add_argument("--workers", type=int, default=max(1, (os.cpu_count() or 2) - 2))
    parser.add_argument("--checkpoint", type=float, default=60.0, help="seconds between checkpoints")
    parser.add_argument("--no-compile", action="store_true")
    chosen = parser.parse_args(arguments)
    if chosen.batch % chosen.micro or chosen.batch % BLOCK:
        parser.error(f"--batch must be a multiple of --micro and of {BLOCK}")
    return chosen


class Log:
    """JSON lines in a file, and on the screen."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def __call__(self, **entry: Any) -> None:
        line = json.dumps({"seconds": round(time.monotonic() - STARTED, 1), **entry})
        with self._file.open("a") as file:
            file.write(line + "\n")
        print(line, flush=True)


class Optimizer:
    """Muon for the matrices of the layers and AdamW for the rest, or AdamW for all."""

    def __init__(self, model: Searcher, kind: str, rate: float, fused: bool) -> None:
        matrices = [one for name, one in model.named_parameters() if one.ndim == 2 and "embed" not in name]
        others = [one for one in model.parameters() if all(one is not matrix for matrix in matrices)]
        self.parameters = [*matrices, *others]
        groups: list[dict[str, Any]] = [{"params": others, "weight_decay": 0.0}]
        if kind == "adamw":
            groups.append({"params": matrices, "weight_decay": 0.1})
        self.parts: list[torch.optim.Optimizer] = [torch.optim.AdamW(groups, rate, (0.9, 0.95), fused=fused)]
        if kind == "muon":
            self.parts.append(Muon(matrices, rate))

    def step(self, rate: float) -> float:
        """One step; returns the norm of the gradient."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, 1.0)
        for part in self.parts:
            for group in part.param_groups:
                group["lr"] = rate
            part.step()
            part.zero_grad(set_to_none=True)
        return float(norm)

    def state(self) -> list[Any]:
        return [part.state_dict() for part in self.parts]

    def load(self, states: list[Any]) -> None:
        for part, state in zip(self.parts, states, strict=True):
            part.load_state_dict(state)


def schedule(step: int, progress: float) -> float:
    """The share of the learning rate: a rise over the first steps, and a straight line to zero by the clock."""
    return min((step + 1) / WARM_UP, 1.0) * max(0.0, 1.0 - progress)


def loss_of(model: Any, rows: Tensor, device: str) -> Tensor:
    """The mean loss of the learned tokens; rows as the corpus packs them."""
    tokens, learned = (rows & (LEARNED - 1)).long(), rows[:, 1:] >= LEARNED
    with torch.autocast(device, torch.bfloat16, enabled=device == "cuda"):
        logits = model(tokens[:, :-1])
    losses = functional.cross_entropy(logits.float().flatten(0, 1), tokens[:, 1:].flatten(), reduction="none")
    weight = learned.flatten().float()
    return (losses * weight).sum() / weight.sum().clamp(min=1)


def to_device(rows: Any, device: str) -> Tensor:
    return torch.from_numpy(rows.astype("int32")).to(device, non_blocking=True)


def smoke(model: Searcher, stream: Stream, arguments: argparse.Namespace, device: str, log: Log) -> None:
    """Try everything once, at a small size; whatever fails, fails now."""
    rows = to_device(stream.take(BLOCK), device)
    log(smoke="data", tokens=rows.numel(), learned=round(float((rows >= LEARNED).float().mean()), 3))
    loss = loss_of(model, rows[:2], device)
    loss.backward()
    model.zero_grad(set_to_none=True)
    if not 4.0 < (value := loss.item()) < 7.5:  # a model that knows nothing: the logarithm of 259 is 5.6
        raise RuntimeError(f"the loss of an untrained model is {value}")
    folder = arguments.out / "smoke"
    folder.mkdir(exist_ok=True)
    save_weights(model.weights(), model.size.config(), folder)
    try:
        log(smoke="sampler", **try_sampler(model.size, folder, device))
    except Exception as error:  # training is worth its time all the same; the sampler can be mended meanwhile
        log(smoke="sampler", FAILED=repr(error)[:1000])
    if device == "cuda":
        torch.cuda.empty_cache()


def try_sampler(size: Size, folder: Path, device: str) -> dict[str, Any]:
    """A few paths of the weights in a folder."""
    model = Searcher(size).to(device)
    model.load_weights({name: torch.from_numpy(one.copy()) for name, one in load_weights(folder).items()})
    sampler = Sampler(model.in_16_bits(torch.float16 if device == "cuda" else torch.float32), 8, 160)
    paths = list(sampler.sample([prompt_tokens("1"), prompt_tokens("23")], [6, 6], [1.0, 0.8]))
    if len(paths) != 12 or not all(len(one.conf) == len(one.peak) > 0 for one in paths):
        raise RuntimeError("paths were lost")
    return {"attention": sampler.attend.__name__, "tokens": sum(len(one.conf) for one in paths)}


class Passes:
    """Forward and backward over a batch; the layers are compiled, once for all of them, if that works here."""

    def __init__(self, model: Searcher, arguments: argparse.Namespace, device: str, log: Log) -> None:
        self._model, self._device, self._log = model, device, log
        self._micro = arguments.micro
        self._compiled = not arguments.no_compile
        if self._compiled:
            for layer in model.model.layers:
                layer.compile()

    def __call__(self, rows: Tensor) -> float:
        """Add up the gradients; returns the mean loss."""
        try:
            return self._run(rows)
        except Exception as error:
            if not self._compiled:
                raise
            self._log(compilation_failed=repr(error)[:1000])
            self._compiled = False
            for layer in self._model.model.layers:
                layer._compiled_call_impl = None  # as it was before compile()
            self._micro = max(1, self._micro // 4)  # uncompiled passes need more memory
            self._model.zero_grad(set_to_none=True)
            return self._run(rows)

    def _run(self, rows: Tensor) -> float:
        parts = rows.split(self._micro)
        losses = []
        for part in parts:
            loss = loss_of(self._model, part, self._device) / len(parts)
            loss.backward()
            losses.append(loss.detach())
        return float(sum(losses))


def save(arguments: argparse.Namespace, model: Searcher, optimizer: Optimizer, state: dict[str, Any]) -> None:
    """A checkpoint, under another name until it is whole, and the weights so far, which can be measured at any time."""
    part = arguments.out / "checkpoint.part"
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state(), "state": state}, part)
    part.replace(arguments.out / "checkpoint.pt")
    save_weights(model.weights(), model.size.config(), arguments.out)


def train(arguments: argparse.Namespace, device: str, log: Log) -> None:
    """Train until the time is over."""
    torch.manual_seed(arguments.seed)
    torch.set_float32_matmul_precision("high")
    kept = arguments.out / "checkpoint.pt"
    begun = torch.load(kept, map_location="cpu", weights_only=True) if kept.exists() else None
    state: dict[str, Any] = (
        begun["state"] if begun else {"step": 0, "tokens": 0, "blocks": 0, "spent": 0.0, "begun": 0.0}
    )
    held_out = held_out_questions(arguments.workers)
    stream = Stream(arguments.seed, arguments.workers, state["blocks"], held_out, arguments.row)
    model = Searcher(Size(arguments.width, arguments.layers, context=arguments.row)).to(device)
    log(parameters=sum(one.numel() for one in model.parameters()), held_out=len(held_out), torch=torch.__version__)
    try:
        if begun is None:
            smoke(model, stream, arguments, device, log)
        optimizer = Optimizer(model, arguments.optimizer, arguments.rate, device == "cuda")
        if begun is not None:
            model.load_state_dict(begun["model"])
            optimizer.load(begun["optimizer"])
            log(resumed=state)
        run_steps(arguments, device, log, model, optimizer, stream, state)
    finally:
        stream.close()


def run_steps(
    arguments: argparse.Namespace,
    device: str,
    log: Log,
    model: Searcher,
    optimizer: Optimizer,
    stream: Stream,
    state: dict[str, Any],
) -> None:
    passes = Passes(model, arguments, device, log)
    spent = state["spent"]
    total = min(arguments.seconds, spent + arguments.left) - SAVING * min(1.0, arguments.seconds / 300)
    saved = logged = time.monotonic()
    recent: list[float] = []
    while (elapsed := spent + time.monotonic() - STARTED) < total:
        rows = to_device(stream.take(arguments.batch), device)
        recent.append(passes(rows))
        if state["step"] <= 1:  # the first step compiles, and counts for nothing
            state["begun"] = elapsed
        share = schedule(state["step"], (elapsed - state["begun"]) / (total - state["begun"]))
        norm = optimizer.step(arguments.rate * share)
        if not math.isfinite(recent[-1]):
            raise RuntimeError(f"the loss is {recent[-1]} at step {state['step']}; the last checkpoint is kept")
        state["step"] += 1
        state["tokens"] += rows.shape[0] * arguments.row
        state["blocks"] = stream.taken
        if state["step"] in (1, 5) or state["step"] % 25 == 0:
            now = time.monotonic()
            rate = len(recent) * arguments.batch * arguments.row / (now - logged)
            mean = sum(recent) / len(recent)
            log(step=state["step"], loss=round(mean, 4), rate=round(share, 3), norm=round(norm, 2),
                tokens=state["tokens"], per_second=round(rate))  # fmt: skip
            logged, recent = now, []
        if time.monotonic() - saved > arguments.checkpoint:
            state["spent"] = spent + time.monotonic() - STARTED
            save(arguments, model, optimizer, state)
            saved = time.monotonic()
    state["spent"] = spent + time.monotonic() - STARTED
    save(arguments, model, optimizer, state)


def main() -> None:
    """Train, with a log beside the weights."""
    arguments = options()
    arguments.out.mkdir(parents=True, exist_ok=True)
    log = Log(arguments.out / "log.jsonl")
    device = "cuda" if torch.cuda.is_available() else "cpu"
    log(options={name: str(value) for name, value in vars(arguments).items()}, device=device)
    train(arguments, device, log)
    log(done=True)


if __name__ == "__main__":
    main()
