"""Dual-dimensional consistency: a weighted posterior stops sampling, three tiers prune paths."""

from __future__ import annotations

from typing import Final

from sureenough.core.pruning import Stratified
from sureenough.core.stop_rules import Posterior
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByConfidence

DDC: Final = Strategy(
    "ddc",
    warmup=16,
    calibrate=Stratified(),
    stop=Posterior(),
    weigh=ByConfidence(),
    says="dual-dimensional consistency: a weighted posterior stops sampling, three tiers prune paths",
)
