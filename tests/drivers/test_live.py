"""The live driver on scripted and recorded engines: what it starts, closes, counts and returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from sureenough.answers import Judge, extract, for_question
from sureenough.answers.kinds import FunctionJudge, Math
from sureenough.api import replay
from sureenough.core.events import Action, Ended, Expired, Regrouped, Token, Tokens, path_seed
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome, Snapshot
from sureenough.core.pruning import Gate
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.drivers.live import run
from sureenough.drivers.lockstep import recorded_tokens
from sureenough.drivers.observers import ObservedEvent, PathReport, RunStarted
from sureenough.engines import Engine, Fake, Prompt
from sureenough.engines.base import End, Report
from sureenough.engines.fake import Step
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, MissingLogprobs
from sureenough.pools import Question, RecordedPath
from sureenough.spec import resolve
from tests.engines.test_soak import Told

LONG = 60.0  # nothing here waits that long
NUMBER = {path_seed(0, n): n for n in range(512)}


def tokens(text: str, n: int = 1, conf: float = 10.0) -> list[Token]:
    return [*[Token("", 0.5, conf)] * (n - 1), Token(text, 0.5, conf)]


def scripted(play: Callable[[int], Iterable[Step]]) -> Fake:
    """A script by the path's number."""
    return Fake(lambda seed: play(NUMBER[seed]))


def playing(paths: Sequence[RecordedPath], chunk: int) -> Fake:
    """Recorded paths, so many tokens at a time."""

    def play(n: int) -> Iterable[Step]:
        path = paths[n]
        made = list(recorded_tokens(path))
        yield from (made[at : at + chunk] for at in range(0, len(made), chunk))
        yield End(path.finish, "" if path.token_texts or path.answer is None else rf"\boxed{{{path.answer}}}")

    return scripted(play)


def live_judge(
    extract: Callable[[str], str | None] = extract, group: Callable[[Sequence[str]], Mapping[str, Any]] | None = None
) -> Judge:
    """The judge of a live run on mathematics, with parts of it replaced."""
    math = for_question(Math())
    if group is None:
        return FunctionJudge(extract, math.classes, math.grade)
    return FunctionJudge(extract, lambda answers: [group(answers)[answer] for answer in answers], math.grade)


def go(
    engine: Engine, strategy: str | Strategy = "sc", *, paths: int = 8, parallel: int = 4, window: int = 4, **more: Any
) -> Outcome:
    names = ("max_tokens", "hurry", "deadline")
    options = {name: more.pop(name) for name in names if name in more}
    session = Session(resolve(strategy), RunOptions(paths=paths, window=window, parallel=parallel, **options))
    judge = live_judge(more.pop("extract", extract), more.pop("group", None))
    return asyncio.run(asyncio.wait_for(run(Prompt.user("?"), engine, session, judge=judge, **more), timeout=LONG))


def test_every_path_votes() -> None:
    engine = scripted(lambda n: [tokens("thinking ", 3), tokens(rf"\boxed{{{n % 3}}}", 2)])
    out = go(engine)
    assert (out.answer, out.reason, out.started) == ("0", "budget", 8)
    assert out.votes == {"0": 3.0, "1": 3.0, "2": 2.0}
    assert (out.tokens.kept, out.tokens.total, out.tokens.overrun_known) == (40, 40, True)
    assert (engine.started, engine.running, engine.most) == (8, 0, 4)


@pytest.mark.parametrize("strategy", ["sc", "ac", "esc"])
def test_an_engine_that_watches_its_paths_need_not_send_those_without_signals_before_their_end(
    real_questions: list[Question], strategy: str
) -> None:
    engine = playing(real_questions[24].paths, 7)
    go(engine, strategy, paths=16, window=64)
    assert engine.prompts
    assert all(prompt.watch is not None and prompt.watch.gate == Gate() for prompt in engine.prompts)


def test_confidence_that_the_strategy_does_not_read_is_not_shown() -> None:
    """A path that is watched only to be counted has counts with the confidence of a window."""

    alive = Report()
    engine = scripted(lambda n: [Report(5, tail=3.0), Report(2, tail=4.0), alive, End(text=r"\boxed{1}", unread=1)])
    seen: list[Any] = []
    out = go(engine, "sc", paths=2, observers=[lambda event, actions, snapshot: seen.append(event)])
    assert (out.answer, out.tokens.total, out.tokens.overrun, out.notes) == ("1", 16, 0, ())
    assert engine.prompts[0].watch is not None
    reports = [event for event in seen if isinstance(event, PathReport)]
    assert [(report.text, report.confidence) for report in reports] == [(r"\boxed{1}", None)] * 2
    assert not any(event.summary for event in seen if isinstance(event, Ended))


@pytest.mark.parametrize("strategy", ["sc", "ac", "esc", "ddc:weight=mean", "deepconf-low", "sure"])
@pytest.mark.parametrize(("parallel", "chunk"), [(1, 1), (1, 7), (16, 1), (64, 25)])
def test_it_gives_the_answer_of_a_replay(
    real_questions: list[Question], strategy: str, parallel: int, chunk: int
) -> None:
    for question in real_questions[23:27]:
        again = replay(question.paths, strategy, paths=64, window=64)
        live = go(playing(question.paths, chunk), strategy, paths=64, parallel=parallel, window=64)
        assert (live.answer, live.reason) == (again.answer, again.reason)
        assert live.votes == pytest.approx(again.votes)
        if parallel == 1:
            assert (live.pruned, live.started, live.tokens.kept) == (again.pruned, again.started, again.tokens.kept)
            assert live.tokens.total - live.tokens.overrun == again.tokens.total - again.tokens.overrun
            assert live.steps == again.steps


def test_a_settled_vote_closes_the_others() -> None:
    engine = scripted(lambda n: [tokens(r"\boxed{1}")] if n < 5 else [tokens("", 2), LONG])
    out = go(engine, "ac", paths=64, parallel=16)
    assert (out.answer, out.reason) == ("1", "settled")
    assert engine.running == 0
    assert (out.started, out.tokens.kept) == (engine.started, 4)
    assert out.tokens.total == out.tokens.kept + out.tokens.discarded


def test_a_pruned_path_is_closed_and_the_rest_of_its_chunk_is_overrun() -> None:
    def play(n: int) -> Iterable[Step]:
        if n < 2:
            return [tokens(r"\boxed{1}", 8, conf=10.0 + n)]
        return [tokens("", 8, conf=1.0), LONG]

    engine = scripted(play)
    out = go(engine, "ddc:warmup=2,tau=1", paths=6, parallel=2)
    assert (out.pruned, out.answer, out.reason) == (4, "1", "budget")
    assert (out.tokens.pruned, out.tokens.overrun, out.tokens.init) == (16, 16, 16)
    assert engine.running == 0


def test_a_lost_path_is_replaced_and_said() -> None:
    def play(n: int) -> Iterable[Step]:
        return [tokens("", 3), EngineError("the line went dead")] if n == 1 else [tokens(rf"\boxed{{{n}}}")]

    out = go(scripted(play), "ddc:warmup=4", paths=5)
    assert (out.failed, out.tokens.failed, out.started) == (1, 3, 5)
    assert any("the line went dead" in note for note in out.notes)


@pytest.mark.parametrize("error", [EngineRejected("no such model"), MissingLogprobs("no log-probabilities")])
def test_a_refusal_ends_the_run_at_once(error: EngineError) -> None:
    engine = scripted(lambda n: [0.01, error] if n == 2 else [tokens(""), LONG])
    with pytest.raises(type(error)) as raised:
        go(engine)
    assert (raised.value.path, raised.value.seed) == (2, path_seed(0, 2))
    assert engine.running == 0


def test_a_server_that_dies_ends_the_run_with_what_it_has() -> None:
    engine = scripted(lambda n: [tokens(r"\boxed{7}")] if n < 6 else [EngineUnavailable("nobody answers")])
    out = go(engine, paths=64)
    assert (out.answer, out.reason) == ("7", "engine")
    assert out.votes == {"7": 6.0}
    assert out.started < 20


def test_a_server_that_was_never_there_is_an_error() -> None:
    with pytest.raises(EngineUnavailable, match="nobody answers"):
        go(scripted(lambda n: [EngineUnavailable("nobody answers")]), paths=64)


def test_paths_that_all_fail_are_an_error_and_paths_without_answers_are_none() -> None:
    with pytest.raises(EngineError, match="cut"):
        go(scripted(lambda n: [tokens("half"), EngineError("cut")]))
    out = go(scripted(lambda n: [tokens("no box")]))
    assert (out.answer, out.reason, out.abstained) == (None, "budget", 8)


def test_a_deadline_gives_the_vote_so_far() -> None:
    engine = scripted(lambda n: [tokens(r"\boxed{7}")] if n < 3 else [tokens("", 2), LONG])
    out = go(engine, deadline=0.1)
    assert (out.answer, out.reason, engine.running) == ("7", "deadline", 0)
    assert go(engine, deadline=0.0).reason == "deadline"


def test_a_cap_on_tokens() -> None:
    out = go(scripted(lambda n: [tokens("", 5) for _ in range(100)]), max_tokens=42)
    assert (out.reason, out.tokens.total - out.tokens.overrun) == ("max_tokens", 42)


def test_observers_hear_everything_in_order() -> None:
    heard: list[ObservedEvent] = []
    actions: list[Action] = []

    def observer(event: ObservedEvent, made: Sequence[Action], snapshot: Snapshot) -> None:
        heard.append(event)
        actions.extend(made)

    go(scripted(lambda n: [tokens("a"), End(text=r"\boxed{1}")]), paths=2, parallel=1, observers=[observer])
    kinds = [type(news) for news in heard]
    assert kinds == [RunStarted, Tokens, PathReport, Ended, Regrouped, Tokens, PathReport, Ended]
    assert [type(action).__name__ for action in actions] == ["Start", "Classify", "Start", "Stop"]
    assert go(scripted(lambda n: [LONG]), deadline=0.0, observers=[observer]).reason == "deadline"
    assert Expired("deadline") in heard


def test_tokens_that_are_only_counted() -> None:
    end = End(unread=1, prompt_tokens=11, cached_tokens=10)
    engine = scripted(lambda n: [tokens(r"\boxed{1}", 8), end] if n % 2 else [end])
    out = go(engine, "ddc:warmup=4,tau=1", paths=8, parallel=1)
    assert (out.tokens.total, out.tokens.overrun, out.failed) == (4 * 9 + 4, 0, 0)
    assert (out.tokens.prompt, out.tokens.cached) == (88, 80)
    assert "Of 88 prompt tokens the server had 80 cached." in out.explain()
    assert out.abstained == 4


def test_a_prompt_of_no_tokens_is_not_believed() -> None:
    ends = [End(text=r"\boxed{1}", unread=1, prompt_tokens=tokens) for tokens in (100, 0, 100, 100)]
    out = go(scripted(lambda n: [ends[n]]), "sc", paths=4, parallel=1)
    assert (out.tokens.prompt, out.tokens.prompt_known) == (400, True)


def test_estimates_are_called_so() -> None:
    engine = scripted(lambda n: [Report(3, r"\boxed{1}", estimated=True)])
    out = go(engine, "sc")
    assert out.tokens.total == 24
    assert any("estimated" in note for note in out.notes)
    assert not engine.prompts[0].signals


def test_fates_and_events_add_up() -> None:
    told = Told()
    engine = scripted(lambda n: [tokens("", n), EngineError("x")] if n % 4 == 3 else [tokens(r"\boxed{1}", n + 1)])
    out = go(engine, "ddc:warmup=4,tau=1", paths=32, parallel=8, observers=[told])
    assert out.tokens.total == told.tokens
    assert out.failed == 8
