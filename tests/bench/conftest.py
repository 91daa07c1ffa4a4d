"""Experiments at a size that tests can afford."""

from __future__ import annotations

import pytest

from sureenough.bench.experiments import synthetic_runs, theorem


@pytest.fixture
def few_synthetic_questions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of hundreds, which take many seconds; and few votes until the theorem's safety brake gives up."""
    monkeypatch.setattr(synthetic_runs, "GATES", 4)
    monkeypatch.setattr(synthetic_runs, "QUESTIONS", 4)
    monkeypatch.setattr(theorem, "LONG", 64)
