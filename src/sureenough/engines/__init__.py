"""Engines grow paths: one async generator each. Closing the generator cancels the path."""

from __future__ import annotations

from sureenough.engines.base import Chunk, Engine, Prompt
from sureenough.engines.fake import Fake
from sureenough.engines.recorded import Recorded

__all__ = ["Chunk", "Engine", "Fake", "Prompt", "Recorded"]
