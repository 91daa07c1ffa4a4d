"""Live runs and replays that start paths beyond the warm-up before it has ended."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from dataclasses import replace

import numpy as np
import pytest

import sureenough as se
from sureenough.api import replay
from sureenough.core.events import Summary, Token
from sureenough.core.weights import ByBorda
from sureenough.data import BUILTIN_POOL
from sureenough.engines import Chunk, Engine, Prompt, Recorded
from sureenough.engines.fake import Step
from sureenough.engines.requests import WatchOptions
from sureenough.errors import EngineError, UsageError
from sureenough.pools import Question, RecordedPath
from tests.drivers.test_live import NUMBER, go, scripted, tokens

STRATEGIES = ["ddc:weight=mean", "ddc-no-width", "ddc-no-depth", "ddc:trend_window=32", "deepconf-low", "deepconf-high"]


def test_one_wave_takes_the_time_of_one_path() -> None:
    """Two waves take 20 tokens one after another, one wave takes 10."""

    def play(n: int) -> Iterable[Step]:
        return [[Token("", 0.5, 6.0 + n % 2)], 0.001, tokens(rf"\boxed{{{n % 3}}}", 9, 6.0 + n % 2)]

    waves, engines = {}, {}
    for eager in (False, True):
        engine = engines[eager] = scripted(play)
        waves[eager] = go(engine, "ddc-no-width:warmup=4", paths=12, parallel=12, eager=eager)
    assert [(engine.most, engine.started) for engine in engines.values()] == [(8, 12), (12, 12)]
    assert [out.steps for out in waves.values()] == [20, 10]
    assert waves[True].votes == waves[False].votes
    assert (waves[True].answer, waves[True].reason, waves[True].eager) == (waves[False].answer, "budget", True)


def test_a_running_path_is_cancelled_when_the_warm_up_has_ended() -> None:
    def play(n: int) -> Iterable[Step]:
        if n < 4:
            return [tokens("", 5), 0.05, tokens(rf"\boxed{{{n % 2}}}", 5)]
        return [tokens("", 20, conf=1.0), 30.0, tokens(r"\boxed{9}")]

    engine = scripted(play)
    out = go(engine, "ddc:warmup=4", paths=6, parallel=6, eager=True)
    assert (out.pruned, out.reason, engine.running) == (2, "budget", 0)
    assert (out.tokens.init, out.tokens.pruned, out.tokens.overrun, out.tokens.total) == (40, 8, 32, 80)
    assert "9" not in out.votes


def test_a_path_that_runs_takes_the_place_of_a_lost_one() -> None:
    def play(n: int) -> Iterable[Step]:
        if n == 1:
            return [0.02, EngineError("lost")]
        return [tokens("", 5, 5.0 + n), 0.05 * (n == 0), tokens(rf"\boxed{{{n}}}", 5, 5.0 + n)]

    alone, out = (go(scripted(play), "deepconf-low:warmup=3", paths=6, parallel=n, eager=n > 1) for n in (1, 6))
    assert (out.votes, out.gate, out.failed) == (alone.votes, alone.gate, 1)
    assert out.tokens.init == alone.tokens.init == 30


@pytest.mark.parametrize("strategy", [*STRATEGIES, "sc", "ac", "sure"])
@pytest.mark.parametrize(("parallel", "chunk"), [(16, 1), (64, 25)])
def test_a_live_run_gives_the_answer_of_one_path_at_a_time(
    real_questions: list[Question], strategy: str, parallel: int, chunk: int
) -> None:
    for question in real_questions[23:26]:
        alone = replay(question.paths, strategy, paths=64, window=64)
        live = go(Recorded(question.paths, chunk=chunk), strategy, paths=64, parallel=parallel, window=64, eager=True)
        assert (live.answer, live.reason, live.counted) == (alone.answer, alone.reason, alone.counted)
        assert live.votes == pytest.approx(alone.votes)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_replay_gives_the_answer_of_one_path_at_a_time(real_questions: list[Question], strategy: str) -> None:
    for question in real_questions[20:28]:
        alone = replay(question.paths, strategy, paths=64, window=64)
        waves, wave = (replay(question.paths, strategy, window=64, parallel=64, eager=eager) for eager in (False, True))
        assert (wave.answer, wave.reason, wave.counted) == (alone.answer, alone.reason, alone.counted)
        assert wave.votes == alone.votes
        assert wave.steps <= waves.steps
        assert wave.tokens.total >= alone.tokens.total


class Watching(Engine):
    """Watches its paths itself: sends counts, and at the end a summary, with a trace if it got no gate."""

    stops_at_once = True

    def __init__(self, paths: Sequence[RecordedPath]) -> None:
        self.paths, self.watched = paths, dict[int, WatchOptions]()

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        number, watch = NUMBER[seed], prompt.watch
        assert watch is not None
        self.watched[number], path = watch, self.paths[number]
        closed = None
        if watch.gate is not None and watch.window is not None:
            closed = watch.gate.first_closed(path.windows(watch.window))
        length = path.tokens if closed is None else closed.tokens
        for first in range(0, length - 1, 50):
            yield Chunk(unread=min(50, length - 1 - first))
        if closed is not None:
            yield Chunk(unread=1, finish="stop", summary=Summary(length, tier=closed.tier))
            return
        summary = path.summary(watch.window or 1)
        if watch.gate is None:
            summary = summary._replace(signals=np.column_stack([path.peak, path.conf]))
        else:
            summary = summary._replace(windows=None)
        text = "" if path.answer is None else rf"\boxed{{{path.answer}}}"
        yield Chunk(unread=min(1, length), text=text, finish="stop", summary=summary)


@pytest.mark.parametrize("window", [64, None])
@pytest.mark.parametrize("strategy", ["ddc-no-width", "ddc", "deepconf-low"])
def test_paths_that_their_engine_watches_are_pruned_by_their_traces(
    real_questions: list[Question], strategy: str, window: int | None
) -> None:
    paths = [path for path in real_questions[24].paths if path.tokens]
    outs, engines = [], []
    for parallel in (1, 24, 64):
        engines.append(Watching(paths))
        outs.append(go(engines[-1], strategy, paths=64, parallel=parallel, window=window, eager=parallel > 1))  # type: ignore[arg-type]
    alone = outs[0]
    for out, engine in zip(outs[1:], engines[1:], strict=True):
        assert (out.votes, out.reason, out.window) == (alone.votes, alone.reason, alone.window)
        assert (out.tokens.init, out.tokens.kept) == (alone.tokens.init, alone.tokens.kept)
        assert out.tokens.total >= alone.tokens.total
        traced = [number for number, watch in engine.watched.items() if watch.gate is None]
        assert min(len(paths), out.parallel) <= len(traced)
    if strategy == "ddc-no-width":
        assert outs[2].pruned == alone.pruned > 0
        assert outs[2].tokens.overrun > 0
        assert outs[2].tokens.total == sum(path.tokens for path in paths[:64])


def test_a_search_with_a_warm_up_starts_all_of_its_searches_at_once() -> None:
    def play(beginning: str, seed: int) -> Iterable[Step]:
        return [[Token(text, 0.9, 6.0)] for text in (" one", "\n", r"\boxed{7}", "\n")]

    engine = se.engines.Fake(lambda seed: [], play)
    out = go(engine, "mur+ddc-no-depth:warmup=2,runs=4", paths=4, parallel=4, eager=True)
    assert (out.answer, out.started) == ("7", 4)


def test_the_order_of_finish_is_refused_with_what_to_do() -> None:
    with pytest.raises(UsageError, match=r"count=finish does not go with eager, .* leave one of them out"):
        se.replay([RecordedPath("1", [0.5], [9.0])] * 4, "ddc:warmup=2", count="finish", eager=True)


def test_a_table_over_several_orders_is_the_same() -> None:
    """Every run calibrates its own gate: windows of an earlier run are not taken for those of this one."""
    names = ["deepconf-low:warmup=1", "ddc:warmup=2", "ddc-no-width:warmup=2"]
    plain, eager = (
        se.compare(BUILTIN_POOL, names, repeats=8, paths=8, window=64, parallel=8, eager=value).rows
        for value in (False, True)
    )
    assert [row.accuracy for row in eager] == [row.accuracy for row in plain]


def test_a_strategy_that_prunes_may_weigh_by_certainty() -> None:
    strategy = replace(se.STRATEGIES["ddc"], name="mine", warmup=2, weigh=ByBorda())
    signals = [([0.5] * (20 + n), [5.0 + n % 3 + 0.01 * t for t in range(20 + n)]) for n in range(6)]
    paths = [se.RecordedPath("ab"[n % 2], peak, conf, mean_certainty=3.0 + n) for n, (peak, conf) in enumerate(signals)]
    plain, eager = (se.replay(paths, strategy, window=8, parallel=6, eager=value) for value in (False, True))
    assert eager.votes == plain.votes
