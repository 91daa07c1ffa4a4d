"""A server and a file of questions to record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.recording import Recording, write_sums
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Every path of this server has 33 tokens."""
    with in_thread(serving(Manner(tokens=30, delay=0.0005))) as server:
        yield server.url


@pytest.fixture
def sums(url: str, tmp_path: Path) -> Recording:
    """A recording of eight paths for each of six questions."""
    return Recording(url, write_sums(tmp_path / "sums.jsonl", 6), tmp_path / "pool.parquet")
