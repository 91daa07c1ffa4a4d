"""Experiments that look at single paths: calibration and the theorem."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from sureenough.bench.paper.single_paths import area, by_difficulty, can_hold, condition, stopping
from sureenough.bench.pipeline import Source
from sureenough.errors import UsageError
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool
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


def test_difficulty_is_the_share_of_right_paths_where_there_are_no_levels(source: Source) -> None:
    class One:
        def __init__(self, share: float) -> None:
            self.level, self.share = None, share

    how, groups = by_difficulty([One(0.9), One(0.5), One(0.1), One(0.7)])
    assert "share of right paths" in how
    assert {name: len(group) for name, group in groups.items()} == {"easy": 2, "medium": 1, "hard": 1}


def literal(right: list[bool], weights: list[float]) -> tuple[int, bool | None]:
    """The stop test, vote by vote, by scipy's own survival function."""
    for n in range(1, len(right) + 1):
        ahead = sum(w for r, w in zip(right[:n], weights[:n], strict=True) if r)
        behind = sum(w for r, w in zip(right[:n], weights[:n], strict=True) if not r)
        if beta.sf(0.5, 1 + max(ahead, behind), 1 + min(ahead, behind)) > 0.95:
            return n, behind > ahead
    return len(right), None


def test_stopping_times_are_those_of_a_literal_reading() -> None:
    rng = np.random.default_rng(4)
    right, weights = rng.random((60, 90)) < 0.6, rng.uniform(0.2, 2.0, (60, 90))
    stops = stopping(right, weights)
    for i in range(60):
        when, wrong = literal(right[i].tolist(), weights[i].tolist())
        assert (stops.times[i], stops.open[i]) == (when, wrong is None)
        assert stops.wrong[i] == bool(wrong)
    assert stops.open.any()
    assert stops.wrong.any()


def test_the_condition_by_hand_and_its_scale() -> None:
    c = condition(0.8, np.array([0.9, 0.7]), np.array([0.3]))
    left = (0.8 * 0.8 - 0.2 * 0.3) / math.sqrt(0.8 * (0.81 + 0.49) / 2 + 0.2 * 0.09)
    assert list(c) == pytest.approx([left, 0.6 / 0.8])
    assert c.holds
    scaled = condition(0.8, np.array([9.0, 7.0]), np.array([3.0]))
    assert scaled.left == pytest.approx(c.left)
    for p in (0.51, 0.7, 0.95):  # equal weights never meet it
        assert not condition(p, np.full(3, 0.1), np.full(3, 0.1)).holds


def test_the_brake_slows_by_about_the_inverse_weight() -> None:
    result = run("theorem")
    brake = table(result, "brake")
    rows = [
        (p, eps, ratio)
        for p, eps, ratio in zip(*(values(brake, t) for t in ("p", "weight of every vote", "ratio")), strict=True)
    ]
    assert all(ratio == 1 for _, eps, ratio in rows if eps == 1)
    assert all(0.5 / eps < ratio < 2 / eps for _, eps, ratio in rows)
    betas = table(result, "beta")
    assert values(betas, "N, counts") == sorted(values(betas, "N, counts"))  # harder questions take longer
    assert all(w > n for w, n in zip(values(betas, "N, weights"), values(betas, "N, counts"), strict=True))


@pytest.mark.usefixtures("few_synthetic_questions")
def test_given_betas_are_used_and_bad_ones_refused() -> None:
    case = (0.9, 50.0, 1.0, 1.0, 50.0)
    betas = table(run("theorem", sweep=case), "beta")
    assert column(betas, "weights of right paths") == ["Beta(50, 1)"]
    assert column(betas, "holds") == ["no"]
    with pytest.raises(UsageError, match="five numbers per case, 4 were given"):
        run("theorem", sweep=case[:4])
    with pytest.raises(UsageError, match="between 0 and 1"):
        run("theorem", sweep=(1.5, 1.0, 1.0, 1.0, 1.0))


def test_no_weights_satisfy_the_condition_beyond_a_share_of_right_paths() -> None:
    """The best that weights can do: wrong paths weigh next to nothing, right ones all the same."""
    rng = np.random.default_rng(5)
    for p in (0.55, 0.7, 0.83, 0.8376, 0.8377, 0.85, 0.95):
        best = condition(p, np.ones(9), np.full(9, 1e-9))
        assert best.left == pytest.approx(math.sqrt(p))
        assert can_hold(p) == best.holds
        for _ in range(50):
            assert condition(p, rng.exponential(1.0, 9), rng.exponential(0.1, 9)).left <= best.left
    assert not can_hold(1.0)


@pytest.mark.usefixtures("few_synthetic_questions")
def test_questions_without_wrong_paths_are_neither_informative_nor_not(tmp_path: Path) -> None:
    """Of three questions with 24, 20 and 14 right paths of 24, one has no wrong path and two cannot be satisfied."""
    made = [
        Question(f"q{i}", "7", None, [RecordedPath("7" if j < n else "8", [0.5] * 9, [2.0 - (j >= n)] * 9)
                                      for j in range(24)])
        for i, n in enumerate((24, 21, 14))
    ]  # fmt: skip
    write_pool(tmp_path / "p.parquet", made, PoolInfo(window=8))
    measured = table(run("theorem", Source.of(tmp_path / "p.parquet")), "measured")
    titles = ("solvable", "some paths wrong", "informative", "condition can hold", "condition holds")
    assert [values(measured, title)[0] for title in titles] == [3, 2, 1.0, 1, 1]


@pytest.mark.usefixtures("few_synthetic_questions")
def test_measured_weights_come_from_the_pool(source: Source) -> None:
    measured = table(run("theorem", source), "measured")
    assert values(measured, "questions")[0] == 8
    assert values(measured, "solvable")[0] == 4
    assert max(values(measured, "N, weights, raw")) < min(values(measured, "N, counted votes"))
