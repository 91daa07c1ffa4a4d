"""The experiment that looks at single paths."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sureenough.bench.paper.single_paths import PathSignals, area, by_difficulty
from sureenough.bench.pipeline import Source
from tests.bench.test_experiments import column, run, table, values


def test_area_is_the_chance_that_right_beats_wrong() -> None:
    assert area(np.array([2.0, 3.0]), np.array([1.0, 2.0])) == pytest.approx(3.5 / 4)
    assert math.isnan(area(np.empty(0), np.array([1.0])))


def test_calibration_finds_the_surer_right_paths(source: Source) -> None:
    found = table(run("calibration", source), "calibration")
    assert set(column(found, "difficulty")) == {"all", *(f"level {n}" for n in range(1, 6))}
    assert values(found, "mean, right")[0] > values(found, "mean, wrong")[0]
    assert values(found, "area under ROC")[0] > 0.6
    assert values(found, "right paths")[0] == sum(values(found, "right paths")[3::3])


def test_difficulty_is_the_share_of_right_paths_where_there_are_no_levels() -> None:
    nothing = np.empty(0)
    shares = [np.arange(10) < right for right in (9, 5, 1, 7)]
    how, groups = by_difficulty([PathSignals(None, right, nothing, nothing, nothing) for right in shares])
    assert "share of right paths" in how
    assert {name: len(group) for name, group in groups.items()} == {"easy": 2, "medium": 1, "hard": 1}
