"""The scripts that compare rules of learning: they must replay as `compare` does, and differ where they say."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import sureenough as se
from sureenough.bench.judging import judge_question
from sureenough.bench.replay import summarise
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.weights import Ballot, BySignals, LearnerState
from sureenough.data import BUILTIN_POOL
from sureenough.drivers import replay
from sureenough.pools import Question, RecordedPath
from sureenough.spec import parse

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

import learning_rules
import signals

VOTES = [("a", 12.0, 0.9), ("a", 11.0, 0.95), ("b", 8.0, 0.7), ("a", 10.0, 0.92), ("c", 9.0, 0.6), ("b", 9.5, 0.91)]


def outcome_of(votes: list[signals.Vote]) -> Outcome:
    paths = [RecordedPath(str(vote.candidate), [vote.signals[1]], [vote.signals[0]]) for vote in votes]
    return replay(paths, parse("sure:delta=0"), RunOptions(paths=len(paths), window=1))


def votes(*answers: str) -> list[signals.Vote]:
    return [signals.Vote(answer, (tail, peak)) for answer, (_, tail, peak) in zip(answers, VOTES, strict=True)]


def test_the_built_in_rule_is_that_of_replay() -> None:
    questions, window = signals.load(str(BUILTIN_POOL), None)
    assert window == 64
    for spec in ("sure", "sure:weigh=count"):
        runs = learning_rules.run(questions, spec)
        (row,) = se.compare(BUILTIN_POOL, [spec], repeats=signals.REPEATS)
        assert (runs.right.mean(), runs.tokens.mean()) == pytest.approx((row.accuracy, row.tokens))
        if row.learned:
            assert runs.betas == pytest.approx([signal["beta"] for signal in row.learned.values()])


def test_two_learns_from_the_leader_and_the_runner_up_alone() -> None:
    cast = votes("a", "a", "b", "a", "c", "b")
    state = learning_rules.RULES["two"].learn(LearnerState(), outcome_of(cast), cast)
    kept = [cast[i] for i in (0, 1, 2, 3, 5)]
    expected = [np.corrcoef(column, [1, 1, 0, 1, 0])[0, 1] for column in signals.columns(kept)]
    assert state.sums == pytest.approx(expected)
    built_in = learning_rules.RULES["built in"].learn(LearnerState(), outcome_of(cast), cast)
    assert built_in.sums != pytest.approx(expected), "which counts the vote for c, too"


@pytest.mark.parametrize(("answers", "learns"), [("aaabac", True), ("aaabcb", False)])
def test_clear_learns_only_if_the_leader_has_more_than_half(answers: str, learns: bool) -> None:
    cast = votes(*answers)
    state = learning_rules.RULES["clear"].learn(LearnerState(), outcome_of(cast), cast)
    assert (state.questions, state.counts) == (1, (int(learns),) * 2)


def test_next_vote_looks_at_earlier_votes_only() -> None:
    cast = votes("a", "a", "b", "a", "c", "b")
    state = learning_rules.RULES["next vote"].learn(LearnerState(), outcome_of(cast), cast)
    before = np.array([vote.signals for vote in cast[:5]])
    z = (np.array(cast[5].signals) - before.mean(axis=0)) / before.std(axis=0)
    product = z * (0 - 4 / 6) / np.sqrt(4 / 6 * 2 / 6)  # the vote for c is left out, the last one is for the runner-up
    assert state.counts == pytest.approx((0.1, 0.1))
    assert state.sums == pytest.approx((product * 0.25).tolist())


def test_bounded_weights_are_those_of_counts_once_these_settle_the_vote() -> None:
    weigh = learning_rules.Bounded(parse("sure").weigh, {"a": 0, "b": 1})
    ballots = [Ballot(i, "a", 0.0, 9.0 + i, 0.9) for i in range(4)]
    assert weigh(ballots, ()) == [1.0] * 4  # (4, 0) stops ac
    contested = [*ballots[:3], ballots[3]._replace(answer="b")]
    assert weigh(contested, ()) == parse("sure").weigh(contested, ())


def test_area_under_the_curve() -> None:
    assert signals.area([1.0, 2.0, 3.0, 4.0], [False, True, False, True]) == pytest.approx(0.75)
    assert signals.area([1.0, 1.0], [False, True]) == pytest.approx(0.5)
    assert np.isnan(signals.area([1.0, 2.0], [True, True]))
    assert np.isnan(signals.area([], []))


def test_shuffled_signals_are_the_same_ones_elsewhere() -> None:
    questions, _ = signals.load(str(BUILTIN_POOL), None)
    paths = questions[0].question.paths
    moved = signals.shuffled(paths, np.random.default_rng(0))
    assert [path.answer for path in moved] == [path.answer for path in paths]
    tails, before = ([path.known[1].tail for path in of if path.known] for of in (moved, paths))
    assert sorted(tails) == sorted(before)
    assert tails != before


def test_what_is_told_of_one_question() -> None:
    paths = [
        RecordedPath(answer, [peak], [tail])
        for answer, tail, peak in [
            ("7", 3.0, 0.6), ("7", 2.0, 0.5), ("7", 1.0, 0.9), ("8", 5.0, 0.7), ("8", 4.0, 0.4), ("9", 0.0, 0.1),
        ]
    ]  # fmt: skip
    question = Question("sums-1-x", "7", None, paths)
    judged = judge_question(question, "meaning")
    told = signals.facts(signals.JudgedQuestion(summarise(question, 1), judged, 1), 2, BySignals("tail", 2.0))
    assert told is not None
    assert (told.group, told.one_right, told.leader_share) == ("sums 1", 0.5, 0.5)
    assert told.right == pytest.approx((3 / 9, 7 / 9))
    assert told.repeated == (1.0, 1.0)
    assert told.first_two == told.rival == pytest.approx((0.0, 4 / 6))
    assert (told.plurality, told.weighted) == (True, False), "both votes for 8 have larger tails"
    assert signals.flips([told]) == (1, 0)
