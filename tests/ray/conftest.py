"""One cluster for all tests, which are collected only where Ray is installed; SUREENOUGH_RAY insists on them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib.util import find_spec

import pytest

from tests.ray.cluster import TestCluster, started_cluster

collect_ignore_glob = [] if find_spec("ray") or os.environ.get("SUREENOUGH_RAY") else ["test_*.py"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[TestCluster]:
    with started_cluster() as running:
        yield running
