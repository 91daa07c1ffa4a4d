"""Laws that hold for every strategy, every width and every set of paths."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.replay import fast_replay, replay
from sureenough.pools import RecordedPath
from sureenough.strategies import STRATEGIES
from tests.requirements import examples


@st.composite
def questions(draw: st.DrawFn) -> list[RecordedPath]:
    """Up to 20 paths; values on a coarse grid, so that ties and equal thresholds really happen."""
    seed = draw(st.integers(0, 2**32 - 1))
    lengths = draw(st.lists(st.one_of(st.just(0), st.integers(1, 40)), min_size=1, max_size=20))
    grid = draw(st.sampled_from([0, 1, 3]))
    rng = np.random.default_rng(seed)
    paths = []
    for length in lengths:
        answer = rng.choice(["a", "b", "c", ""])
        conf = np.round(rng.normal(8, 2, length), grid)
        paths.append(RecordedPath(str(answer) or None, np.round(rng.random(length), grid + 1), conf))
    return paths


@st.composite
def strategies(draw: st.DrawFn, most: int) -> Strategy:
    replayable = sorted(name for name, strategy in STRATEGIES.items() if strategy.search is None)
    strategy = STRATEGIES[draw(st.sampled_from(replayable))]
    if strategy.state is not None:
        sums = draw(st.tuples(st.floats(-9, 9), st.floats(-9, 9)))
        strategy = strategy.with_state(LearnerState(9, sums, (9, 9)))
    warmup = draw(st.integers(1, max(1, min(most, 6))))
    return replace(strategy, warmup=warmup) if strategy.warmup else strategy


@st.composite
def runs(draw: st.DrawFn) -> tuple[list[RecordedPath], Strategy, dict[str, Any]]:
    paths = draw(questions())
    sizes: dict[str, Any] = {"paths": len(paths), "window": draw(st.integers(1, 10))}
    sizes["parallel"] = draw(st.integers(1, len(paths) + 2))
    sizes["max_tokens"] = draw(st.one_of(st.none(), st.integers(1, 250)))
    sizes["hurry"] = draw(st.sampled_from([None, None, None, 0.0, 0.25, 0.3, 1.0, 4.0]))
    sizes["deadline"] = draw(st.sampled_from([None, None, None, 0.0]))
    return paths, draw(strategies(len(paths))), sizes


@examples(400)
@given(runs())
def test_both_lanes_take_the_same_decisions(run: tuple[list[RecordedPath], Strategy, dict[str, Any]]) -> None:
    paths, strategy, sizes = run
    assert replay(paths, strategy, RunOptions(**sizes), driver=fast_replay) == replay(
        paths, strategy, RunOptions(**sizes), driver=lockstep
    )


@examples(200)
@given(runs())
def test_the_budget_holds_and_every_token_has_one_bucket(
    run: tuple[list[RecordedPath], Strategy, dict[str, Any]],
) -> None:
    paths, strategy, sizes = run
    out = replay(paths, strategy, RunOptions(**sizes))
    assert out.started <= sizes["paths"]
    assert sizes["max_tokens"] is None or out.tokens.total <= sizes["max_tokens"]
    assert out.tokens.failed == out.tokens.overrun == 0
    assert out.tokens.total <= sum(path.tokens for path in paths)
    assert out.pruned == sum(out.tiers.values())
    assert out.steps <= out.tokens.total
    assert out.answer is None or out.answer in out.votes


@examples(300)
@given(runs(), st.integers(1, 24))
def test_any_width_gives_the_sequential_answer(
    run: tuple[list[RecordedPath], Strategy, dict[str, Any]], parallel: int
) -> None:
    paths, strategy, sizes = run
    sizes |= {"max_tokens": None, "deadline": None}

    def decided(out: Outcome) -> tuple[object, ...]:
        return out.answer, out.reason, out.votes, out.verdict.measure, out.gate

    alone = replay(paths, strategy, RunOptions(**(sizes | {"parallel": 1})))
    wide = replay(paths, strategy, RunOptions(**(sizes | {"parallel": parallel})))
    assert decided(wide) == decided(alone)
    assert wide.tokens.total >= alone.tokens.total
    assert wide.steps <= alone.steps
    assert (wide.tokens.init, wide.tokens.kept) == (alone.tokens.init, alone.tokens.kept)
