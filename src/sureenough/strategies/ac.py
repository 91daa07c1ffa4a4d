"""Adaptive-consistency: stop when the most frequent answer surely beats the next (Aggarwal et al., 2023)."""

from __future__ import annotations

from typing import Final

from sureenough.core.stop_rules import TwoLargest
from sureenough.core.strategy import Strategy

AC: Final = Strategy(
    "ac", stop=TwoLargest(), says="adaptive-consistency: stop when the leader surely beats the next answer"
)
