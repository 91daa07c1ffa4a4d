"""Measure the model: fresh problems, many samples of each, with the confidence that engines would report."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from arithmetic import GeneratedProblem, generate
from shape import CLOSE, PAD, prompt_tokens

BOX = re.compile(r"\\boxed\{(-?\d+)\}")
WINDOW = 32


@dataclass
class Sampled:
    """A sampled path."""

    answer: str | None
    conf: np.ndarray
    text: str


@torch.inference_mode()
def sample(
    model: Any, questions: list[str], paths: int, most: int = 800, temperature: float = 0.6
) -> list[list[Sampled]]:
    """Sample all paths of all questions in one batch."""
    device = next(model.parameters()).device
    prompts = [prompt_tokens(question) for question in questions for _ in range(paths)]
    longest = max(map(len, prompts))
    ids = torch.tensor([[PAD] * (longest - len(p)) + p for p in prompts], device=device)
    seen = (ids != PAD).long()
    positions = (seen.cumsum(1) - 1).clamp(min=0)
    cache, step = None, ids
    drawn, confs = [], []
    alive = torch.ones(len(prompts), dtype=torch.bool, device=device)
    for _ in range(most):
        out = model(input_ids=step, attention_mask=seen, position_ids=positions, past_key_values=cache, use_cache=True)
        cache = out.past_key_values
        logits = out.logits[:, -1].float()
        confs.append(-logits.log_softmax(-1).topk(20).values.mean(-1))
        chosen = torch.where(alive, _draw(logits / temperature), PAD)
        drawn.append(chosen)
        alive = alive & (chosen != CLOSE)
        if not alive.any():
            break
        step, positions = chosen[:, None], positions[:, -1:] + 1
        seen = torch.cat([seen, torch.ones_like(step)], 1)
    tokens, conf = torch.stack(drawn, 1).cpu().numpy(), torch.stack(confs, 1).cpu().numpy()
    sampled = [_path(row, values) for row, values in zip(tokens, conf, strict=True)]
    return [sampled[i : i + paths] for i in range(0, len(sampled), paths)]


def _draw(logits: torch.Tensor, top_p: float = 0.95) -> torch.Tensor:
    probabilities, order = logits.softmax(-1).sort(-1, descending=True)
    probabilities[probabilities.cumsum(-1) - probabilities > top_p] = 0
    return order.gather(1, torch.multinomial(probabilities, 1))[:, 0]


def _path(row: np.ndarray, conf: np.ndarray) -> Sampled:
    ended = np.flatnonzero(row == CLOSE)
    n = int(ended[0]) + 1 if len(ended) else len(row)
    text = bytes(int(t) for t in row[:n] if t < 256).decode(errors="replace")
    boxes = BOX.findall(text)
    return Sampled(boxes[-1] if boxes else None, conf[:n], text)


def lowest(conf: np.ndarray, window: int = WINDOW) -> float:
    """C_path, the lowest mean confidence of any window."""
    size = min(window, len(conf))
    sums = np.cumsum(np.concatenate([[0.0], conf.astype(float)]))
    return float((sums[size:] - sums[:-size]).min() / size)


def area(scores: np.ndarray, right: np.ndarray) -> float | None:
    """The area under the ROC curve; None if all paths are right or all are wrong."""
    good, bad = scores[right], scores[~right]
    if not len(good) or not len(bad):
        return None
    return float((good[:, None] > bad[None]).mean() + 0.5 * (good[:, None] == bad[None]).mean())


def table(model: Any, seed: int, each: int = 48, paths: int = 32) -> list[dict[str, Any]]:
    """One row per level."""
    lines = []
    for level in range(1, 6):
        problems = generate(level, seed, each)
        sampled = sample(model, [problem.question for problem in problems], paths)
        lines.append({"level": level, **_row(problems, sampled)})
        print(lines[-1], flush=True)
    return lines


def _row(problems: list[GeneratedProblem], sampled: list[list[Sampled]]) -> dict[str, Any]:
    right = np.array([[path.answer == p.gold for path in paths] for p, paths in zip(problems, sampled, strict=True)])
    major = [Counter(path.answer for path in paths if path.answer).most_common(1)[:1] for paths in sampled]
    voted = [bool(top) and top[0][0] == p.gold for top, p in zip(major, problems, strict=True)]
    scores = np.array([[lowest(path.conf) for path in paths] for paths in sampled])
    areas = [a for s, r in zip(scores, right, strict=True) if (a := area(s, r)) is not None]
    means = np.array([[path.conf.mean() for path in paths] for paths in sampled])
    mean_areas = [a for s, r in zip(means, right, strict=True) if (a := area(s, r)) is not None]
    families = {name: round(float(right[[p.family == name for p in problems]].mean()), 3) for name in
                dict.fromkeys(p.family for p in problems)}  # fmt: skip
    return {
        "pass@1": round(float(right.mean()), 3),
        "majority": round(float(np.mean(voted)), 3),
        "area": round(float(np.mean(areas)), 3) if areas else None,
        "area of means": round(float(np.mean(mean_areas)), 3) if mean_areas else None,
        "mixed": len(areas),
        "tokens": round(float(np.mean([len(path.conf) for paths in sampled for path in paths])), 1),
        "families": families,
        "unended": sum(path.answer is None for paths in sampled for path in paths),
    }
