"""`sure`, our own: votes weigh by how confident a path ends; stop when going on is not worth it; prune nothing."""

from __future__ import annotations

from typing import Final

from sureenough.core.expected_gain import ExpectedGain
from sureenough.core.strategy import Strategy
from sureenough.core.weights import ByTail

SURE: Final = Strategy(
    "sure", stop=ExpectedGain(), weigh=ByTail(), says="stop when the rest of the budget is not worth it; docs/sure.md"
)
