"""The live driver at its edges: slow grouping, deadlines while an engine opens, cancels while it closes."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import sureenough as se
from sureenough.api import aask
from sureenough.core.events import Action, Summary, Token
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome, Snapshot
from sureenough.core.session import Session
from sureenough.core.stop_rules import StopRule
from sureenough.drivers.live import run
from sureenough.drivers.observers import ObservedEvent
from sureenough.drivers.record import RecordQuestion, RecordResult, record
from sureenough.engines import Engine, Fake, Prompt
from sureenough.engines.base import End, ExtendOptions, Report, TokenStream
from sureenough.engines.fake import Step
from sureenough.errors import CannotExtend
from sureenough.pools.journal import Journal
from sureenough.spec import resolve
from tests.drivers.test_live import LONG, NUMBER, go, live_judge, scripted, tokens

MEANING = {"0.5": "1/2", "2/4": "1/2", "42": "42", "6*7": "42", "7": "7"}


def by_meaning(answers: Sequence[str]) -> Mapping[str, str]:
    return {answer: MEANING.get(answer, answer) for answer in answers}


# -- issue 14, item 12: width does not change the answer


@pytest.mark.parametrize(
    "strategy", ["sc", "ac", "esc", "ddc:warmup=4", "deepconf-low:warmup=4", "sure", "ddc-no-depth:warmup=3"]
)
@pytest.mark.parametrize("seed", range(4))
def test_14_12_no_delay_of_engine_or_grouping_changes_a_decision(strategy: str, seed: int) -> None:
    draw = random.Random(f"{strategy} {seed}")
    scripts = [
        (draw.choice([*MEANING, "1/2", "1/2", None]), draw.uniform(2.0, 12.0), draw.randint(1, 9)) for _ in range(14)
    ]

    def decided(parallel: int, hurry: float | None = None) -> tuple[Any, ...]:
        delays = random.Random(f"{parallel} {seed}")

        def play(n: int) -> Iterable[Step]:
            answer, conf, length = scripts[n]
            text = "none" if answer is None else rf"\boxed{{{answer}}}"
            return [delays.random() * 0.002, tokens("", length, conf), delays.random() * 0.002, tokens(text, 4, conf)]

        def slow(known: Sequence[str]) -> Mapping[str, str]:
            time.sleep(delays.random() * 0.002)
            return by_meaning(known)

        out = go(scripted(play), strategy, paths=14, parallel=parallel, hurry=hurry, group=slow)
        return out.answer, out.votes, out.reason, out.counted, out.tokens.init, out.tokens.kept

    alone = decided(1)
    for parallel in (2, 6, 16):
        assert decided(parallel) == alone
    for hurry in (0.0, 0.6, 1.0, 10.0):
        assert decided(6, hurry) == alone


@pytest.mark.parametrize("seconds", [0.0, 0.1])
def test_paths_that_end_together_are_not_replaced_before_their_votes_are_counted(seconds: float) -> None:
    """Six paths of 58 tokens: what the first of them would start is thrown away when the third is counted."""

    def slow(known: Sequence[str]) -> Mapping[str, str]:
        time.sleep(seconds)
        return by_meaning(known)

    engine = scripted(lambda n: [0.05, tokens(r"\boxed{42}", 58)])
    out = go(engine, "sure", paths=64, parallel=16, window=16, hurry=1, group=slow)
    assert (out.answer, out.counted, engine.started) == ("42", 3, 6)
    assert out.tokens.total == 6 * 58


# -- issue 14, item 13: observers


@pytest.mark.parametrize("late", [False, True])
def test_14_13_an_observer_that_raises_is_not_called_again_and_does_not_hang_the_run(late: bool) -> None:
    """Not even at the deadline."""
    calls = 0

    def observer(event: ObservedEvent, actions: Sequence[Action], snapshot: Snapshot) -> None:
        nonlocal calls
        if snapshot.stop is not None or not late:
            calls += 1
            raise RuntimeError("of its own")

    engine = scripted(lambda n: [tokens("a"), LONG] if late else [tokens(r"\boxed{1}")])
    out = go(engine, deadline=0.05 if late else None, observers=[observer])
    assert (out.reason, calls, engine.running) == ("deadline" if late else "budget", 1, 0)
    assert any("an observer failed" in note and "of its own" in note for note in out.notes)


# -- engines that cancel their own work


class Cancelling(Engine):
    """Every third path awaits something that somebody else has cancelled."""

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        yield tokens("so ")
        if NUMBER[seed] % 3 == 2:
            shared = asyncio.get_running_loop().create_future()
            shared.cancel()
            await shared
        yield tokens(r"\boxed{42}")


def test_a_path_that_its_engine_cancels_is_lost_and_the_run_goes_on() -> None:
    out = go(Cancelling(), paths=9)
    assert (out.answer, out.reason, out.started, out.failed) == ("42", "budget", 9, 3)
    assert any("the engine cancelled the path" in note for note in out.notes)


# -- issue 14, item 14: deadlines and cancels around opening, counting and closing


class Slow(Engine):
    """An engine that is slow to open, to count or to close."""

    def __init__(self, *, opening: float = 0.0, counting: float = 0.0, closing: float = 0.0) -> None:
        self.opening, self.counting, self.closing = opening, counting, closing
        self.opened = self.closed = 0
        self.opening_now = False

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        self.opening_now = True
        await asyncio.sleep(self.opening)
        self.opened += 1
        yield self

    async def generated_tokens(self) -> int | None:
        await asyncio.sleep(self.counting)
        return None

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        try:
            yield tokens(r"\boxed{7}" if NUMBER[seed] < 4 else "")
            if NUMBER[seed] >= 4:
                await asyncio.sleep(LONG)
        finally:
            await asyncio.sleep(self.closing)
            self.closed += 1


def timed(engine: Engine, strategy: str = "sc", **options: Any) -> tuple[Outcome, float]:
    began = time.monotonic()
    out = go(engine, strategy, **options)
    return out, time.monotonic() - began


def test_14_14_the_deadline_counts_from_before_the_engine_opens() -> None:
    engine = Slow(opening=LONG)
    out, seconds = timed(engine, deadline=0.1)
    assert (out.reason, out.started, engine.opened) == ("deadline", 0, 0)
    assert seconds < LONG / 2


def test_14_14_slow_counters_neither_lose_nor_delay_a_settled_answer() -> None:
    out, seconds = timed(Slow(counting=LONG), "ac", paths=8, parallel=8)
    assert (out.answer, out.reason, out.tokens.overrun_known) == ("7", "settled", False)
    assert seconds < LONG / 2


def test_a_path_whose_request_was_held_back_leaves_no_unknown_tokens(monkeypatch: pytest.MonkeyPatch) -> None:
    """The votes 7, 7, 5 start replacements; the slow fourth path settles the run before their requests are sent."""
    monkeypatch.setattr("sureenough.drivers.live.HELD_START", LONG)

    def play(n: int) -> Iterable[Step]:
        return [0.05 if n == 3 else 0.0, tokens(rf"\boxed{{{5 if n == 2 else 7}}}")]

    engine = scripted(play)
    engine.stops_at_once = False  # what is generated after a cancel would be unknown
    out = go(engine, "ac", paths=16, parallel=16, hurry=1)
    assert (out.answer, out.reason, engine.started) == ("7", "settled", 8)
    assert out.started > 8
    assert (out.tokens.total, out.tokens.overrun_known) == (8, True)


class Quiet(Fake):
    """Sends nothing of a path before its end, and counts the tokens of a path that is cancelled."""

    stops_at_once = False

    async def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        if NUMBER[seed] >= 4:
            try:
                await asyncio.sleep(LONG)
            finally:
                assert prompt.watch is not None
                assert prompt.watch.report_unheard is not None
                prompt.watch.report_unheard(0 if NUMBER[seed] == 7 else 5)
        yield End(text=r"\boxed{7}", unread=3, prompt_tokens=10)


def test_cancelled_paths_of_which_nothing_arrived_are_billed() -> None:
    """Four of eight paths settle the vote; the last of the others was still waiting in the server's queue."""
    out = go(Quiet(lambda seed: []), "ac", paths=8, parallel=8)
    assert (out.reason, out.tokens.kept, out.tokens.overrun, out.tokens.overrun_known) == ("settled", 12, 15, True)
    assert out.tokens.prompt == 7 * 10


async def cancelled(engine: Engine, times: int, due: Callable[[Session], bool]) -> Outcome:
    session = Session(resolve("sc"), RunOptions(paths=8, window=4, parallel=8))
    task = asyncio.create_task(run(Prompt.user("?"), engine, session, judge=live_judge(group=by_meaning)))
    while not due(session):
        await asyncio.sleep(0.01)
    for _ in range(times):
        task.cancel()
        await asyncio.sleep(0.01)
    out = await asyncio.wait_for(task, LONG)
    assert not task.cancelled()
    assert len(asyncio.all_tasks()) == 1
    current = asyncio.current_task()
    assert current is not None
    assert current.cancelling() == 0
    return out


@pytest.mark.parametrize("times", [1, 2, 3])
def test_14_14_cancels_while_streams_close_slowly_give_the_vote_so_far(times: int) -> None:
    engine = Slow(closing=0.1)
    out = asyncio.run(cancelled(engine, times, lambda session: session.snapshot().votes.counted >= 4))
    assert (out.answer, out.reason, engine.closed) == ("7", "interrupted", 8)


def test_14_14_a_cancel_while_the_engine_opens_gives_an_outcome() -> None:
    engine = Slow(opening=LONG)
    out = asyncio.run(cancelled(engine, 1, lambda _: engine.opening_now))
    assert (out.answer, out.reason, out.started) == (None, "interrupted", 0)


def test_14_1_long_texts_are_read_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """And so are all texts that code of the caller reads, which may take forever."""
    import threading

    threads: list[bool] = []

    def reading(text: str, **_: object) -> str | None:
        threads.append(threading.current_thread() is threading.main_thread())
        return "1"

    go(Fake(lambda seed: [tokens("x" * 5_000)]), paths=2, extract=reading)
    go(Fake(lambda seed: [tokens("x")]), paths=2, extract=reading)
    assert threads == [False] * 4
    monkeypatch.setattr("sureenough.answers.kinds.mathematical_answer", reading)
    asyncio.run(aask("?", Fake(lambda seed: [tokens("x" * 5_000)]), "sc", paths=2))
    asyncio.run(aask("?", Fake(lambda seed: [tokens("x")]), "sc", paths=2))
    assert threads[4:] == [False, False, True, True]


# -- issue 14, item 15: a recording gives up a path that never ends


def recorded(folder: Path, engine: Engine, questions: str = "q", **options: Any) -> tuple[RecordResult, Any]:
    """What a recording of questions with these letters returns, and its first path."""

    async def use() -> RecordResult:
        asked = [RecordQuestion(name, Prompt.user("?")) for name in questions]
        return await record(asked, engine, journal, seed=0, **options)

    with Journal(folder / "journal", {}) as journal:
        result = asyncio.run(asyncio.wait_for(use(), LONG))
        return result, journal[questions[0], 0]


def test_14_15_a_recording_gives_up_a_path_that_does_not_end(tmp_path: Path) -> None:
    engine = Fake(lambda seed: [tokens(r"\boxed{1}")] if NUMBER[seed] == 0 else [tokens("a"), LONG])
    result, _ = recorded(tmp_path, engine, paths=2, parallel=2, path_seconds=1.0)
    assert (result.paths, engine.running) == (1, 0)
    assert "did not end within 1 s" in str(result.lost)


def test_a_recording_has_the_signals_of_an_engine_that_watches_its_own_paths(tmp_path: Path) -> None:
    signals = np.array([[0.5, 8.0], [0.25, 9.0], [1.0, 10.0]])
    engine = Fake(lambda seed: [Report(3, r"\boxed{1}"), End(summary=Summary(3, signals=signals))])
    _, path = recorded(tmp_path, engine, paths=1, parallel=1)
    assert engine.prompts[0].watch is not None
    assert (path.answer, list(path.peak), list(path.conf)) == ("1", [0.5, 0.25, 1.0], [8.0, 9.0, 10.0])


class Counting(Engine):
    """Keeps for how many paths it was opened."""

    def __init__(self) -> None:
        self.opened = list[int]()

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[Engine]:
        self.opened.append(parallel)
        yield self

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        yield tokens(r"\boxed{1}")


def test_a_recording_has_no_more_workers_than_paths(tmp_path: Path) -> None:
    engine = Counting()
    assert recorded(tmp_path, engine, "ab", paths=3, parallel=100_000)[0].paths == 6
    assert engine.opened == [6]


def test_an_engine_that_only_starts_paths_says_so() -> None:
    """What is learned is kept by the name of its class: two engines without one must not share it."""
    engine = Counting()
    assert engine.model_name() == "Counting"
    with pytest.raises(CannotExtend, match="Counting cannot be extended: Counting engines only start paths"):
        engine.extend(Prompt.user("?"), "so", ExtendOptions(max_tokens=1), seed=0)


class ClosesContinuations(Fake):
    """Ends each continuation as an engine does whose server ignores the limit: by closing the stream."""

    stops_at_once = False

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        async with aclosing(super().extend(prompt, beginning, options, seed=seed)) as chunks:
            async for chunk in chunks:
                yield replace(chunk, beyond=1) if isinstance(chunk, End) else chunk


def test_a_continuation_that_its_engine_closed_may_have_cost_more() -> None:
    for engine, known in ((Fake, True), (ClosesContinuations, False)):
        made = engine(lambda seed: [tokens("so "), tokens("7")], lambda *_: [tokens(r"\boxed{7}")])
        out = go(made, "predictive+sc:runs=1,rollouts=2", paths=1)
        assert (out.failed, out.tokens.overrun_known) == (0, known)
        assert out.tokens.search > 0


class Raising(StopRule):
    """A rule of the caller's own that raises at some moment of a run."""

    moment = ""

    def __call__(self, poll: Any) -> bool:
        return bool(self.moment == "vote" and 1 / 0)

    def need(self, poll: Any, parallel: int) -> int:
        return int(self.moment == "start" and 1 / 0)

    def verdict(self, poll: Any) -> Any:
        return 1 / 0 if self.moment == "snapshot" else super().verdict(poll)


@pytest.mark.parametrize("moment", ["vote", "start", "snapshot"])
def test_a_rule_that_raises_is_reported_as_it_is(moment: str) -> None:
    rule = type("Rule", (Raising,), {"moment": moment})()
    strategy = replace(resolve("sc"), stop=rule)
    engine = Fake(lambda seed: [[Token(r"\boxed{7}", 0.5, 10.0)]])
    with pytest.raises(ZeroDivisionError) as raised:
        se.ask("?", engine, strategy, paths=8, parallel=4, hurry=1.0, observers=[lambda *_: None])
    assert engine.running == 0
    assert moment != "vote" or "path" in raised.value.__notes__[0]
