"""A path without its signals gives the same run, bit by bit, under every strategy that does not prune."""

from __future__ import annotations

import numpy as np
import pytest

from sureenough.core.options import RunOptions
from sureenough.drivers import replay
from sureenough.errors import ProtocolError
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


def test_a_strategy_that_prunes_needs_the_signals() -> None:
    with pytest.raises(ProtocolError, match="path 0 has no signals, and ddc prunes by them"):
        replay([path.summarised(16) for path in made_paths(1)], parse("ddc"), RunOptions(paths=40, window=16))
