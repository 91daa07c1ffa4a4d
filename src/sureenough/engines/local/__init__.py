"""Models on this machine: llama.cpp's server in this process."""

from __future__ import annotations

from sureenough.engines.local.engine import Local

__all__ = ["Local"]
