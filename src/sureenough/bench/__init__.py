"""Strategies measured against each other on identical samples."""

from __future__ import annotations

from sureenough.bench.comparison import Comparison, compare
from sureenough.bench.score import Interval, Row

__all__ = ["Comparison", "Interval", "Row", "compare"]
