"""Experiments at a size that tests can afford."""

from __future__ import annotations

import pytest

from sureenough.bench.experiments import failure_modes


@pytest.fixture
def few_synthetic_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of 40, which take seconds; `test_failure_modes_split_paths_by_fate` uses them all."""
    monkeypatch.setattr(failure_modes, "TRIALS", 4)
