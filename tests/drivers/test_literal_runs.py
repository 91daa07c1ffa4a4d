"""Whole runs equal the rules read literally, on random and on real paths: every decision, every token."""

from __future__ import annotations

import numpy as np
import pytest

from sureenough.core.options import RunOptions
from sureenough.drivers import replay
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.replay import fast_replay
from sureenough.pools import Question, RecordedPath
from sureenough.spec import parse
from tests import literal
from tests.requirements import FULL


def random_paths(seed: int, n: int = 40) -> list[RecordedPath]:
    """Paths of one made-up question: some short, some empty, some without an answer; right ones more confident."""
    rng = np.random.default_rng(seed)
    paths = []
    for _ in range(n):
        length = int(rng.choice([0, 3, 11, 12, 13, 40, 80])) if rng.random() < 0.3 else int(rng.integers(5, 90))
        answer = rng.choice(["7", "8", "9", "10", ""], p=[0.4, 0.25, 0.15, 0.1, 0.1])
        level = 11.0 if answer == "7" else 9.0
        conf = level + np.cumsum(rng.normal(0, 0.3, length)) + rng.normal(0, 1.5, length)
        conf = np.clip(conf, 0, 40).astype(np.float16).astype(np.float64)
        paths.append(RecordedPath(str(answer) or None, np.clip(conf / 15, 0, 1).astype(np.float16), conf))
    return paths


def check(paths: list[RecordedPath], spec: str, window: int) -> None:
    expected = literal.run(paths, literal.RULES[spec], window)
    for driver in (fast_replay, lockstep):
        out = replay(paths, parse(spec), RunOptions(paths=len(paths), window=window), driver=driver)
        assert out.answer == expected.answer
        assert out.reason == expected.reason
        assert out.started == expected.started
        assert {str(tier): n for tier, n in out.tiers.items()} == expected.tiers
        spent = {"init": out.tokens.init, "kept": out.tokens.kept, "pruned": out.tokens.pruned}
        assert spent == expected.tokens
        assert out.tokens.total == out.steps == sum(expected.tokens.values()), "one at a time, every token is a step"
        assert out.votes == pytest.approx(expected.votes, abs=1e-6)


@pytest.mark.parametrize("spec", literal.RULES)
@pytest.mark.parametrize("seed", range(6))
def test_random_paths(spec: str, seed: int) -> None:
    check(random_paths(seed), spec, window=12)


@pytest.mark.parametrize("spec", literal.RULES)
def test_real_paths(spec: str, real_questions: list[Question]) -> None:
    for question in (real_questions[4], real_questions[30])[: 2 if FULL else 1]:
        answers = {a: a.strip() for a in (path.answer for path in question.paths) if a is not None}
        assert all(a == b for a, b in answers.items())
        check(question.paths[:36], spec, window=64)
