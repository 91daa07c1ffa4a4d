"""Tests of tensors need torch, tests of kernels need Triton too: `pip install -e '.[dev,kernel]'`.

If SUREENOUGH_KERNEL=1, as in CI, a missing module is an error and the tests are not skipped.
If SUREENOUGH_FULL=1, as in CI, tests that can be small or large are large.
"""

from __future__ import annotations

import importlib
import os
from typing import Any

import pytest
from hypothesis import settings

from sureenough.engines.local import engine as local
from sureenough.engines.openai import errors

FULL = os.environ.get("SUREENOUGH_FULL") == "1"


def require(name: str) -> Any:
    """The module; without it the test file is skipped with a message that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError:
        if os.environ.get("SUREENOUGH_KERNEL") == "1":
            raise
        pytest.skip(f"{name} is not installed: pip install -e '.[dev,kernel]'", allow_module_level=True)


def examples(number: int) -> settings:
    """Settings of Hypothesis: so many examples in CI, a quarter of them otherwise."""
    return settings(max_examples=number if FULL else number // 4)


def save_time() -> None:
    """In this process and those forked from it, retries follow at once, and local models do not wait for a core."""
    errors.FIRST_WAIT = 0.02  # type: ignore[misc]  # a constant for everybody else
    local.cores = lambda: 1
