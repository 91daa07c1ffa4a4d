"""Learning which confidence to trust: the rule by its numbers, its laws, and what it makes of damaged states."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.poll import Poll
from sureenough.core.stop_rules import ExpectedGain
from sureenough.core.weights import SIGNALS, Ballot, BySignals, BySoftmax, LearnerState, correlation
from sureenough.drivers import replay
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath
from sureenough.spec import parse, render

VOTES = [("a", 12.0, 0.9), ("a", 11.0, 0.95), ("b", 8.0, 0.7), ("a", 10.0, 0.92), ("c", 9.0, 0.6)]
TAUGHT = [*VOTES, ("b", 10.5, 0.8)]  # five votes for the two leaders


def poll_of(votes: list[tuple[str, float, float]], state: LearnerState | None = None) -> Poll:
    poll = Poll(BySignals(state=state or LearnerState()), 64)
    for path, (answer, tail, peak) in enumerate(votes):
        poll.add(path, Ballot(path, answer, 0.0, tail, peak))
    return poll


def outcome_of(votes: list[tuple[str, float, float]]) -> Outcome:
    """A run over paths of one token, whose tails and peaks are these, that counts them all."""
    paths = [RecordedPath(answer, [peak], [tail]) for answer, tail, peak in votes]
    return replay(paths, parse("sure:delta=0"), RunOptions(paths=len(paths), window=1))


def test_the_prior_trusts_both_signals_alike() -> None:
    state = LearnerState()
    assert list(state.correlations.values()) == pytest.approx([0.15, 0.15])
    assert state.betas(0.8) == pytest.approx({"tail": 0.4, "mean_peak": 0.4})
    assert state.trust == pytest.approx(1.0)


def test_one_question_by_its_numbers() -> None:
    state = LearnerState().receive(outcome_of(TAUGHT))
    assert list(state.correlations.values()) == pytest.approx([0.205137, 0.235888], abs=1e-6)
    assert list(state.betas(0.8).values()) == pytest.approx([0.344488, 0.455512], abs=1e-6)
    poll = poll_of(TAUGHT, state)
    assert list(poll.votes().values()) == pytest.approx([3.475416, 1.484297, 0.558996], abs=1e-6)
    assert ExpectedGain().measure(poll) == pytest.approx(0.029957, abs=1e-6)


def test_the_correlation_is_that_of_raw_signals_with_votes_for_the_leader_among_two() -> None:
    votes = [("a", 90.0, 0.9), ("a", 3.0, 0.8), ("b", 4.0, 0.3), ("b", 5.0, 0.2), ("c", 2.0, 0.6), ("a", 4.0, 0.7)]
    ones = [vote for vote in votes if vote[0] != "c"]
    for column, value in enumerate(outcome_of(votes).correlations.values(), start=1):
        signal = np.array([one[column] for one in ones], dtype=float)
        assert value == pytest.approx(np.corrcoef(signal, [one[0] == "a" for one in ones])[0, 1])


def test_some_questions_teach_nothing() -> None:
    """Too few votes for the two leaders, none for a second one, two that are level."""
    state = LearnerState()
    for votes in (VOTES, [("a", tail, peak) for _, tail, peak in TAUGHT], [*TAUGHT, ("b", 9.0, 0.5)]):
        assert outcome_of(votes).correlations == {}
        state = state.receive(outcome_of(votes))
    assert (state.questions, state.counts) == (3, (0, 0))
    assert state.correlations == LearnerState().correlations


def test_a_signal_that_does_not_vary_or_is_missing_is_left_out() -> None:
    assert list(outcome_of([(answer, 7.0, peak) for answer, _, peak in TAUGHT]).correlations) == ["mean_peak"]
    nan = poll_of([(answer, tail, float("nan") if i == 2 else peak) for i, (answer, tail, peak) in enumerate(TAUGHT)])
    assert list(nan.correlations()) == ["tail"]
    alone = Poll(BySignals("tail", 0.4), 64)
    for path, (answer, tail, _) in enumerate(TAUGHT):
        alone.add(path, Ballot(path, answer, 0.0, tail))
    assert nan.votes() == pytest.approx(alone.votes()), "only the tail weighs"
    assert correlation([1.0, 2.0, float("inf")], [1.0, 2.0, 3.0]) is None


def test_signals_that_mislead_weigh_nothing_and_the_stop_rule_is_twice_as_careful() -> None:
    state = LearnerState(40, (-8.0, -8.0), (40, 40))
    strategy = parse("sure").with_state(state)
    assert state.trust == pytest.approx(0.0)
    assert set(poll_of(VOTES, state).votes().values()) == {3.0, 1.0}
    assert strategy.stop.threshold == pytest.approx(0.005)
    assert parse("sure:weigh=tail").with_state(state) == parse("sure:weigh=tail")
    assert parse("ddc").with_state(state) is parse("ddc")


def test_a_state_does_not_change_the_name_of_a_strategy() -> None:
    strategy = parse("sure:delta=0.02").with_state(LearnerState(40, (-8.0, 20.0), (40, 40)))
    assert render(strategy) == "sure:delta=0.02"
    assert strategy.state is not None
    assert parse("sure:weigh=count").state is None
    assert parse("sc").state is None


def test_an_outcome_keeps_the_state_it_used_and_can_be_replayed_with_it() -> None:
    state = LearnerState().receive(outcome_of(TAUGHT))
    paths = [RecordedPath(answer, [peak], [tail]) for answer, tail, peak in VOTES]
    out = replay(paths, parse("sure").with_state(state), RunOptions(paths=5, window=1))
    assert out.learned == state
    kept = LearnerState.from_json(json.loads(json.dumps(out.to_json()))["learned"])
    assert replay(paths, parse("sure").with_state(kept), RunOptions(paths=5, window=1)) == out
    assert replay(paths, parse("ddc:warmup=2"), RunOptions(paths=5, window=1)).learned is None


states = st.integers(0, 10**6).flatmap(
    lambda n: st.builds(
        lambda counts, shares: LearnerState(n, tuple(c * s for c, s in zip(counts, shares, strict=True)), counts),
        st.tuples(*[st.integers(0, n)] * len(SIGNALS)),
        st.tuples(*[st.floats(-1, 1)] * len(SIGNALS)),
    )
)


@given(states)
def test_any_state_survives_json_and_gives_bounded_weights(state: LearnerState) -> None:
    assert LearnerState.from_json(json.loads(json.dumps(state.to_json()))) == state
    betas = list(state.betas(0.8).values())
    assert min(betas) >= 0.0
    assert sum(betas) <= 0.8 + 1e-12
    assert all(beta == 0.0 for beta, r in zip(betas, state.correlations.values(), strict=True) if r <= 0)
    assert 0.0 <= state.trust <= 1.0


@pytest.mark.parametrize(
    "damage",
    [
        {"version": 2},
        {"questions": -1},
        {"questions": True},
        {"questions": "40"},
        {"signals": {}},
        {"signals": None},
        {"signals": {"tail": {"sum": "x", "questions": 3}, "mean_peak": {"sum": 0, "questions": 0}}},
        {"signals": {"tail": {"sum": float("nan"), "questions": 3}, "mean_peak": {"sum": 0, "questions": 0}}},
        {"signals": {"tail": {"sum": 9.0, "questions": 3}, "mean_peak": {"sum": 0, "questions": 0}}},
        {"signals": {"tail": {"sum": 1.0, "questions": 50}, "mean_peak": {"sum": 0, "questions": 0}}},
    ],
)
def test_damaged_states_are_refused(damage: dict[str, Any]) -> None:
    good = LearnerState(9, (1.0, 2.0), (8, 9)).to_json()
    with pytest.raises(UsageError):
        LearnerState.from_json(good | damage)
    others: tuple[object, ...] = (None, [], "x", 3)
    for other in others:
        with pytest.raises(UsageError):
            LearnerState.from_json(other)


# -- weights for other strategies


PATHS = [RecordedPath(answer, [peak], [tail]) for answer, tail, peak in VOTES]


@pytest.mark.parametrize("name", ["sc", "ac", "esc"])
def test_learned_weights_change_the_vote_of_others_and_not_when_they_stop(name: str) -> None:
    plain, weighed = (parse(spec) for spec in (name, f"{name}:weigh=learned"))
    assert not plain.reads_confidence
    assert weighed.state == LearnerState()
    outs = [replay(PATHS, strategy, RunOptions(paths=5, window=1)) for strategy in (plain, weighed)]
    assert (outs[0].started, outs[0].tokens, outs[0].reason) == (outs[1].started, outs[1].tokens, outs[1].reason)
    assert outs[0].votes["a"] == pytest.approx(3.0)
    assert outs[1].votes["a"] != 3.0
    assert outs[1].learned == LearnerState()


def test_cisc_weighs_by_the_softmax_of_confidence() -> None:
    out = replay(PATHS, parse("cisc:signal=mean_peak,temperature=0.1"), RunOptions(paths=5, window=1))
    soft = np.exp(np.array([peak for _, _, peak in VOTES]) / 0.1)
    soft /= soft.sum()
    total = sum(out.votes.values())
    assert out.votes["a"] / total == pytest.approx(soft[[0, 1, 3]].sum())
    assert out.votes["b"] / total == pytest.approx(soft[2])
    assert total == pytest.approx(1 / (soft**2).sum())
    assert out.started == 5
    missing = BySoftmax()([Ballot(0, "a", 1.0, 1.0), Ballot(1, "b", 1.0, 1.0)], [])
    assert list(missing) == [1.0, 1.0], "without the signal all weigh alike"
    assert list(BySoftmax()([], [])) == []


def test_one_confident_path_decides_alone() -> None:
    options = RunOptions(paths=5, window=1)
    out = replay(PATHS, parse("reasc:gate=0.9"), options)
    assert (out.answer, out.started, out.reason) == ("a", 1, "settled")
    assert "mean peak of 0.9000" in out.verdict.why
    out = replay(PATHS[2:] + PATHS[:2], parse("reasc:gate=0.9"), options)
    assert out.started == 5, "only the first path may decide alone"
    agreed = [RecordedPath("a", [0.5], [9.0]) for _ in range(9)]
    assert replay(agreed, parse("reasc"), RunOptions(paths=9, window=1)).started == 4, "as adaptive-consistency"
    assert replay(agreed, parse("ac"), RunOptions(paths=9, window=1)).started == 4
