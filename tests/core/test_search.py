"""Searches in the scheduler: what is requested and adopted, and where every sampled token goes."""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from sureenough.core.events import (
    Action,
    Adopt,
    Cancel,
    Computed,
    Event,
    Expired,
    Extend,
    Extended,
    Fate,
    Sampled,
    Start,
    Stop,
    Token,
)
from sureenough.core.options import RunOptions
from sureenough.core.search import Continuation, Draws, Growth, Mur, Phi, Predictive, SampleLimits, SearchMethod
from sureenough.core.session import Session
from sureenough.core.strategy import Strategy
from sureenough.errors import ProtocolError, UsageError
from sureenough.spec import is_strategy_name, parse, render
from sureenough.strategies import STRATEGIES
from tests.core.making import ended
from tests.core.searching import carried_out, clusters, line, toy

GOLDEN = Path(__file__).parent.parent / "golden"
PREDICTIVE = Predictive(rollouts=2, lookahead=2, max_steps=3, rollout_tokens=9)
MUR = Mur(max_steps=3, candidates=2)
PHI = Phi(beams=2, rollouts=2, min_steps=1, max_steps=2, cluster=clusters)


def searching(method: SearchMethod = PREDICTIVE, voting: str = "sc", **sizes: Any) -> Session:
    options = RunOptions(**({"paths": 3, "window": 2, "parallel": 3} | sizes))
    return Session(replace(STRATEGIES[voting], search=method), options)


def answer(text: str) -> str | None:
    first = re.search(r"[a-z]", text)
    return None if first is None else first[0]


def script(beginning: str, limits: SampleLimits, seed: int) -> Continuation:
    """Short texts for journals: a step and an end, more and less likely by the seed."""
    peak = 0.9 if seed % 2 else 0.4
    if limits.stop is not None:
        return line("step"[: 1 + seed % 4], peak)
    lines = beginning.count("\n")
    return line("" if lines > 1 else "so\nend" if seed % 3 else "thus\nend", peak)


@pytest.mark.parametrize(("name", "method"), [("predictive", PREDICTIVE), ("phi", PHI), ("mur", MUR)])
def test_journal(name: str, method: SearchMethod) -> None:
    run = searching(method, "ac", paths=2, parallel=1)
    lines, _ = carried_out(run, script, answer)
    assert "\n".join(lines) == (GOLDEN / f"ac-over-searches-by-{name}.txt").read_text().rstrip("\n")


@pytest.mark.parametrize("method", [PREDICTIVE, PHI, MUR])
@pytest.mark.parametrize("voting", ["sc", "ac", "sure", "cisc", "ddc-no-depth"])
def test_width_changes_neither_paths_nor_votes_and_every_token_is_counted(method: SearchMethod, voting: str) -> None:
    texts, votes = [], []
    for parallel in (1, 4):
        sampled = list[int]()

        def sample(beginning: str, limits: SampleLimits, seed: int, sampled: list[int] = sampled) -> Continuation:
            reply = toy(beginning, limits, seed)
            sampled.append(len(reply.tokens) + reply.unread)
            return reply

        strategy = replace(STRATEGIES[voting], search=method, warmup=min(2, STRATEGIES[voting].warmup))
        run = Session(strategy, RunOptions(paths=6, window=2, parallel=parallel))
        _, ends = carried_out(run, sample, answer)
        out = run.outcome()
        texts.append(set(ends[: out.counted]) if parallel == 1 else set(ends))
        votes.append((out.answer, out.votes, out.reason))
        assert out.tokens.total <= sum(sampled)
        if out.reason == "budget":
            assert out.tokens.total == sum(sampled)
            assert out.tokens.kept + out.tokens.init + out.tokens.search == out.tokens.total
    assert texts[0] <= texts[1]
    assert votes[0] == votes[1]


class Recorded(Session):
    """A session that keeps every event, with the actions that it led to."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.history: list[tuple[Event, list[Action]]] = []

    def receive(self, event: Event) -> list[Action]:
        self.history.append((event, super().receive(event)))
        return self.history[-1][1]


@pytest.mark.parametrize("sizes", [{"parallel": 1}, {"parallel": 3}, {"parallel": 3, "max_tokens": 150}], ids=str)
@pytest.mark.parametrize("voting", ["sc", "sure"])
@pytest.mark.parametrize(
    "method", [PREDICTIVE, replace(PREDICTIVE, select=0.5), PHI, MUR], ids=["best", "drawn", "phi", "mur"]
)
def test_the_same_events_lead_to_the_same_actions(method: SearchMethod, voting: str, sizes: dict[str, int]) -> None:
    """So a search that was interrupted goes on from its recorded events as if nothing had happened."""
    strategy, options = replace(STRATEGIES[voting], search=method), RunOptions(paths=4, window=2, **sizes)
    first, again = Recorded(strategy, options), Session(strategy, options)
    carried_out(first, toy, answer)
    again.begin()
    events = pickle.dumps([event for event, _ in first.history])
    for event, (_, actions) in zip(pickle.loads(events), first.history, strict=True):
        assert again.receive(event) == actions
    assert again.outcome() == first.outcome()
    assert method is not PHI or "max_tokens" in sizes or Computed in {type(event) for event, _ in first.history}


def test_a_step_that_is_adopted_leaves_the_bucket_of_searches() -> None:
    run = searching(paths=1)
    first, *extends = run.begin()
    assert isinstance(first, Start)
    assert [extend.branch for extend in extends if isinstance(extend, Extend)] == [0, 1]
    assert run.receive(Sampled(0, 0, 7)) == run.receive(Sampled(0, 1, 5)) == []
    assert run.receive(Extended(0, 1, line("b\nc\n", 0.4))) == []
    adopted, *more = run.receive(Extended(0, 0, line("aa\nd\ne", 0.9)))
    assert adopted == Adopt(0, Growth("aa\n", line("aa\n", 0.9).tokens))
    assert [extend.beginning for extend in more if isinstance(extend, Extend)] == ["aa\n"] * 2
    path = run.snapshot().paths[0]
    assert (path.tokens, path.search_tokens) == (3, 9)
    assert run.snapshot().generated == 12
    run.receive(Sampled(0, 3, 4))
    assert run.snapshot().steps == 7 + 4


def test_seeds_depend_on_the_runs_seed_the_path_and_the_branch() -> None:
    def seeds(seed: int) -> list[tuple[int, int, int]]:
        actions = searching(seed=seed).begin()
        return [(one.path, one.branch, one.seed) for one in actions if isinstance(one, Extend)]

    assert seeds(1) == seeds(1)
    assert len({seed for _, _, seed in seeds(1) + seeds(2)}) == 2 * 3 * 2


def test_the_cap_limits_branches_and_is_reached_by_them() -> None:
    run = searching(paths=1, max_tokens=6)
    extends = [action for action in run.begin() if isinstance(action, Extend)]
    assert {extend.limits.max_tokens for extend in extends} == {6}
    assert run.receive(Sampled(0, 0, 4)) == []
    assert run.receive(Sampled(0, 1, 3)) == [Cancel(0, Fate.DISCARDED), Stop(None, "max_tokens")]
    run.receive(Sampled(0, 1, 2))
    assert run.receive(Extended(0, 1, line("abc"))) == []
    spent = run.outcome().tokens
    assert (spent.search, spent.overrun, spent.total) == (7, 2, 9)


def test_a_lost_path_keeps_what_it_cost_and_is_replaced() -> None:
    run = searching(paths=2, parallel=1)
    run.begin()
    run.receive(Sampled(0, 0, 4))
    run.receive(Sampled(0, 1, 4))
    run.receive(Extended(0, 0, line("aa\nb")))
    run.receive(Extended(0, 1, line("c\n", 0.1)))
    actions = run.receive(ended(0, None, Fate.FAILED))
    assert isinstance(actions[0], Start)
    assert [action.path for action in actions if isinstance(action, Extend)] == [1, 1]
    run.receive(Sampled(0, 2, 5))
    assert run.receive(Expired("interrupted"))[0] == Cancel(1, Fate.DISCARDED)
    spent = run.outcome().tokens
    assert (spent.failed, spent.search, spent.overrun, spent.total) == (3, 5, 5, 13)


def test_a_path_without_any_text_gives_no_answer() -> None:
    run = searching(voting="sure", paths=1)
    _, texts = carried_out(run, lambda *_: Continuation(unread=1), answer)
    out = run.outcome()
    assert (texts, out.answer, out.abstained, out.reason) == ([""], None, 1, "budget")
    assert (out.tokens.search, out.tokens.total) == (2, 2)


def test_a_branch_ends_once() -> None:
    run = searching()
    run.begin()
    run.receive(Extended(0, 0, line("a\n")))
    for branch in (0, 2, -1):
        with pytest.raises(ProtocolError, match=f"branch {branch} was not requested"):
            run.receive(Extended(0, branch, line("a\n")))


def test_a_search_has_a_budget_of_its_own() -> None:
    assert Session(STRATEGIES["predictive+sc"], RunOptions(paths=64)).options.paths == 8
    assert Session(STRATEGIES["predictive+sc"], RunOptions(paths=3)).options.paths == 3
    assert Session(parse("predictive+sc:runs=16"), RunOptions(paths=64)).options.paths == 16


def test_any_search_with_any_vote() -> None:
    strategy = parse("phi+sure:delta=0.02,beams=2,runs=4")
    assert (strategy.stop, strategy.weigh) == (parse("sure:delta=0.02").stop, STRATEGIES["sure"].weigh)
    assert strategy.search == Phi(runs=4, beams=2)
    assert render(strategy) == "phi+sure:delta=0.02,beams=2,runs=4"
    assert parse("predictive+ac:tau=0.9").stop == parse("ac:tau=0.9").stop
    assert is_strategy_name("phi+ac")
    assert not is_strategy_name("phi")
    assert not is_strategy_name("phi+phi+sc")
    assert not is_strategy_name("predictive+phi+sc")
    assert not is_strategy_name("ac+phi")


def test_the_defaults_are_those_of_the_papers() -> None:
    assert Predictive() == Predictive(
        runs=8, rollouts=8, lookahead=8, rollout_tokens=500, heat=0.8, select=0.0, max_steps=30
    ), "for mathematics"
    assert Phi() == Phi(beams=4, rollouts=4, min_steps=4, max_steps=8, clusters=3, share=0.7, tau1=0.6, tau2=0.6)
    assert Mur() == Mur(candidates=4, momentum=0.9, scale=0.9, heat=0.6, max_steps=20)


def test_no_option_of_a_search_hides_one_of_a_vote() -> None:
    own = {name for method in (Predictive(), Phi()) for name in method.__dataclass_fields__}
    for strategy in STRATEGIES.values():
        for part in (strategy.stop, strategy.weigh):
            assert not own & set(getattr(part, "__dataclass_fields__", ())), strategy.name


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("phi", r"name the strategy that votes on them too, such as phi\+sc"),
        ("phi+ddc", r"phi\+ddc prunes paths as they grow"),
        ("phi+phi+sc", r"phi\+phi\+sc names two searches"),
        ("predictive+phi+sc:beams=2", r"predictive\+phi\+sc names two searches"),
        ("phi+predictive+phi+sc", "unknown strategy 'predictive"),
        ("phi+nothing", "unknown strategy 'nothing'"),
        ("phi+sc:beams=0", "a whole number from 1 to 64"),
        ("predictive+sc:rollouts=1000000000", "a whole number from 1 to 64"),
        ("predictive+sc:rollout_tokens=99999999999999999999999", "a whole number from 1 to 32768"),
        ("predictive+sc:lookahead=65", "a whole number from 1 to 64"),
        ("predictive+sc:max_steps=257", "a whole number from 1 to 256"),
        ("phi+sc:max_steps=1000000", "a whole number from 1 to 256"),
        ("phi+sc:min_steps=1000000", "a whole number from 1 to 256"),
        ("phi+sc:every=3", r"phi\+sc has no option 'every'"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        parse(text)


def test_draws_without_replacement() -> None:
    numbers = iter([0.5, 0.0, 0.99])
    assert Draws(lambda: next(numbers)).without_replacement([0.1, 0.6, 0.3], 5) == [1, 0, 2]
    assert Draws(lambda: 1.0).choose([0.2, 0.8, 0.0]) == 1  # never one of weight 0


def test_a_part_of_a_continuation_has_the_tokens_that_begin_there() -> None:
    tokens = [Token(text, 0.5, 5.0) for text in ("a", "b\nc", "", "d\n", "e")]
    whole = Continuation(tuple(tokens), (-1.0, -2.0, -3.0, -4.0, -5.0), unread=1)

    def part(start: int, end: int) -> tuple[str, Sequence[str], int, list[float]]:
        ((growth, logprobs),) = whole.parts([(start, end)])
        return growth.text, [token.text for token in growth.tokens], growth.unread, list(logprobs)

    assert part(0, 3) == ("ab\n", ["a", "b\n"], 0, [-1.0, -2.0])
    assert part(3, 6) == ("cd\n", ["c", "d\n"], 0, [-3.0, -4.0])
    assert part(6, 7) == ("e", ["e"], 1, [-5.0])


def test_a_search_of_the_callers_own() -> None:
    class Two(SearchMethod):
        """Two letters, one after the other."""

        def search(self, draws: Draws) -> Any:
            from sureenough.core.search import Round, Sample

            (first,) = yield Round((Sample("", SampleLimits(1, 1.0)),))
            (second,) = yield Round((Sample(first.text, SampleLimits(1, 1.0)),), first.growth())
            return second.growth()

    run = Session(Strategy("mine", search=Two(runs=2)), RunOptions(paths=5))
    _, texts = carried_out(run, lambda beginning, *_: line("b" if beginning else "a"), answer)
    assert (texts, run.outcome().votes) == (["ab", "ab"], {"a": 2.0})
