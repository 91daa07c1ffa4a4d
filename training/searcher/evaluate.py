"""What sampled paths are worth: how often one is right, how often their majority, how long they are.

Also how well path confidence separates right from wrong paths of one question.
"""

from __future__ import annotations

import json
import re
from collections import Counter, defaultdict
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import torch
from measure import area, lowest
from searcher.files import Sampled, load_weights
from searcher.model import Searcher, Size
from searcher.problems import LEVELS, GeneratedProblem, generate

BOX = re.compile(r"\\boxed\{(\d+)\}\.$")
WINDOWS = (64, 256)
ONE_PATH, GAIN = (0.25, 0.60), 0.15
"""What a temperature should give: one path right so often, and the majority so much more often."""


def load(run: Path, device: str, dtype: torch.dtype) -> Searcher:
    """The model from the pieces of its weights."""
    config = json.loads((run / "config.json").read_text())
    size = Size(
        config["hidden_size"], config["num_hidden_layers"], config["head_dim"], config["max_position_embeddings"]
    )
    model = Searcher(size).to(device)
    model.load_weights({name: torch.from_numpy(one.copy()) for name, one in load_weights(run).items()})
    return model.in_16_bits(dtype)


def problems_of(seed: int, counts: dict[str, int]) -> list[GeneratedProblem]:
    """Problems of every level in turn."""
    jobs = [(name, level, seed, count) for name, count in counts.items() for level in LEVELS if count]
    with ProcessPoolExecutor() as pool:
        return [problem for problems in pool.map(generate, *zip(*jobs, strict=True)) for problem in problems]


def answer_of(path: Sampled) -> str | None:
    box = BOX.search(path.text.decode(errors="replace"))
    return box[1] if box and path.finished else None


def summary(problems: list[GeneratedProblem], paths: list[Sampled]) -> dict[str, Any]:
    """What paths of these problems are worth, alone and together."""
    by_question: dict[int, list[Sampled]] = defaultdict(list)
    for path in sorted(paths, key=lambda one: (one.question, one.number)):
        by_question[path.question].append(path)
    right_paths, votes, areas = [], [], defaultdict(list)
    lengths: dict[bool, list[int]] = {True: [], False: []}
    for question, group in by_question.items():
        gold = problems[question].gold
        answers = [answer_of(path) for path in group]
        right = np.array([answer == gold for answer in answers])
        majority = Counter(answer for answer in answers if answer is not None).most_common(1)
        votes.append(bool(majority) and majority[0][0] == gold)
        right_paths.append(right)
        for path, is_right in zip(group, right, strict=True):
            lengths[bool(is_right)].append(len(path.conf))
        for window in WINDOWS:
            value = area(np.array([lowest(path.conf, window) for path in group]), right)
            if value is not None:
                areas[window].append(value)
    everything = np.concatenate(right_paths)
    return {
        "questions": len(votes), "one_path": round(float(everything.mean()), 4),
        "majority": round(float(np.mean(votes)), 4),
        "any": round(float(np.mean([right.any() for right in right_paths])), 4),
        "tokens": round(float(np.mean(lengths[True] + lengths[False])), 1),
        "tokens_right": round(float(np.mean(lengths[True] or [0])), 1),
        "tokens_wrong": round(float(np.mean(lengths[False] or [0])), 1),
        "no_answer": round(float(np.mean([answer_of(path) is None for path in paths])), 4),
        "unfinished": round(float(np.mean([not path.finished for path in paths])), 4),
        **{f"area_{window}": round(float(np.mean(values)), 3) for window, values in areas.items()},
    }  # fmt: skip


def report(problems: list[GeneratedProblem], paths: list[Sampled]) -> dict[str, Any]:
    """All problems, those of each family, and of each level."""
    out: dict[str, Any] = {"all": summary(problems, paths)}
    for family in dict.fromkeys(problem.family for problem in problems):
        for level in (None, *LEVELS):
            chosen = {
                i for i, one in enumerate(problems) if one.family == family and (level is None or one.level == level)
            }
            some = [path for path in paths if path.question in chosen]
            if some:
                out[family if level is None else f"{family} {level}"] = summary(problems, some)
    return out


def choose(scan: dict[float, dict[str, Any]]) -> tuple[float, bool]:
    """The temperature with the largest gain of a vote of those that meet the aim; else the one that misses it least."""
    missed = {}
    for temperature, measured in scan.items():
        one, gain = measured["one_path"], measured["majority"] - measured["one_path"]
        missed[temperature] = max(0.0, ONE_PATH[0] - one, one - ONE_PATH[1]) + max(0.0, GAIN - gain), -gain
    best = min(missed, key=lambda temperature: missed[temperature])
    return best, missed[best][0] == 0.0
