"""Engines grow paths: one async generator each. Closing the generator cancels the path.

Names are loaded when they are first used: the part that runs inside a server needs none of them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from sureenough.engines.base import Chunk, Engine, Prompt
    from sureenough.engines.fake import Fake
    from sureenough.engines.recorded import Recorded

__all__ = ["Chunk", "Engine", "Fake", "Prompt", "Recorded"]

_HOME: Final = {"Chunk": "base", "Engine": "base", "Prompt": "base", "Fake": "fake", "Recorded": "recorded"}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'sureenough.engines' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"sureenough.engines.{_HOME[name]}"), name)
    return value
