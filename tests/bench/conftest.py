"""Experiments at a size that tests can afford."""

from __future__ import annotations

import pytest

from sureenough.bench.paper import single_paths
from sureenough.bench.pipeline import Source
from tests.bench.making import make_pool


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Source:
    return make_pool(tmp_path_factory.mktemp("pools"))


@pytest.fixture
def few_synthetic_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few votes until the theorem's safety brake gives up."""
    monkeypatch.setattr(single_paths, "LONG", 64)
