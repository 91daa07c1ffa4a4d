"""A reasoning model's best answer for a fraction of the tokens."""

from __future__ import annotations

from sureenough.api import replay
from sureenough.bench import Comparison, Row, compare
from sureenough.core.events import Fate, Tier, Token
from sureenough.core.outcome import Outcome, Spent
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.errors import (
    EngineError,
    EngineRejected,
    EngineUnavailable,
    MissingLogprobs,
    ProtocolError,
    SureEnoughError,
    TraceError,
    UsageError,
)
from sureenough.strategies import STRATEGIES
from sureenough.traces import Pool, RecordedPath

__version__ = "0.1.0"

__all__ = [
    "STRATEGIES",
    "Comparison",
    "EngineError",
    "EngineRejected",
    "EngineUnavailable",
    "Fate",
    "MissingLogprobs",
    "Outcome",
    "Pool",
    "ProtocolError",
    "RecordedPath",
    "Row",
    "Session",
    "Spent",
    "Strategy",
    "SureEnoughError",
    "Tier",
    "Token",
    "TraceError",
    "UsageError",
    "compare",
    "replay",
]
