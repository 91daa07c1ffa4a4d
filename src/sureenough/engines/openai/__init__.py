"""Any OpenAI-compatible server as an engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sureenough.engines.openai.client import OpenAI, Timeouts

__all__ = ["OpenAI", "Timeouts"]


def __getattr__(name: str) -> Any:
    """Load the client when it is used: the vLLM client imports this package's errors, and the client imports it."""
    if name not in __all__:
        raise AttributeError(f"module 'sureenough.engines.openai' has no attribute {name!r}")
    from sureenough.engines.openai import client

    return getattr(client, name)
