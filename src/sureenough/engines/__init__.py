"""Engines generate paths: one async generator per path. Closing the generator cancels the path.

Names are imported on first use: the code that runs inside vLLM needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sureenough.engines.base import End, Engine, Piece, Prompt, Report
    from sureenough.engines.fake import Fake
    from sureenough.engines.recorded import Recorded

__all__ = ["End", "Engine", "Fake", "Piece", "Prompt", "Recorded", "Report"]

_MODULES: Final = {"Fake": "fake", "Recorded": "recorded"}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'sureenough.engines' has no attribute {name!r}")
    module = import_module(f"sureenough.engines.{_MODULES.get(name, 'base')}")
    value = globals()[name] = getattr(module, name)
    return value
