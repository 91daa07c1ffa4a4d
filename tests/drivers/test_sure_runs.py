"""Whole runs of `sure` equal a literal scalar version, on random and on real paths; any order of finishing agrees."""

from __future__ import annotations

import math

import pytest
from scipy.stats import beta as beta_distribution

from sureenough.core.options import RunOptions
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState
from sureenough.drivers import replay
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.replay import fast_replay
from sureenough.pools import Question, RecordedPath
from sureenough.spec import parse
from tests.drivers.test_literal_runs import random_paths

Vote = tuple[str, float, float]


def literal_sure(
    paths: list[RecordedPath], window: int, delta: float, betas: tuple[float, float]
) -> tuple[str | None, int, int]:
    """Answer, paths started and tokens spent, by the rule written out."""
    budget = len(paths)
    votes: list[Vote] = []
    tokens = 0
    for ended, path in enumerate(paths, start=1):
        tokens += path.tokens
        if path.answer is not None:
            last = list(path.conf)[-window:]
            peak = sum(path.peak) / path.tokens if path.tokens else 0.0
            votes.append((path.answer, sum(last) / len(last) if last else 0.0, peak))
        held = effective(votes, betas)
        if not held or ended < 3:
            continue
        n, total = len(votes), sum(held.values())
        ranked = sorted(held.values(), reverse=True)
        v1, v2 = ranked[0], ranked[1] if len(ranked) > 1 else 0.0
        future = (budget - ended) * (total / n) * (n + 1) / (ended + 1)
        if future <= 0 or worth(v1, v2, total, future) <= delta:
            return leader(held), ended, tokens
    return leader(effective(votes, betas)), budget, tokens


def effective(votes: list[Vote], betas: tuple[float, float]) -> dict[str, float]:
    if not votes:
        return {}
    n = len(votes)
    sums = [0.0] * n
    columns = [tail for _, tail, _ in votes], [peak for _, _, peak in votes]
    for values, beta in zip(columns, betas, strict=True):
        mean = sum(values) / n
        sd = math.sqrt(sum((value - mean) ** 2 for value in values) / n)
        if sd >= 1e-9:
            sums = [old + beta * max(-2.5, min(2.5, (x - mean) / sd)) for old, x in zip(sums, values, strict=True)]
    w = [math.exp(n / (n + 8) * max(-2.0, min(2.0, total))) for total in sums]
    scale = sum(w) / sum(x * x for x in w)
    held: dict[str, float] = {}
    for (answer, _, _), weight in zip(votes, w, strict=True):
        held[answer] = held.get(answer, 0.0) + scale * weight
    return held


def worth(v1: float, v2: float, total: float, future: float) -> float:
    a, b = v1 + 1, v2 + 1
    s = a + b
    share = s / (total + 3)
    m = future * share
    c = ((s + 1) * (s + m) / m - 1) / s
    lost = beta_distribution.cdf(0.5, c * a, c * b) - 2 * a / s * beta_distribution.cdf(0.5, c * a + 1, c * b)
    return float(share * max(0.0, lost))


def leader(held: dict[str, float]) -> str | None:
    return max(held, key=lambda answer: held[answer]) if held else None


DOUBTFUL = LearnerState(16, (-0.9, -1.9), (16, 16))
"""r is 0.0125 for the tail and below 0 for the peak, so that the tail has all of a small weight."""
CASES: list[tuple[Strategy, float, tuple[float, float]]] = [
    (parse("sure"), 0.01, (0.4, 0.4)),
    (parse("sure:delta=0.02"), 0.02, (0.4, 0.4)),
    (parse("sure:weigh=tail,beta=0.6"), 0.01, (0.6, 0.0)),
    (parse("sure:weigh=count"), 0.01, (0.0, 0.0)),
    (parse("sure").with_state(DOUBTFUL), 0.01 * (0.5 + 0.5 * 0.0125 / 0.15), (0.8 * 0.0125 / 0.15, 0.0)),
]


@pytest.mark.parametrize("case", range(len(CASES)))
@pytest.mark.parametrize("seed", range(10))
def test_random_paths(seed: int, case: int) -> None:
    check(random_paths(seed), 12, *CASES[case])


@pytest.mark.parametrize("case", range(len(CASES)))
def test_real_paths(case: int, real_questions: list[Question]) -> None:
    for question in real_questions:
        check(question.paths, 64, *CASES[case])


def check(paths: list[RecordedPath], window: int, strategy: Strategy, delta: float, betas: tuple[float, float]) -> None:
    answer, started, tokens = literal_sure(paths, window, delta, betas)
    for driver in (fast_replay, lockstep) if len(paths) < 50 else (fast_replay,):
        out = replay(paths, strategy, RunOptions(paths=len(paths), window=window), driver=driver)
        assert (out.answer, out.started, out.tokens.total) == (answer, started, tokens)


def test_more_hurry_spends_tokens_and_saves_steps(real_questions: list[Question]) -> None:
    spent = []
    for hurry in (0.0, 0.6, 1.0, 64.0, None):
        runs = [
            replay(question.paths, parse("sure"), RunOptions(paths=64, window=64, parallel=64, hurry=hurry))
            for question in real_questions[:20]
        ]
        spent.append((sum(out.tokens.total for out in runs), sum(out.steps for out in runs)))
    tokens, steps = zip(*spent, strict=True)
    assert list(tokens) == sorted(tokens)
    assert tokens[0] < tokens[2] < tokens[4]
    assert list(steps) == sorted(steps, reverse=True)
    assert steps[0] > steps[2] > steps[4]


@pytest.mark.parametrize("name", ["ac", "esc", "ddc", "deepconf-low", "sure"])
def test_planned_width_saves_tokens_and_costs_steps(name: str, real_questions: list[Question]) -> None:
    strategy = parse(name)
    sums: dict[float | None, list[int]] = {0.6: [0, 0], None: [0, 0]}
    for question in real_questions[:20]:
        for hurry, spent in sums.items():
            out = replay(question.paths, strategy, RunOptions(paths=64, window=64, parallel=64, hurry=hurry))
            spent[0] += out.tokens.total
            spent[1] += out.steps
    assert sums[0.6][0] <= sums[None][0]
    assert sums[0.6][1] > sums[None][1]
    if name in ("ac", "esc", "sure"):  # the others settle after their warm-up or not at all on these questions
        assert sums[0.6][0] < 0.9 * sums[None][0]
