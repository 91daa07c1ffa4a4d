"""Votes by self-certainty: ranks, ties, paths without an answer, and engines that do not have the sum."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from itertools import permutations
from math import isnan, nan
from pathlib import Path

import numpy as np
import pytest

from sureenough.answers.boxed_kinds import Math
from sureenough.core.events import Summary, Token
from sureenough.core.options import RunOptions
from sureenough.core.session import Session
from sureenough.core.weights import Ballot, ByBorda
from sureenough.drivers import replay
from sureenough.drivers.live import run
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines.base import Engine
from sureenough.engines.recorded import Recorded
from sureenough.engines.requests import Chunk, Prompt
from sureenough.errors import TraceError, UsageError
from sureenough.pools import Journal, Pool, PoolInfo, Question, RecordedPath, write_pool
from sureenough.pools.journal import write_journal_pool
from sureenough.spec import parse

SELF_CERTAINTY = parse("self-certainty")


def weights(certainty: Sequence[float], power: float = 0.5) -> list[float]:
    ballots = [Ballot(n, "a", 0.0, 0.0, mean_certainty=value) for n, value in enumerate(certainty)]
    return list(ByBorda(power)(ballots, []))


def by_brute_force(certainty: Sequence[float], power: float) -> list[float]:
    """The mean over all orders of the paths, in each of which the earlier of two equal paths ranks higher."""
    totals = [0.0] * len(certainty)
    orders = list(permutations(range(len(certainty))))
    for order in orders:
        for path in order:
            better = sum(
                certainty[other] > certainty[path]
                or (certainty[other] == certainty[path] and order.index(other) < order.index(path))
                for other in order
            )
            totals[path] += (len(certainty) - better) ** power
    return [total / len(orders) for total in totals]


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("seed", range(6))
def test_weights_equal_brute_force(seed: int, power: float) -> None:
    rng = np.random.default_rng(seed)
    certainty = rng.integers(0, 4, size=rng.integers(1, 6)).astype(float).tolist()
    assert weights(certainty, power) == pytest.approx(by_brute_force(certainty, power))


def test_ranks() -> None:
    assert weights([5.0, 7.0, 6.0], 1.0) == [1.0, 3.0, 2.0]
    assert weights([5.0, 7.0, 6.0]) == pytest.approx([1.0, 3**0.5, 2**0.5])
    assert weights([9.0]) == [1.0]
    assert weights([]) == []
    assert len(set(weights([4.0] * 5))) == 1
    assert weights([1.0, 8.0, 3.0], 0.0) == [1.0] * 3
    assert sum(weights([1.0, 1.0, 2.0, 2.0, 3.0])) == pytest.approx(sum(n**0.5 for n in range(1, 6)))


def path(answer: str | None, certainty: float = nan, tokens: int = 3) -> RecordedPath:
    return RecordedPath(answer, [0.5] * tokens, [5.0] * tokens, mean_certainty=certainty)


PATHS = [path("1", 2.0), path("1", 2.5), path("2", 9.0, 5), path("2", 8.0), path(None, 99.0), path("1", 1.0)]
OPTIONS = RunOptions(paths=6, window=2, parallel=2)


@pytest.mark.parametrize("parallel", [1, 2, 6])
def test_the_whole_budget_is_voted_on_by_rank(parallel: int) -> None:
    """Three uncertain paths against two certain ones; the path without an answer has no rank."""
    options = RunOptions(paths=6, window=2, parallel=parallel)
    out = replay(PATHS, parse("self-certainty:power=1"), options)
    assert (out.answer, out.counted, out.reason) == ("2", 6, "budget")
    assert out.votes == {"2": 9.0, "1": 6.0}
    assert replay(PATHS, parse("self-certainty:power=1"), options, driver=lockstep).votes == out.votes
    summarised = [one.summarised(2) for one in PATHS]
    assert replay(summarised, parse("self-certainty:power=1"), options).votes == out.votes
    assert replay(PATHS, parse("self-certainty:power=0"), options).answer == "1"


@pytest.mark.parametrize("driver", [None, lockstep])
def test_paths_without_the_sum_are_refused(driver: object) -> None:
    named = {} if driver is None else {"driver": driver}
    with pytest.raises(UsageError, match=r"a sum over the whole vocabulary.*`sureenough serve-vllm`.* cisc or sure"):
        replay([*PATHS[:2], path("1")], SELF_CERTAINTY, OPTIONS, **named)  # type: ignore[arg-type]
    assert replay([*PATHS[:2], path("1")], SELF_CERTAINTY, RunOptions(paths=2, window=2)).answer == "1"


class Watching(Engine):
    """Watches its own paths: a count while a path grows, and a summary at its end."""

    def __init__(self, paths: Sequence[RecordedPath], *, sums: bool = True) -> None:
        self._paths, self._sums, self.started = iter(paths), sums, 0

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        one = next(self._paths)
        self.started += 1
        yield Chunk(unread=one.tokens, text=f"\\boxed{{{one.answer}}}" if one.answer else "nothing")
        windows = one.windows(2)
        certainty = one.mean_certainty if self._sums else nan
        signals = np.stack((one.peak, one.conf), axis=1)
        summary = Summary(one.tokens, windows.lowest, windows.tail, signals=signals, mean_certainty=certainty)
        yield Chunk(finish="stop", summary=summary)


def run_live(engine: Engine, window: int | None = 2) -> object:
    session = Session(SELF_CERTAINTY, RunOptions(paths=6, window=window, parallel=1))
    return asyncio.run(run(Prompt.user("1 + 1?"), engine, session, judge=Math())).votes


@pytest.mark.parametrize("window", [2, None])
def test_live_paths_of_an_engine_that_has_the_sum(window: int | None) -> None:
    assert run_live(Watching(PATHS), window) == replay(PATHS, SELF_CERTAINTY, OPTIONS).votes


def test_live_engines_without_the_sum_are_refused_at_their_first_token() -> None:
    with pytest.raises(UsageError, match="a sum over the whole vocabulary"):
        run_live(Recorded(PATHS))
    older = Watching(PATHS, sums=False)
    with pytest.raises(UsageError, match="a sum over the whole vocabulary"):
        run_live(older)
    assert older.started == 1


# -- pools


def test_a_pool_keeps_the_sum(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet"
    write_pool(file, [Question("q", "2", None, [*PATHS, path("7")])], PoolInfo(), optional=["mean_certainty"])
    (question,) = Pool(file)
    assert [one.mean_certainty for one in question.paths[:-1]] == [one.mean_certainty for one in PATHS]
    assert isnan(question.paths[-1].mean_certainty)


def test_pools_without_the_sum_are_read(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet"
    write_pool(file, [Question("q", "2", None, PATHS)], PoolInfo())
    assert all(isnan(one.mean_certainty) for question in Pool(file) for one in question.paths)


def test_a_pool_with_an_impossible_sum_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "pool.parquet"
    paths = [path("1", float("inf"))]
    write_pool(file, [Question("q", "2", None, paths)], PoolInfo(), optional=["mean_certainty"])
    with pytest.raises(TraceError, match="mean_certainty is NaN or infinite"):
        list(Pool(file))


@pytest.mark.parametrize("sums", [True, False])
def test_recording_keeps_the_sum_of_an_engine_that_has_it(tmp_path: Path, sums: bool) -> None:
    pool, questions = tmp_path / "pool.parquet", [RecordQuestion("q", Prompt.user("1 + 1?"), "2")]
    with Journal(tmp_path / "journal", {}) as journal:
        engine = Watching(PATHS, sums=sums)
        asyncio.run(record(questions, engine, journal, paths=6, parallel=1, seed=0))
    with Journal(tmp_path / "journal", {}) as journal:  # read again
        write_journal_pool(pool, questions, journal, PoolInfo(), keep_text=False)
    (question,) = Pool(pool)
    assert [one.answer for one in question.paths] == [one.answer for one in PATHS]
    assert [one.tokens for one in question.paths] == [one.tokens for one in PATHS]
    known = [one.mean_certainty for one in question.paths]
    assert known == [one.mean_certainty for one in PATHS] if sums else all(map(isnan, known))
    assert ("mean_certainty" in Pool(pool).parts[0].open().schema_arrow.names) is sums
