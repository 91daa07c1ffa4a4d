"""Tests of tensors need torch, tests of kernels Triton too: `pip install -e '.[dev,kernel]'`.

Where CI has promised them (SUREENOUGH_KERNEL=1), their absence is an error and no reason to skip.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest


def needed(name: str) -> Any:
    """The module, or a skip that says how to get it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("SUREENOUGH_KERNEL") == "1":
            raise
        pytest.skip(f"no {name} here: pip install -e '.[dev,kernel]'", allow_module_level=True)
