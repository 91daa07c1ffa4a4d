"""Engines generate paths: one async generator per path. Closing the generator cancels the path.

Names are imported on first use: the code that runs inside vLLM needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sureenough.engines.base import Engine
    from sureenough.engines.fake import Fake
    from sureenough.engines.recorded import Recorded
    from sureenough.engines.requests import Chunk, Prompt

__all__ = ["Chunk", "Engine", "Fake", "Prompt", "Recorded"]

_MODULES: Final = {"Chunk": "requests", "Engine": "base", "Prompt": "requests", "Fake": "fake", "Recorded": "recorded"}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'sureenough.engines' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sureenough.engines.{_MODULES[name]}"), name)
    return value
