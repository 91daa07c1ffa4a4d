"""One budget of tokens for many questions: where paths go, and that no token is lost or spent twice."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sureenough as se
from sureenough.core.events import Token, path_seed
from sureenough.engines import Engine, Prompt
from sureenough.engines.recorded import chunks_of
from sureenough.errors import EngineRejected, UsageError
from sureenough.pools import RecordedPath
from sureenough.pools.rows import Question

NUMBER = {path_seed(0, number): number for number in range(64)}


def path(answer: str | None, tokens: int = 10, conf: float = 9.0) -> RecordedPath:
    return RecordedPath(answer, [0.5] * tokens, [conf] * tokens)


def made_question(rng: np.random.Generator, paths: int = 16) -> list[RecordedPath]:
    share, length = rng.uniform(0.2, 1.0), int(rng.integers(1, 40))
    return [
        path(
            "1" if rng.random() < share else str(rng.integers(2, 5)),
            int(rng.integers(1, length + 1)),
            rng.uniform(5, 12),
        )
        for _ in range(paths)
    ]


class ByPrompt(Engine):
    """Path n of the question `q` is the n-th recorded path of `questions[q]`."""

    window = 4
    stops_at_once = True

    def __init__(self, questions: Sequence[Sequence[RecordedPath]], chunk: int = 1) -> None:
        self.questions, self.chunk = questions, chunk
        self.started: list[tuple[int, int]] = []
        self.running = self.most = 0

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        question, number = int(prompt.text), NUMBER[seed]
        self.started.append((question, number))
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            for chunk in chunks_of(self.questions[question][number], self.chunk):
                await asyncio.sleep(0)
                yield chunk
        finally:
            self.running -= 1


def prompts(questions: Sequence[object]) -> list[Prompt]:
    return [Prompt.user(str(number)) for number in range(len(questions))]


def test_paths_go_to_the_contested_question() -> None:
    settled = [path("1")] * 16
    contested = [path("1"), path("2")] * 8
    outcomes = se.allocate([settled, contested, settled], total_tokens=200, window=4)
    assert outcomes[1].started > 2 * max(outcomes[0].started, outcomes[2].started)
    assert sum(out.tokens.total for out in outcomes) == 200


def test_of_two_questions_with_equal_votes_the_cheaper_one_gets_more_paths() -> None:
    cheap, dear = ([path(answer, tokens) for answer in "1212121212121212"] for tokens in (5, 50))
    cheaper, dearer = se.allocate([cheap, dear], total_tokens=300, window=4)
    assert cheaper.started > dearer.started


def test_all_paths_run_if_the_budget_allows() -> None:
    questions = [[path("1")] * 4, [path("1"), path("2")] * 20]
    outcomes = se.allocate(questions, total_tokens=1_000, window=4)
    assert [(out.started, out.reason, out.tokens.total) for out in outcomes] == [(4, "budget", 40), (40, "budget", 400)]


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 10_000), questions=st.integers(1, 8), total=st.integers(1, 2_000))
def test_laws(seed: int, questions: int, total: int) -> None:
    """The budget is never exceeded, every token is in a bucket, and each vote is that of the question's first paths."""
    rng = np.random.default_rng(seed)
    made = [made_question(rng) for _ in range(questions)]
    outcomes = se.allocate(made, total_tokens=total, window=4)
    spent = sum(out.tokens.total for out in outcomes)
    assert spent <= total
    assert sum(out.tokens.discarded > 0 for out in outcomes) <= 1  # the path that was running when the tokens ended
    if not all(out.reason == "budget" for out in outcomes):
        assert total - spent < 40  # no path is longer, so none is expected to be
    for out, paths in zip(outcomes, made, strict=True):
        assert out.tokens.total == out.tokens.kept + out.tokens.discarded
        assert out.tokens.kept == sum(one.tokens for one in paths[: out.counted])
        assert out.started - out.counted == (out.tokens.discarded > 0)
        if out.counted:
            alone = se.replay(paths[: out.counted], "sure:delta=0", window=4)
            assert (out.answer, out.votes) == (alone.answer, alone.votes)


def test_a_budget_too_small_for_all_leaves_the_last_questions_without_an_answer() -> None:
    outcomes = se.allocate([[path("1")] * 4] * 3, total_tokens=15, window=4)
    assert [(out.answer, out.started, out.tokens.discarded) for out in outcomes] == [
        ("1", 1, 0),
        (None, 0, 0),
        (None, 0, 0),
    ]
    cut = se.allocate([[path("1", 20)] * 4] * 2, total_tokens=15, window=4)
    assert [(out.answer, out.started, out.tokens.discarded) for out in cut] == [(None, 1, 15), (None, 0, 0)]


@pytest.mark.parametrize("total", [41, 307, 512, 1_500])
def test_one_path_at_a_time_is_the_replay(total: int) -> None:
    made = [made_question(np.random.default_rng(seed)) for seed in range(6)]
    live = se.allocate(prompts(made), ByPrompt(made), total_tokens=total, paths=16, parallel=1)
    recorded = se.allocate(made, total_tokens=total, window=4)
    for one, other in zip(live, recorded, strict=True):
        assert (one.answer, one.votes, one.reason) == (other.answer, other.votes, other.reason)
        assert (one.started, one.tokens) == (other.started, other.tokens)


def test_many_paths_at_once() -> None:
    made = [made_question(np.random.default_rng(seed)) for seed in range(8)]
    engine = ByPrompt(made)
    outcomes = se.allocate(prompts(made), engine, total_tokens=400, paths=16, parallel=5)
    assert engine.most == 5
    assert engine.running == 0
    assert 300 < sum(out.tokens.total for out in outcomes) <= 400 + 5  # the others' tokens that arrive meanwhile
    assert len(engine.started) == len(set(engine.started)) == sum(out.started for out in outcomes)


def test_a_chunk_on_its_way_may_exceed_the_budget() -> None:
    made = [[path("1", 40)] * 4] * 2
    (first, second) = se.allocate(prompts(made), ByPrompt(made, chunk=16), total_tokens=100, paths=4, parallel=1)
    assert first.tokens.total + second.tokens.total <= 100 + 16


def test_a_journal_spares_what_was_sampled_before(tmp_path: Path) -> None:
    made = [made_question(np.random.default_rng(seed)) for seed in range(4)]
    file = tmp_path / "paths.journal"
    first, again = ByPrompt(made), ByPrompt(made)
    se.allocate(prompts(made), first, total_tokens=200, paths=16, parallel=2, journal=file)
    se.allocate(prompts(made), again, total_tokens=400, paths=16, parallel=2, journal=file)
    fresh = ByPrompt(made)
    se.allocate(prompts(made), fresh, total_tokens=400, paths=16, parallel=2)
    assert len(again.started) < len(fresh.started)
    cut = set(first.started) & set(again.started)
    assert len(cut) <= 2  # paths that were running when the first budget ended
    with pytest.raises(se.TraceError, match="seed"):
        se.allocate(prompts(made), again, total_tokens=400, paths=16, seed=1, journal=file)


def test_an_error_of_the_engine_reaches_the_caller_and_leaves_nothing_running() -> None:
    made = [[path("1")] * 4] * 5
    engine = ByPrompt(made)
    plain = engine.stream

    async def refuse(prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        if prompt.text == "3":
            raise EngineRejected("no such model")
        async for chunk in plain(prompt, seed=seed):
            yield chunk

    engine.stream = refuse  # type: ignore[method-assign]
    with pytest.raises(EngineRejected, match="no such model"):
        se.allocate(prompts(made), engine, total_tokens=1_000, paths=4, parallel=3)
    assert engine.running == 0


def test_cancelling_returns_the_votes_so_far() -> None:
    """A question runs one path at a time, so its third one, which never ends, begins after two votes."""
    made = [[path("1", 10)] * 3] * 3
    engine = ByPrompt(made)
    plain = engine.stream

    async def endless_third(prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        async for chunk in plain(prompt, seed=seed):
            yield chunk
            if NUMBER[seed] == 2:
                await asyncio.Event().wait()

    engine.stream = endless_third  # type: ignore[method-assign]

    async def cancelled() -> list[se.Outcome]:
        task = asyncio.ensure_future(se.aallocate(prompts(made), engine, total_tokens=10_000, paths=3, parallel=3))
        while not {(0, 2), (1, 2), (2, 2)} <= set(engine.started):
            await asyncio.sleep(0)
        task.cancel()
        return await task

    outcomes = asyncio.run(cancelled())
    assert {out.reason for out in outcomes} == {"interrupted"}
    assert [out.answer for out in outcomes] == ["1"] * 3
    assert engine.running == 0


def test_a_learner_is_read_and_updated(tmp_path: Path) -> None:
    made = [made_question(np.random.default_rng(seed)) for seed in range(4)]
    file = tmp_path / "learned.json"
    outcomes = se.allocate(prompts(made), ByPrompt(made), total_tokens=900, paths=16, learn=file)
    ((key, state),) = se.Learner(file).known().items()
    assert (key.strategy, key.window, state.questions) == ("sure:delta=0", 4, 4)
    assert outcomes[0].learned == se.LearnerState()
    again = se.allocate(prompts(made), ByPrompt(made), total_tokens=900, paths=16, learn=file)
    assert again[0].learned == state
    unsaved = se.allocate(
        prompts(made), ByPrompt(made), total_tokens=90, paths=16, learn=tmp_path / "no" / "such" / "file"
    )
    assert all("what was learned could not be saved" in out.notes[-1] for out in unsaved)


def test_questions_may_come_from_a_generator() -> None:
    recorded = [[path("1"), path("1")], [path("2")]]
    assert se.allocate((paths for paths in recorded), total_tokens=99) == se.allocate(recorded, total_tokens=99)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([[path("1")]], None, "ac"), {"total_tokens": 9}, "ac does not estimate what a further path would gain"),
        (([[path("1")]],), {"total_tokens": 0}, "total_tokens is 0"),
        (([[path("1")], "2+2?"],), {"total_tokens": 9}, "some questions are recorded"),
        (([[]],), {"total_tokens": 9}, "has no recorded paths"),
        (([[path("1")]], ByPrompt([])), {"total_tokens": 9}, "need no engine"),
        (([["x"]],), {"total_tokens": 9}, "a list of RecordedPath"),
        (([Question("q", "4", None, [path("4")])],), {"total_tokens": 9}, "such as `question.paths` of a pool"),
        ((["2+2?", 3],), {"total_tokens": 9}, "a question is a text, a Prompt or"),
        (("2+2?",), {"total_tokens": 9}, "questions is a list of questions, not str"),
        ((3,), {"total_tokens": 9}, "questions is a list of questions, not int"),
    ],
)
def test_bad_arguments(arguments: tuple[object, ...], options: dict[str, int], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        se.allocate(*arguments, **options)  # type: ignore[arg-type]


def test_no_question_is_no_outcome() -> None:
    assert se.allocate([], total_tokens=5) == []
