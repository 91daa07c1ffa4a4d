"""Comparisons learn which confidence to trust; outcomes explain themselves."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sureenough as se
from sureenough.bench.pipeline import ReplaySettings, Source
from sureenough.bench.replay import ReplayCell, in_order, replay_cells
from sureenough.bench.score import mean_state
from sureenough.core.options import RunOptions
from sureenough.core.weights import LearnerState
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Pool, PoolInfo, Question, RecordedPath, write_pool
from sureenough.spec import parse, resolve
from tests.bench.making import make_pool, pool_of


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


def learned_of(pool: Path, spec: str = "sure") -> dict[str, float]:
    row = se.compare(pool, [spec], repeats=2).rows[0]
    assert row.learned is not None
    return {name: signal["beta"] for name, signal in row.learned.items()}


def test_a_comparison_learns_which_confidence_to_trust(tmp_path: Path) -> None:
    assert learned_of(pool_with(+1.5, tmp_path))["tail"] > 0.6
    assert learned_of(pool_with(-1.5, tmp_path))["tail"] == pytest.approx(0.0)
    misled = se.compare(pool_with(-1.5, tmp_path), ["sc", "sure", "sure:weigh=tail,beta=0.6"], repeats=2)
    assert misled.rows[1].accuracy > misled.rows[2].accuracy
    (note,) = [note for note in misled.notes if "learned" in note]
    assert note.startswith("sure learned how far confidence goes with agreement: tail -0.")
    assert misled.rows[0].learned is None


def test_a_comparison_in_which_all_votes_agree_has_learned_nothing(tmp_path: Path) -> None:
    notes = se.compare(pool_of(tmp_path, ["7"] * 8), ["sc", "sure"], repeats=1).notes
    assert "sure learned nothing of confidence: no question had five votes that do not all agree" in notes


def test_repeats_learn_alone_and_in_the_order_of_the_pass(tmp_path: Path) -> None:
    """By hand: the states of a pass, question by question."""
    pool, settings = pool_with(1.5, tmp_path), ReplaySettings(repeats=2)
    options = RunOptions(paths=24, window=4)
    ((result,),) = replay_cells([Source.of(pool)], lambda _: [ReplayCell("sure", "sure", options)], settings)
    states = [LearnerState(), LearnerState()]
    for question in Pool(pool):
        for repeat, state in enumerate(states):
            paths = in_order(question, repeat, 0, 24)
            states[repeat] = state.receive(run_recorded(paths, parse("sure").with_state(state), options))
    assert states[0] != states[1]
    assert result.row.learned == mean_state(parse("sure"), states)


def test_cells_that_learn_and_need_signals_are_the_same_with_several_processes(tmp_path: Path) -> None:
    source = make_pool(tmp_path)
    pruning = replace(resolve("sure"), name="sure with a gate", warmup=8, calibrate=resolve("ddc").calibrate)
    strategies: list[Any] = ["sc", "sure", pruning]
    cells = [ReplayCell(str(n), strategy, RunOptions(window=8)) for n, strategy in enumerate(strategies)]
    one, two = (replay_cells([source], lambda pool: cells, ReplaySettings(repeats=3, jobs=jobs))[0] for jobs in (1, 2))
    assert [line.row for line in one] == [line.row for line in two]
    assert [line.runs.answers for line in one] == [line.runs.answers for line in two]
    assert one[-1].row.pruned > 0


def test_an_outcome_explains_itself() -> None:
    paths = [RecordedPath("42" if i % 4 else "41", [0.5] * 6, [9.0] * 6) for i in range(20)]
    wide = se.replay(paths, "sure", window=4, parallel=20)
    text = wide.explain()
    assert f"when {wide.counted} paths had been counted; {20 - wide.counted} more had been started." in text
    assert "The vote was settled when " in text
    assert "points of vote share" in text
    nothing = se.replay([RecordedPath(None, [], [])], "ddc:warmup=1").explain()
    assert "There are no votes yet." in nothing
    assert "Note: no path was watched" in nothing
    different = [RecordedPath(str(i), [0.5], [9.0]) for i in range(9)]
    assert "and 4 more" in se.replay(different, "sc").explain()
    assert "more;" not in se.replay(different[:5], "sc").explain()
