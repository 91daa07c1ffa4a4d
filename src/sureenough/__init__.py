"""A reasoning model's best answer for a fraction of the tokens.

Names are loaded when they are first used: importing the package, as its worker process does, stays cheap.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from sureenough.version import __version__ as __version__

if TYPE_CHECKING:  # `X as X` is what type checkers take for an export
    # isort: off
    from sureenough.answers.kinds import Judge as Judge, judge as judge
    from sureenough.api import aask as aask, ask as ask, replay as replay
    from sureenough.bench import Comparison as Comparison, Row as Row, compare as compare
    from sureenough.core.events import Fate as Fate, Tier as Tier, Token as Token
    from sureenough.core.learning import LearnerState as LearnerState
    from sureenough.core.outcome import Outcome as Outcome, Spent as Spent
    from sureenough.core.session import Session as Session
    from sureenough.core.strategy import Strategy as Strategy
    from sureenough.engines.requests import Prompt as Prompt
    from sureenough.engines.local.engine import Local as Local
    from sureenough.engines.openai.client import OpenAI as OpenAI
    from sureenough.errors import (
        CannotExtend as CannotExtend,
        EngineError as EngineError,
        EngineRejected as EngineRejected,
        EngineUnavailable as EngineUnavailable,
        MissingLogprobs as MissingLogprobs,
        ProtocolError as ProtocolError,
        SureEnoughError as SureEnoughError,
        TraceError as TraceError,
        UsageError as UsageError,
    )
    from sureenough.pools import Learner as Learner, Pool as Pool, RecordedPath as RecordedPath
    from sureenough.strategies import STRATEGIES as STRATEGIES
    # isort: on

_MODULES: Final = {
    "answers.kinds": ("Judge", "judge"),
    "api": ("aask", "ask", "replay"),
    "bench": ("Comparison", "Row", "compare"),
    "core.events": ("Fate", "Tier", "Token"),
    "core.learning": ("LearnerState",),
    "core.outcome": ("Outcome", "Spent"),
    "core.session": ("Session",),
    "core.strategy": ("Strategy",),
    "engines.requests": ("Prompt",),
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
__all__ = sorted(_MODULE_OF, key=lambda name: (not name.isupper(), name.islower(), name))  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'sureenough' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sureenough.{_MODULE_OF[name]}"), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
