"""Weights, leads, ties, and every stop rule by its numbers."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from sureenough.core.poll import Lead, Poll
from sureenough.core.stop_rules import Posterior, Share, TwoLargest, Unanimous, exceeds_share, never
from sureenough.core.weights import Ballot, ByConfidence, by_count
from tests.core.making import poll


@pytest.mark.parametrize(
    ("first", "second", "value", "stops"),
    [
        (3, 0, 0.9375, False),
        (4, 0, 0.96875, True),
        (6, 1, 0.96484, True),
        (9, 3, 0.95386, True),
        (100, 80, 0.93155, False),
    ],
)
def test_adaptive_consistency_by_its_numbers(first: int, second: int, value: float, *, stops: bool) -> None:
    votes = poll("a" * first + "b" * second + "c" * min(second, 1))
    assert TwoLargest().measure(votes) == pytest.approx(value, abs=5e-6)
    assert TwoLargest()(votes) is stops


def test_adaptive_consistency_stops_at_its_threshold_and_not_only_above() -> None:
    votes = poll("aaaa")
    assert TwoLargest(tau=0.96875)(votes)
    assert not TwoLargest(tau=0.96876)(votes)


def test_the_posterior_counts_everyone_else_against_the_leader() -> None:
    votes = poll("aaabc", [5.0, 6.0, 4.0, 3.0, 2.0])
    assert Posterior().measure(votes) == pytest.approx(beta.sf(0.5, 16, 6), abs=1e-12)
    assert Posterior(weighted=False).measure(votes) == pytest.approx(beta.sf(0.5, 4, 3), abs=1e-12)
    assert Posterior(gamma=0.7).measure(votes) == pytest.approx(beta.sf(0.7, 16, 6), abs=1e-12)


def test_the_posterior_must_exceed_tau() -> None:
    votes = poll("aaaa", [1.0] * 4)
    exact = Posterior().measure(votes)
    assert exact is not None
    assert not Posterior(tau=exact)(votes)
    assert Posterior(tau=exact - 1e-9)(votes)


def test_nine_of_sixteen_are_enough_at_weight_fifteen_and_twelve_at_weight_one() -> None:
    for weight, enough in ((15.0, 9), (1.0, 12)):
        for leaders in range(1, 17):
            votes = poll("a" * leaders + "b" * (16 - leaders), [weight] * 16)
            assert Posterior()(votes) is (leaders >= enough or leaders <= 16 - enough), (weight, leaders)


def test_the_survival_function_keeps_its_digits_where_one_minus_would_lose_them() -> None:
    tiny = exceeds_share(1.0, 200.0, 0.5)
    assert 0 < tiny == pytest.approx(0.5**200, rel=1e-12)


@given(a=st.floats(1, 5000), b=st.floats(1, 5000), share=st.floats(0.05, 0.95))
def test_the_survival_function_is_scipys(a: float, b: float, share: float) -> None:
    assert exceeds_share(a, b, share) == pytest.approx(beta.sf(share, a, b), abs=1e-9)


def test_the_share_of_the_leader() -> None:
    votes = poll("ab", [19.0, 1.0])
    assert Share().measure(votes) == pytest.approx(0.95)
    assert Share()(votes)
    assert not Share(tau=0.951)(votes)
    assert Share().measure(poll("ab", [0.0, 0.0])) is None
    assert Share().measure(poll("ab", [0.3, 0.1])) == pytest.approx(0.75), "a share of however little"


@pytest.mark.parametrize(
    ("votes", "rule", "stops"),
    [
        ("aaaaa", Unanimous(), True),
        ("aaaa", Unanimous(), False),
        ("baaaaa", Unanimous(), False),  # windows go by number: 0-4, 5-9
        ("baaaaaaaaa", Unanimous(), True),
        ("aaaa.", Unanimous(), False),  # an abstention is no agreement
        ("aaaabbbbbb", Unanimous(), True),
        (".....", Unanimous(), False),
        ("", Unanimous(), False),
        ("abaa", Unanimous(batch=2), True),
        ("abaa", Unanimous(batch=3), False),
        ("aaaaaaa", Unanimous(batch=10**14), False),
    ],
)
def test_a_whole_window_by_numbers_must_agree(votes: str, rule: Unanimous, *, stops: bool) -> None:
    assert rule(poll(votes)) is stops
    assert rule.measure(poll(votes)) is None


def test_regrouping_may_unite_an_earlier_window() -> None:
    votes = poll("aaaabcd")
    assert not Unanimous()(votes)
    votes.regroup({"a": 0, "b": 0})
    assert Unanimous()(votes)


@pytest.mark.parametrize("rule", [Posterior(), Posterior(weighted=False), TwoLargest(), Share(), Unanimous(), never])
def test_without_votes_nothing_is_settled(rule: object) -> None:
    assert not rule(poll("..."))  # type: ignore[operator]
    assert rule.measure(poll("...")) is None  # type: ignore[attr-defined]


def test_raw_mean_and_unit_weights() -> None:
    ballots = [Ballot(0, "a", 6.0, 0.0), Ballot(1, "b", 12.0, 0.0)]
    warmup = [4.0, 8.0]
    assert list(ByConfidence("raw")(ballots, warmup)) == [6.0, 12.0]
    assert list(ByConfidence("mean")(ballots, warmup)) == [1.0, 2.0]
    assert list(ByConfidence("unit")(ballots, warmup)) == [0.75, 1.0]


@pytest.mark.parametrize("weight", ["mean", "unit"])
@pytest.mark.parametrize("warmup", [[], [0.0, 0.0]])
def test_where_there_is_nothing_to_divide_by_weights_are_one(weight: str, warmup: list[float]) -> None:
    assert list(ByConfidence(weight)([Ballot(0, "a", 6.0, 0.0)], warmup)) == [1.0]


def test_ties_go_to_the_lowest_numbered_path() -> None:
    made = Poll(by_count, 8)
    for path, answer in ((5, "x"), (2, "y"), (1, "x"), (3, "y")):
        made.add(path, Ballot(path, answer, 1.0, 1.0))
    assert made.winner() == "x"
    assert list(made.votes()) == ["x", "y"]


def test_the_two_heaviest_and_the_whole() -> None:
    votes = poll("abcab", [1.0, 5.0, 2.0, 1.5, 0.5])
    assert votes.lead_by_weight() == Lead(5.5, 2.5, 10.0)
    assert votes.lead_by_count() == Lead(2, 2, 5)
    assert poll("aa").lead_by_weight() == Lead(2.0, 0.0, 2.0)
    assert poll("..").lead_by_weight() is None
    assert poll("..").winner() is None
    assert poll("a..").counted == 3


def test_regrouping_forms_the_candidates_anew() -> None:
    votes = poll("abcc")
    votes.regroup({"a": 1, "b": 1})
    assert votes.votes() == {"a": 2.0, "c": 2.0}
    assert votes.outcomes == {0: 1, 1: 1, 2: "c", 3: "c"}
    votes.add(4, Ballot(4, "b", 1.0, 1.0))
    assert votes.votes() == {"a": 3.0, "c": 2.0}
    votes.regroup({})
    assert votes.votes() == {"b": 2.0, "c": 2.0, "a": 1.0}


def test_the_posterior_is_that_of_the_weighted_likelihood() -> None:
    """The paper's eq. 12 and 13: a uniform prior times theta^(w u) (1 - theta)^(w (1 - u)), integrated in steps."""
    rng = np.random.default_rng(8)
    theta = (np.arange(200_000) + 0.5) / 200_000
    for scale in (0.2, 1.0, 3.0):
        right, weights = rng.random(12) < 0.6, scale * rng.uniform(0.5, 1.5, 12)
        density = np.exp(weights[right].sum() * np.log(theta) + weights[~right].sum() * np.log1p(-theta))
        above = float(density[theta > 0.5].sum() / density.sum())
        ahead, behind = float(weights[right].sum()), float(weights[~right].sum())
        assert exceeds_share(1.0 + ahead, 1.0 + behind, 0.5) == pytest.approx(above, abs=1e-6)
        mean = float((density * theta).sum() / density.sum())
        variance = float((density * (theta - mean) ** 2).sum() / density.sum())
        assert variance == pytest.approx(mean * (1 - mean) / (3.0 + float(weights.sum())), rel=1e-6)
