"""Which strategy to use: the rule, its intervals, and lists of strategies that fit a pool."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import sureenough as se
from sureenough.bench.paper import EXPERIMENTS
from sureenough.bench.recommendation import DETECT, advice, judge, paired, sentences, to_json
from sureenough.bench.replay import fitting
from sureenough.bench.result import ComparedStrategy, Recommendation
from sureenough.bench.score import lowest_agreement
from sureenough.bench.tables import Measure
from sureenough.errors import UsageError
from sureenough.pools import Pool, write_pool
from tests.bench.making import inputs, make_pool


def candidate(
    name: str, tokens: float, value: float, low: float, high: float, error: float = 0.01, agreed: float = 0.9
) -> ComparedStrategy:
    return ComparedStrategy(name, tokens, Measure(value, low, high), error, agreed, agreed - 0.05)


def of(*candidates: ComparedStrategy, questions: int = 100, basis: str = "accuracy") -> Recommendation:
    return Recommendation("d", "m", basis, questions, "sc", 1000.0, list(candidates))  # type: ignore[arg-type]


def test_the_cheapest_whose_interval_stays_above_the_margin() -> None:
    bad = candidate("bad", 100.0, 0.0, -0.05, 0.05)
    good = candidate("good", 200.0, -0.005, -0.019, 0.01)
    dear = candidate("dear", 500.0, 0.0, -0.001, 0.001)
    verdict = judge(of(bad, good, dear))
    assert (verdict.kind, verdict.strategy) == ("shown", "good")
    assert sentences(of(bad, good, dear)) == [
        "Use good: 5.0x fewer tokens than sc, accuracy -0.5 [-1.9, +1.0] points.",
        "100 questions can detect differences of about 2.8 points; to detect 2 points, record about 200.",
    ]


def test_what_the_data_cannot_say_is_not_recommended() -> None:
    verdict = judge(
        of(candidate("cheap", 100.0, -0.03, -0.1, 0.02), candidate("likely", 200.0, 0.0, -0.05, 0.05, 0.05))
    )
    assert (verdict.kind, verdict.strategy, verdict.best and verdict.best.strategy) == ("undecided", "sc", "likely")
    assert sentences(of(candidate("likely", 200.0, 0.0, -0.05, 0.05, 0.05))) == [
        "sc is the safe choice: 100 questions cannot show that a cheaper strategy loses at most 2 points (they can "
        "detect about 14.0 points; for likely, record about 4,900).",
        "likely: 10 of 100 answers changed; at 95% at most 15.0% of answers would; 5.0x fewer tokens than sc, accuracy "
        "+0.0 [-5.0, +5.0] points.",
    ]


def test_few_changed_answers_are_as_good_as_a_narrow_interval() -> None:
    verdict = judge(of(candidate("ac", 200.0, 0.0, -0.03, 0.03, agreed=1.04)))
    assert (verdict.kind, verdict.strategy) == ("shown", "ac"), "at most 1% of its answers change"
    assert lowest_agreement(np.ones(60)) == pytest.approx(1 - 0.0487, abs=1e-4)
    assert lowest_agreement(np.zeros(60)) == 0.0


def test_cheaper_ones_that_are_shown_to_lose() -> None:
    text = sentences(of(candidate("worse", 200.0, -0.1, -0.12, -0.08), candidate("dearer", 2000.0, 0.0, 0.0, 0.0)))
    assert text[0].startswith("Use sc: all cheaper strategies lose more than 2 points. The closest is worse: 5.0x")
    assert sentences(of(candidate("dearer", 2000.0, 0.0, 0.0, 0.0))) == [
        "Use sc: no strategy of this list spends fewer tokens."
    ]


def test_30_questions_without_a_change_do_not_show_that_nothing_changes() -> None:
    measure, error = paired(np.zeros(30), 0)
    assert measure.value == pytest.approx(0.0)
    assert measure.low is not None
    assert -0.1 < measure.low < -0.06
    assert 0.1 < DETECT * error < 0.15
    many, _ = paired(np.zeros(400), 0)
    assert many.low is not None
    assert many.low > -0.01


@pytest.mark.parametrize("questions", [30, 150, 500])
def test_the_interval_holds_what_it_promises(questions: int) -> None:
    """Coverage of a true difference of -3 points, with 5% of questions won and 8% lost."""
    rng = np.random.default_rng(0)
    draws = rng.choice([1.0, -1.0, 0.0], p=[0.05, 0.08, 0.87], size=(300, questions))
    measures = [paired(draw, 0)[0] for draw in draws]
    assert np.mean([(m.low or 0.0) <= -0.03 <= (m.high or 0.0) for m in measures]) >= 0.92


def test_a_pool_without_gold_answers_is_judged_by_agreement(tmp_path: Path) -> None:
    source = make_pool(tmp_path, questions=12)
    pool = Pool(source.pool)
    write_pool(tmp_path / "bare.parquet", [replace(q, gold=None) for q in pool], pool.info)
    compared = se.compare(tmp_path / "bare.parquet", ["sc", "ac"], repeats=2)
    recommendation = compared.recommendation
    assert recommendation is not None
    assert (recommendation.basis, recommendation.questions) == ("agreement", 12)
    assert "the same answer on" in " ".join(sentences(recommendation))
    assert sentences(recommendation)[-1] == "There are no gold answers: this is agreement with sc, not accuracy."
    assert to_json(recommendation)["verdict"]["kind"] == "undecided"
    result = EXPERIMENTS["main"].run(inputs(replace(source, pool=tmp_path / "bare.parquet"), repeats=1))
    assert result.figures[0].title.endswith("agreement compared with sc")
    assert len(advice([result])) > 2


def test_sc_is_the_reference_wherever_it_stands(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    last = se.compare(source.pool, ["ac", "sc"], repeats=2).recommendation
    first = se.compare(source.pool, ["sc", "ac"], repeats=2).recommendation
    assert last == first
    without = se.compare(source.pool, ["ac", "esc"], repeats=2).recommendation
    assert without is not None
    assert without.reference == "ac"
    assert se.compare(source.pool, ["sc"], repeats=1).recommendation is None


def test_lists_that_fit() -> None:
    assert fitting(["sc", "ddc"], 64) == (["sc", "ddc"], [])
    specs, notes = fitting(["sc", "ddc", "ddc:weight=mean"], 8)
    assert specs == ["sc", "ddc:warmup=4", "ddc:weight=mean,warmup=4"]
    assert notes == ["there are 8 paths per question, fewer than the warm-up of ddc, ddc:weight=mean: 4 paths warm up"]
    specs, notes = fitting(["sc", "ddc"], 7)
    assert (specs, notes) == (["sc"], ["there are 7 paths per question, fewer than the warm-up of ddc: left out"])


def test_a_small_pool_is_compared_by_what_it_can_run(tmp_path: Path) -> None:
    source = make_pool(tmp_path, paths=6)
    compared = se.compare(source.pool, repeats=1)
    assert [row.strategy for row in compared] == ["sc", "ac", "esc", "sure"]
    assert "left out" in compared.notes[0]
    assert [row.strategy for row in se.compare(source.pool, paths=4, repeats=1)] == ["sc", "ac", "esc", "sure"]
    with pytest.raises(UsageError, match="warms up with 16 paths"):
        se.compare(source.pool, ["ddc"], repeats=1)
    result = EXPERIMENTS["main"].run(inputs(source, make_pool(tmp_path, name="large.parquet"), repeats=1))
    assert any("left out" in note for note in result.notes)
