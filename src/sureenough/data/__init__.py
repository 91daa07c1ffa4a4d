"""Files that ship with the package."""

from __future__ import annotations

from pathlib import Path
from typing import Final

BUILTIN_POOL: Final = Path(__file__).with_name("builtin.parquet")
"""Recorded paths of a small real model; README.md beside it says what they are."""
REASONER: Final = Path(__file__).with_name("reasoner.gguf")
"""The built-in model; reasoner.json beside it has its checksum and what it suggests."""
