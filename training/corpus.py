"""The training data: problems with worked solutions, packed into rows; only the solutions are learned."""

from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from functools import partial
from random import Random

import numpy as np
import numpy.typing as npt
from arithmetic import FAMILIES, LEVELS
from shape import CLOSE, PAD, prompt_tokens
from working import solve

ROW = 1024
SHARES = (1, 1.5, 2, 2.5, 3)
"""The share of each level."""
INSTRUCTION = "\n\nPlease reason step by step, and put your final answer within \\boxed{}."
"""Some questions end with it, because most clients add it."""

Rows = npt.NDArray[np.uint16]


def document(rng: Random, haste: tuple[float, ...]) -> tuple[list[int], list[int]]:
    """The tokens of a prompt and of its solution."""
    level = rng.choices(LEVELS, SHARES)[0]
    problem = rng.choice(tuple(FAMILIES.values()))(rng, level)
    question = problem.question + (INSTRUCTION if rng.random() < 0.15 else "")
    return prompt_tokens(question), [*solve(rng, problem, haste).encode(), CLOSE]


def rows(seed: str, count: int, haste: tuple[float, ...]) -> tuple[Rows, Rows]:
    """Rows of as many whole documents as fit; the second array marks the tokens that are learned."""
    rng = Random(seed)
    tokens = np.full((count, ROW + 1), PAD, np.uint16)
    marks = np.zeros((count, ROW + 1), np.uint16)
    row = at = 0
    while row < count:
        question, solution = document(rng, haste)
        end = at + len(question) + len(solution)
        if end > ROW + 1:
            row, at = row + 1, 0
            continue
        tokens[row, at:end] = question + solution
        marks[row, at + len(question) : end] = 1
        at = end
    return tokens, marks


def corpus(seed: int, count: int, haste: tuple[float, ...], workers: int) -> tuple[Rows, Rows]:
    """`count` rows, made on all cores; they do not depend on the number of workers."""
    parts = 256
    sizes = [count // parts + (i < count % parts) for i in range(parts)]
    with ProcessPoolExecutor(workers) as pool:
        chunks = list(
            pool.map(partial(rows, haste=haste), [f"corpus {seed} {i}" for i in range(parts)], sizes, chunksize=4)
        )
    order = np.random.default_rng(seed).permutation(count)
    return np.concatenate([part[0] for part in chunks])[order], np.concatenate([part[1] for part in chunks])[order]
