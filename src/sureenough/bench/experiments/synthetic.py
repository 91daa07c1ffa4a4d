"""Synthetic paths of the kinds in the paper's proposition B.2: sound ones, and three kinds of hallucination."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from sureenough.core.confidence.instability import Floats
from sureenough.pools import RecordedPath

TOKENS: Final = 400
LEVEL: Final = 12.0
SPREAD: Final = 4.0
MEMORY: Final = 0.35
"""Mean, spread and lag-1 autocorrelation of conf, close to those of real paths."""

Shape = Callable[[np.random.Generator], Floats]


def _autocorrelated(rng: np.random.Generator, memory: float = MEMORY, spread: float = SPREAD) -> Floats:
    """Noise with a lag-1 autocorrelation."""
    noise = rng.normal(0.0, spread * np.sqrt(1.0 - memory * memory), TOKENS)
    values = np.empty(TOKENS)
    last = rng.normal(0.0, spread)
    for i, innovation in enumerate(noise.tolist()):
        last = memory * last + innovation
        values[i] = last
    return values


_ALONG: Final = np.linspace(0.0, 1.0, TOKENS)

KINDS: Final[dict[str, Shape]] = {
    "sound": lambda rng: LEVEL + _autocorrelated(rng),
    "sound, with a dip": lambda rng: LEVEL - 5.0 * np.exp(-(((_ALONG - 0.5) / 0.12) ** 2)) + _autocorrelated(rng),
    "stochastic": lambda rng: LEVEL + rng.normal(0.0, SPREAD, TOKENS),
    "decaying": lambda rng: LEVEL - 6.0 * _ALONG + _autocorrelated(rng),
    "self-reinforcing": lambda rng: LEVEL + 4.0 * _ALONG + _autocorrelated(rng, spread=SPREAD / 2),
}
"""Sound paths vary around a level; hallucinations are noise without memory, fall, or become ever more confident."""

DESCRIPTIONS: Final = {
    "sound": "varies around a level",
    "sound, with a dip": "confidence dips in the middle and recovers: the paper means to keep it",
    "stochastic": "same level and spread, no memory from token to token",
    "decaying": "falls steadily by half",
    "self-reinforcing": "becomes ever more confident, with less noise",
}


def synthetic_path(kind: str, answer: str, rng: np.random.Generator) -> RecordedPath:
    """One path of a kind; its peak is a function of its conf."""
    conf = np.maximum(0.0, KINDS[kind](rng))
    peak = 1.0 / (1.0 + np.exp(-(conf - 6.0) / 3.0))
    return RecordedPath(answer, peak, conf)
