"""Synthetic paths of the kinds in the paper's proposition B.2: sound ones, and three kinds of hallucination."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from sureenough.core.confidence.instability import Floats
from sureenough.pools import RecordedPath

TOKENS: Final = 400
LEVEL: Final = 12.0
SPREAD: Final = 4.0
MEMORY: Final = 0.35
"""Mean, spread and lag-1 autocorrelation of conf, close to those of real paths."""

Shape = Callable[[np.random.Generator, int], Floats]
"""So many paths, one per row."""


def _autocorrelated(rng: np.random.Generator, paths: int, memory: float = MEMORY, spread: float = SPREAD) -> Floats:
    values = rng.normal(0.0, spread * np.sqrt(1.0 - memory * memory), (paths, TOKENS))
    last = rng.normal(0.0, spread, paths)
    for i in range(TOKENS):
        last = values[:, i] = memory * last + values[:, i]
    return values


_ALONG: Final = np.linspace(0.0, 1.0, TOKENS)

KINDS: Final[dict[str, Shape]] = {
    "sound": lambda rng, n: LEVEL + _autocorrelated(rng, n),
    "sound, with a dip": lambda rng, n: LEVEL - 5.0 * np.exp(-(((_ALONG - 0.5) / 0.12) ** 2)) + _autocorrelated(rng, n),
    "stochastic": lambda rng, n: LEVEL + rng.normal(0.0, SPREAD, (n, TOKENS)),
    "decaying": lambda rng, n: LEVEL - 6.0 * _ALONG + _autocorrelated(rng, n),
    "self-reinforcing": lambda rng, n: LEVEL + 4.0 * _ALONG + _autocorrelated(rng, n, spread=SPREAD / 2),
}
"""Sound paths vary around a level; hallucinations are noise without memory, fall, or become ever more confident."""

DESCRIPTIONS: Final = {
    "sound": "varies around a level",
    "sound, with a dip": "confidence dips in the middle and recovers: the paper means to keep it",
    "stochastic": "same level and spread, no memory from token to token",
    "decaying": "falls steadily by half",
    "self-reinforcing": "becomes ever more confident, with less noise",
}


def synthetic_paths(kind: str, answers: Sequence[str], rng: np.random.Generator) -> list[RecordedPath]:
    """Paths of a kind, one per answer; their peak is a function of their conf."""
    conf = np.maximum(0.0, KINDS[kind](rng, len(answers)))
    peak = 1.0 / (1.0 + np.exp(-(conf - 6.0) / 3.0))
    return [RecordedPath(*path) for path in zip(answers, peak, conf, strict=True)]
