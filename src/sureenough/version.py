"""The version, which pyproject.toml reads too."""

from __future__ import annotations

__version__ = "0.1.0"
