"""The guard against confidence that misleads, and outcomes that explain themselves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import sureenough as se
from sureenough.bench.guard import FLOOR, PRIOR, ConfidenceGuard
from sureenough.core.expected_gain import ExpectedGain
from sureenough.core.weights import ByTail
from sureenough.pools import PoolInfo, Question, RecordedPath, write_pool
from sureenough.spec import parse


def test_it_believes_at_first_and_stops_when_misled() -> None:
    guard = ConfidenceGuard(parse("sure"))
    assert guard.belief == PRIOR
    assert guard.current() is guard.strategy
    for _ in range(3):
        guard.learn(-0.4)
    guard.learn(None)
    assert guard.belief == pytest.approx((0.2 * 8 - 0.4 * 3) / 11)
    assert guard.belief <= FLOOR
    wary = guard.current()
    assert wary.weigh == ByTail(beta=0.0)
    assert wary.stop == ExpectedGain(delta=0.0025)
    assert guard.wary == 1
    for _ in range(5):
        guard.learn(0.9)
    assert guard.current() is guard.strategy, "confidence may win its trust back"


def test_other_strategies_are_left_alone() -> None:
    guard = ConfidenceGuard(parse("ddc"))
    guard.learn(-100.0)
    assert guard.current() is guard.strategy


def pool_with(confidence: float, folder: Path) -> Path:
    """Questions whose right paths are more (or, negative, less) confident than the others."""
    rng = np.random.default_rng(1)
    questions = []
    for q in range(30):
        paths = []
        for _ in range(24):
            right = rng.random() < 0.6
            level = 9 + confidence * (1 if right else -1) + rng.normal(0, 0.5)
            answer = "right" if right else str(rng.choice(["x", "y", "z"]))
            paths.append(RecordedPath(answer, [0.5] * 8, np.full(8, level)))
        questions.append(Question(f"q{q}", "right", None, paths))
    write_pool(folder / "made.parquet", questions, PoolInfo(window=4))
    return folder / "made.parquet"


def test_a_comparison_says_when_confidence_misled(tmp_path: Path) -> None:
    misled = se.compare(pool_with(-1.5, tmp_path), ["sc", "sure"], repeats=2, guard=True)
    assert any("sure: confidence misled" in note for note in misled.notes)
    bare = se.compare(pool_with(-1.5, tmp_path), ["sc", "sure"], repeats=2)
    assert misled.rows[1].accuracy > bare.rows[1].accuracy
    fine = se.compare(pool_with(+1.5, tmp_path), ["sc", "sure"], repeats=2, guard=True)
    assert not any("misled" in note for note in fine.notes)


def test_an_outcome_explains_itself() -> None:
    paths = [RecordedPath("42" if i % 4 else "41", [0.5] * 6, [9.0] * 6) for i in range(20)]
    text = se.replay(paths, "sure", window=4).explain()
    assert text.splitlines()[0].startswith("Answer: 42 (sure, ")
    assert "Votes: 42 " in text
    assert "The vote was settled when " in text
    wide = se.replay(paths, "sure", window=4, parallel=20)
    assert f"when {wide.counted} paths had been counted; {20 - wide.counted} more had been started." in wide.explain()
    assert "points of vote share" in text
    assert "tokens (" in text
    nothing = se.replay([RecordedPath(None, [], [])], "ddc:warmup=1").explain()
    assert nothing.startswith("No answer (ddc:warmup=1, 1 of 1 paths).")
    assert "There are no votes yet." in nothing
    assert "Note: no path was watched" in nothing


def test_many_answers_are_summed_up() -> None:
    paths = [RecordedPath(str(i), [0.5], [9.0]) for i in range(9)]
    assert "and 4 more" in se.replay(paths, "sc").explain()
    assert "more;" not in se.replay(paths[:5], "sc").explain()
