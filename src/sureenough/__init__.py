"""A reasoning model's best answer for a fraction of the tokens.

Names are loaded when they are first used: importing the package, as its worker process does, stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sureenough.version import __version__ as __version__

if TYPE_CHECKING:
    from sureenough.answers.kinds import Judge, judge
    from sureenough.api import aask, ask, replay
    from sureenough.bench import Comparison, Row, compare
    from sureenough.core.events import Fate, Tier, Token
    from sureenough.core.learning import LearnerState
    from sureenough.core.outcome import Outcome, Spent
    from sureenough.core.session import Session
    from sureenough.core.strategy import Strategy
    from sureenough.engines.base import Prompt
    from sureenough.engines.local.engine import Local
    from sureenough.engines.openai.client import OpenAI
    from sureenough.errors import (
        CannotExtend,
        EngineError,
        EngineRejected,
        EngineUnavailable,
        MissingLogprobs,
        ProtocolError,
        SureEnoughError,
        TraceError,
        UsageError,
    )
    from sureenough.pools import Learner, Pool, RecordedPath
    from sureenough.shared_budget import aallocate, allocate
    from sureenough.strategies import STRATEGIES

__all__ = [
    "STRATEGIES",
    "CannotExtend",
    "Comparison",
    "EngineError",
    "EngineRejected",
    "EngineUnavailable",
    "Fate",
    "Judge",
    "Learner",
    "LearnerState",
    "Local",
    "MissingLogprobs",
    "OpenAI",
    "Outcome",
    "Pool",
    "Prompt",
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
    "aallocate",
    "aask",
    "allocate",
    "ask",
    "compare",
    "judge",
    "replay",
]

_MODULES: Final = {
    "shared_budget": ("aallocate", "allocate"),
    "answers.kinds": ("Judge", "judge"),
    "api": ("aask", "ask", "replay"),
    "bench": ("Comparison", "Row", "compare"),
    "core.events": ("Fate", "Tier", "Token"),
    "core.learning": ("LearnerState",),
    "core.outcome": ("Outcome", "Spent"),
    "core.session": ("Session",),
    "core.strategy": ("Strategy",),
    "engines.base": ("Prompt",),
    "engines.local.engine": ("Local",),
    "engines.openai.client": ("OpenAI",),
    "errors": (
        "CannotExtend",
        "EngineError",
        "EngineRejected",
        "EngineUnavailable",
        "MissingLogprobs",
        "ProtocolError",
        "SureEnoughError",
        "TraceError",
        "UsageError",
    ),
    "strategies": ("STRATEGIES",),
    "pools": ("Learner", "Pool", "RecordedPath"),
}
_MODULE_OF: Final = {name: module for module, names in _MODULES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sureenough' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sureenough.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
