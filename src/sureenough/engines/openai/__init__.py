"""Any OpenAI-compatible server as an engine."""

from __future__ import annotations

from sureenough.engines.openai.client import OpenAI, Timeouts

__all__ = ["OpenAI", "Timeouts"]
