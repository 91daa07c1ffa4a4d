"""Paths without their signals: the same run, bit by bit, under every strategy that does not need them."""

from __future__ import annotations

from math import nan

import numpy as np
import pytest

from sureenough.core.options import RunOptions
from sureenough.drivers import replay
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.replay import UNWEIGHED, ReplayDriver, fast_replay
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.spec import parse


def made_paths(seed: int, n: int = 40) -> list[RecordedPath]:
    """Paths of nothing to sixty tokens, some without an answer."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 60, n)
    answers = [None, "1", "2", "2", "3"]
    return [
        RecordedPath(answers[rng.integers(5)], rng.uniform(0.3, 1, tokens), rng.uniform(2, 18, tokens))
        for tokens in lengths
    ]


@pytest.mark.parametrize("spec", ["sc", "ac:weigh=learned", "esc", "sure", "sure:weigh=tail,beta=0.6", "cisc", "reasc"])
@pytest.mark.parametrize("options", [{}, {"parallel": 8}, {"parallel": 8, "hurry": 1}, {"max_tokens": 300}])
def test_the_outcome_is_the_same_without_signals(spec: str, options: dict[str, int]) -> None:
    for seed in range(5):
        paths = made_paths(seed)
        run = RunOptions(paths=40, window=16, **options)
        assert replay([path.summarised(16) for path in paths], parse(spec), run) == replay(paths, parse(spec), run)


@pytest.mark.parametrize("spec", ["sc", "ac", "esc", "sure:weigh=count"])
def test_votes_that_are_counted_need_no_signals(spec: str) -> None:
    for seed in range(5):
        paths = made_paths(seed)
        run = RunOptions(paths=40, window=16, parallel=4)
        assert replay(bare(paths), parse(spec), run) == replay(paths, parse(spec), run)


def bare(paths: list[RecordedPath]) -> list[RecordedPath]:
    return [RecordedPath(path.answer, tokens=path.tokens) for path in paths]


@pytest.mark.parametrize("driver", [fast_replay, lockstep])
@pytest.mark.parametrize("spec", ["sure", "ac:weigh=learned"])
def test_learned_weights_are_counts_without_signals_and_say_so(spec: str, driver: ReplayDriver) -> None:
    paths, run = bare(made_paths(1)), RunOptions(paths=40, window=16)
    out, counted = (
        replay(paths, parse(one), run, driver=driver) for one in (spec, f"{spec.partition(':')[0]}:weigh=count")
    )
    assert (out.answer, out.votes, out.tokens, out.steps) == (
        counted.answer,
        counted.votes,
        counted.tokens,
        counted.steps,
    )
    assert out.notes == (UNWEIGHED,)
    assert counted.notes == ()


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("ddc", "ddc prunes paths by the confidence of their tokens"),
        ("cisc", "cisc weighs votes by confidence"),
        ("sure:weigh=tail", "sure weighs votes by confidence"),
        ("ddc-no-depth", "ddc-no-depth weighs votes by confidence"),
    ],
)
def test_a_strategy_that_reads_what_was_not_recorded_is_refused(spec: str, reason: str) -> None:
    with pytest.raises(UsageError, match=f"{reason}, and .* without it: strategies that count votes, such as ac"):
        replay(bare(made_paths(1)), parse(spec), RunOptions(paths=40, window=16))


def test_what_summaries_cannot_show() -> None:
    paths = made_paths(1)
    summaries = [path.summarised(16) for path in paths]
    with pytest.raises(UsageError, match="ddc prunes paths by the confidence of their tokens"):
        replay(summaries, parse("ddc"), RunOptions(paths=40, window=16))
    with pytest.raises(UsageError, match="window is 8; these paths have the values of windows of 16 tokens only"):
        replay(summaries, parse("sure"), RunOptions(paths=40, window=8))
    assert replay(summaries, parse("ac"), RunOptions(paths=40, window=8)).answer is not None
    three = [
        RecordedPath(path.answer, tokens=path.tokens, known=(16, path.summary(16)._replace(mean_conf=nan)))
        for path in paths
    ]
    with pytest.raises(UsageError, match="cisc with signal=mean_conf: these paths were recorded without mean_conf"):
        replay(three, parse("cisc:signal=mean_conf"), RunOptions(paths=40, window=16))
