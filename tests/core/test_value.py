"""`sure`'s parts by their numbers: the worth of going on, weights by tails, what it needs at least."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from math import exp, inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta as beta_distribution

from sureenough.core.events import Ended, Fate, Stop
from sureenough.core.options import RunOptions
from sureenough.core.poll import Lead, Poll
from sureenough.core.session import Session
from sureenough.core.stop_rules import (
    Certified,
    ExpectedGain,
    Posterior,
    Share,
    StopRule,
    TwoLargest,
    Unanimous,
    gain,
    never,
)
from sureenough.core.strategy import Strategy
from sureenough.core.weights import Ballot, ByLowest, BySignals, Weigh, by_count
from tests.core import making

TAIL = BySignals("tail", 0.6)


poll = partial(making.poll, weigh=TAIL)


@pytest.mark.parametrize(
    ("budget", "votes", "value"),
    [
        (64, "aa", 0.021853),
        (64, "aaa", 0.008358),
        (64, "aaaa", 0.003213),
        (64, "aaab", 0.030638),
        (64, "aabb", 0.126271),
        (64, "abcdefgh", 0.061832),
        (512, "aaa", 0.010141),
    ],
)
def test_the_worth_of_going_on(budget: int, votes: str, value: float) -> None:
    assert ExpectedGain().measure(poll(votes, budget=budget)) == pytest.approx(value, abs=1e-6)


def test_the_worth_is_the_expected_margin_of_the_runner_up() -> None:
    """By integration: E[(1 - 2X)+] for the leader's final share X of the two, times what the two hold."""
    first, second, total, future = 7.3, 4.1, 15.0, 20.0
    a, b = first + 1, second + 1
    share = (a + b) / (total + 3)
    m = future * share
    variance = a * b / (a + b) ** 2 / (a + b + 1) * m / (a + b + m)
    size = a * b / (a + b) ** 2 / variance - 1
    x = np.linspace(0, 0.5, 200_001)
    density = beta_distribution.pdf(x, size * a / (a + b), size * b / (a + b))
    margin = np.trapezoid((1 - 2 * x) * density, x)
    assert gain(first, second, total, future) == pytest.approx(share * margin, abs=1e-9)


def test_with_nothing_to_come_nothing_can_be_won() -> None:
    assert gain(3.0, 1.0, 4.0, 0.0) == pytest.approx(0.0)
    assert gain(3.0, 1.0, 4.0, -1.0) == pytest.approx(0.0)


@given(st.floats(0, 500), st.floats(0, 1), st.floats(0, 500), st.floats(0.01, 512))
def test_the_worth_is_a_share_of_the_vote(first: float, ratio: float, rest: float, future: float) -> None:
    second = first * ratio
    assert 0.0 <= gain(first, second, first + second + rest, future) <= 0.5


def test_paths_without_an_answer_make_less_of_the_future() -> None:
    # 4 of 8 paths answered: of 56 to come, about half will; votes are equal, so one path is one vote.
    expected = gain(4.0, 0.0, 4.0, 56 * 1.0 * 5 / 9)
    assert ExpectedGain().measure(poll("a.a.a.a.")) == pytest.approx(expected, abs=1e-12)


def test_it_stops_at_delta_from_the_least_paths_on_and_not_without_a_vote() -> None:
    worth = ExpectedGain().measure(poll("aaaa"))
    assert worth is not None
    assert ExpectedGain(delta=worth)(poll("aaaa"))
    assert not ExpectedGain(delta=worth * 0.999)(poll("aaaa"))
    assert not ExpectedGain(delta=0.5)(poll("aa"))
    assert ExpectedGain(delta=0.5, least=2)(poll("aa"))
    assert not ExpectedGain()(poll("....."))
    assert not ExpectedGain(delta=1.0)(poll("aaaa", budget=4)), "the budget has decided"


def test_weights_grow_with_the_tail_and_sum_to_the_effective_number() -> None:
    tails = [3.0, 5.0, 9.0, 40.0]
    weights = list(TAIL([Ballot(i, "a", 0.0, t) for i, t in enumerate(tails)], []))
    z = np.clip((np.array(tails) - np.mean(tails)) / np.std(tails), -2.5, 2.5)
    raw = np.exp(0.6 * 4 / 12 * z)
    assert weights == pytest.approx((raw * raw.sum() / (raw**2).sum()).tolist(), abs=1e-12)
    assert sum(weights) == pytest.approx(raw.sum() ** 2 / (raw**2).sum())
    assert sum(weights) < 4


def test_one_outlier_counts_for_no_more_than_the_cap() -> None:
    tails = [0.0] * 50 + [1e6]
    weights = list(TAIL([Ballot(i, "a", 0.0, t) for i, t in enumerate(tails)], []))
    z_low = (0.0 - np.mean(tails)) / np.std(tails)
    strength = 0.6 * 51 / 59
    assert weights[-1] / weights[0] == pytest.approx(exp(strength * (2.5 - z_low)))


def test_equal_tails_or_no_beta_weigh_alike() -> None:
    assert list(TAIL([Ballot(i, "a", 0.0, 7.0) for i in range(5)], [])) == [1.0] * 5
    flat = BySignals("tail", 0.0)([Ballot(i, "a", 0.0, float(i)) for i in range(5)], [])
    assert list(flat) == pytest.approx([1.0] * 5)
    assert list(TAIL([], [])) == []


# -- need


@pytest.mark.parametrize("most", [1, 2, 3, 10])
def test_the_fewest_that_settle(most: int) -> None:
    @dataclass(frozen=True)
    class Settles(StopRule):
        tau: float
        quantity = "leader_share"

        def measure_after(self, poll: Poll, lead: Lead, more: int) -> float:
            return more

    needs = {tau: Settles(tau).need(poll(""), most) for tau in (0, 3, inf)}
    assert needs == {0: 1, 3: min(3, most), inf: most}


RULES: dict[str, tuple[StopRule, Weigh]] = {
    "ac": (TwoLargest(), by_count),
    "ddc": (Posterior(), ByLowest()),
    "ddc-unweighted": (Posterior(weighted=False), ByLowest()),
    "deepconf": (Share(), ByLowest()),
    "certified": (Certified(), by_count),
    "esc": (Unanimous(), by_count),
    "sure": (ExpectedGain(), TAIL),
}


@given(votes=st.text("ab.", min_size=0, max_size=9), name=st.sampled_from(sorted(RULES)))
def test_need_is_the_number_of_votes_for_one_answer_that_really_settle_it(votes: str, name: str) -> None:
    """With equal weights, adding that many votes for the leader settles the poll, and one fewer does not.

    For `esc` they may be votes for another answer, with which the batch has begun.
    """
    rule, weigh = RULES[name]
    start = poll(votes, weigh=weigh)
    if rule(start) or not start.ballots:
        return
    ones = "ab" if name == "esc" else start.winner() or ""
    settled = [any(rule(poll(votes + one * k, weigh=weigh)) for one in ones) for k in range(1, 41)]
    assert rule.need(start, 40) == (settled.index(True) + 1 if True in settled else 40)


@pytest.mark.parametrize("votes", ["aab", "aabb", "aaabb", "aabc", "a.b.a", "aaabbbc", "abcd", "aabbccdd"])
def test_what_sure_needs_on_contested_polls(votes: str) -> None:
    needs = [k for k in range(1, 41) if ExpectedGain()(poll(votes + "a" * k))]
    assert ExpectedGain().need(poll(votes), 40) == needs[0]


@pytest.mark.parametrize("name", RULES)
def test_before_the_first_vote_something_is_needed(name: str) -> None:
    rule, weigh = RULES[name]
    assert 1 <= rule.need(poll("", weigh=weigh), 8) <= 8
    assert never.need(poll(""), 7) == 7


def test_further_paths_are_taken_to_weigh_the_mean() -> None:
    made = poll("aababab", values=[1.0, 9.0, 3.0, 8.0, 2.0, 14.0, 30.0])
    lead = made.lead_by_weight()
    assert lead is not None
    each = lead.total / 7
    assert each < 0.95, "unequal tails carry less information"
    worths = [gain(lead.first + k * each, lead.second, lead.total + k * each, (57 - k) * each) for k in range(1, 41)]
    assert ExpectedGain().need(made, 40) == 1 + [worth <= 0.01 for worth in worths].index(True)
    heavier = poll("aab", values=[4.0, 5.0, 6.0], weigh=ByLowest())
    assert Posterior().need(heavier, 20) < Posterior(weighted=False).need(heavier, 20)


def test_what_is_needed_before_anybody_voted() -> None:
    assert TwoLargest().need(poll(""), 8) == 4, "four votes against none"
    assert [ExpectedGain().need(poll("." * n), 8) for n in (0, 1, 2, 5)] == [3, 2, 1, 1]
    assert ExpectedGain(least=7).need(poll(""), 5) == 5


class AtFive(StopRule):
    """A rule that says no more than it must."""

    def __call__(self, poll: Poll) -> bool:
        return poll.counted >= 5


def test_a_rule_of_the_callers_own_needs_no_more_than_its_call() -> None:
    rule = AtFive()
    assert (rule.measure(poll("a")), rule.why(poll("a")), rule.need(poll("a"), 9)) == (None, "", 4)
    assert rule.counts_paths, "a path without a vote may settle it: ask after every path"
    run = Session(Strategy("five", stop=rule), RunOptions(paths=9, window=1))
    run.begin()
    for path in range(4):
        assert not any(isinstance(action, Stop) for action in run.receive(Ended(path, Fate.KEPT, None)))
    assert run.receive(Ended(4, Fate.KEPT, None)) == [Stop(None, "settled")]


def test_any_callable_is_a_stop_rule() -> None:
    run = Session(Strategy("two", stop=lambda poll: poll.counted >= 2), RunOptions(paths=9, window=1))
    run.begin()
    run.receive(Ended(0, Fate.KEPT, "a"))
    assert run.receive(Ended(1, Fate.KEPT, "a")) == [Stop("a", "settled")]
    assert run.outcome().verdict.measure is None


# -- words


@pytest.mark.parametrize(
    ("rule", "votes", "says"),
    [
        (
            ExpectedGain(),
            "aaaa",
            "The 60 remaining paths would gain 0.32 points of vote share on average, no more than delta = 1",
        ),
        (ExpectedGain(), "aabb", "more than delta = 1 points"),
        (ExpectedGain(), "a" * 63, "The 1 remaining path would gain 0.00 points"),
        (ExpectedGain(), "a" * 64, "No paths remain."),
        (Posterior(), "aaaa", "with probability 0.9688, above tau = 0.95"),
        (Posterior(gamma=0.6), "ab", "more than 60% of the votes with probability 0.3520, not above tau"),
        (TwoLargest(), "aab", "2 votes against 1: the leader beats the next answer with probability 0.6875"),
        (Share(), "aaab", "The leader holds 75.0% of the vote weight; it stops at 95%."),
        (Unanimous(), "aaaaa", "A batch of 5 paths"),
        (Unanimous(), "aaaab", "No batch of 5 paths"),
        (never, "a", "whole budget"),
        *((rule, "", "There are no votes yet.") for rule in (ExpectedGain(), Posterior(), TwoLargest(), Share())),
    ],
)
def test_why(rule: StopRule, votes: str, says: str) -> None:
    assert says in rule.why(poll(votes))
