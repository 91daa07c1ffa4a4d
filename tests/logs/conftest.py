"""The built-in model behind our own `serve`; tests of Inspect are collected only where it is installed.

`.ci/logs` runs all of them: it installs Inspect, and names lm-evaluation-harness's command in SUREENOUGH_HARNESS.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.processes import begun

collect_ignore_glob = [] if find_spec("inspect_ai") or os.environ.get("SUREENOUGH_HARNESS") else ["test_inspect*.py"]


@pytest.fixture(scope="session")
def served() -> Iterator[str]:
    """The address of a server of the built-in model."""
    with begun("serve", "--port", "0") as server:
        yield server.stdout.readline().split(" serves at ")[1].split(",")[0]
