"""An OpenAI-compatible endpoint in front of any OpenAI-compatible server, and a page that shows its runs live."""

from __future__ import annotations

from sureenough.server.settings import ServerLimits, ServerSettings

__all__ = ["ServerLimits", "ServerSettings"]
