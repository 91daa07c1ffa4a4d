"""An OpenAI-compatible endpoint between any client and any server, and a page where one watches it think."""

from __future__ import annotations

from sureenough.server.settings import ServerLimits, ServerSettings

__all__ = ["ServerLimits", "ServerSettings"]
