"""The certificate: its values, and that a wrong answer is hardly ever certified."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.poll import Standing
from sureenough.core.stop_rules import Certified, certificate, votes_to_certify
from sureenough.drivers import replay
from sureenough.pools import RecordedPath
from sureenough.spec import parse
from tests.core.making import poll


@pytest.mark.parametrize(
    ("votes", "level"),
    [
        ("aaa", 0.47619),
        ("aaaaa", 0.179211),
        ("aaaaaaa", 0.0612423),
        ("aaaaaaaa", 0.0348584),
        ("aaaaaaaaaa", 0.0108613),
        ("aaaaaaaab", 0.159363),
        ("baaaaaaaaaaaa", 0.313781),
        ("ababababaaaaaaaaaaaaaaaa", 0.0140855),
        ("abcdefgh", 1.0),
        ("", 1.0),
        ("a.a.a.", 0.47619),
    ],
)
def test_certificates_by_their_numbers(votes: str, level: float) -> None:
    assert certificate(poll(votes).standing()) == pytest.approx(level, rel=1e-5)


def test_the_position_counts_distinct_answers_and_many_votes_are_exact() -> None:
    assert poll("bacaa").standing() == Standing(3, 1, 2)
    assert poll("bacaa").standing("b") == Standing(1, 3, 1)
    assert certificate(Standing(15, 0, 3)) == pytest.approx(4 * certificate(Standing(15, 0, 2)))
    assert 0.0 < certificate(Standing(1e6, 10, 1)) < 1e-9
    assert certificate(Standing(500_200, 500_000, 1)) == pytest.approx(1.0)


@given(st.integers(0, 60), st.integers(0, 60), st.integers(1, 9))
def test_the_votes_that_certify_are_the_fewest(votes: int, rival: int, position: int) -> None:
    standing = Standing(votes, rival, position)
    more = votes_to_certify(standing)
    assert certificate(standing._replace(votes=votes + more)) <= 0.05
    assert more == 0 or certificate(standing._replace(votes=votes + more - 1)) > 0.05


WORLDS = {
    "two equal": [0.5, 0.5],
    "three": [0.4, 0.35, 0.25],
    "close, and forty rare": [0.3, 0.29, *[0.41 / 40] * 40],
    "ten equal": [0.1] * 10,
}


@pytest.mark.parametrize("world", WORLDS)
def test_a_wrong_leader_is_certified_at_most_as_often_as_claimed(world: str) -> None:
    """Looked at after every vote. Of equally frequent answers only one counts as right."""
    shares, rng, runs, wrong = np.array(WORLDS[world]), np.random.default_rng(5), 300, 0
    for _ in range(runs):
        counts: dict[int, int] = {}
        for answer in rng.choice(len(shares), size=120, p=shares):
            counts[answer] = counts.get(answer, 0) + 1
            first, second = (*sorted(counts.values(), reverse=True), 0)[:2]
            leader = max(counts, key=counts.__getitem__)
            if leader != 0 and certificate(Standing(first, second, 1 + list(counts).index(leader))) <= 0.05:
                wrong += 1
                break
    assert wrong / runs <= 0.05


def run(answers: str, spec: str) -> Outcome:
    paths = [RecordedPath(answer, [0.5] * 4, [9.0 + i] * 4) for i, answer in enumerate(answers)]
    return replay(paths, parse(spec), RunOptions(paths=len(paths), window=2))


def test_the_strategy_stops_when_it_is_reached() -> None:
    assert (run("a" * 20, "certified").started, run("a" * 20, "certified:alpha=0.2").started) == (8, 5)
    out = run("a" * 20, "certified")
    assert (out.reason, out.votes_to_certify) == ("settled", 0)
    assert out.certificate == pytest.approx(0.0348584, rel=1e-5)
    assert out.verdict.measure == pytest.approx(0.0348584, rel=1e-5)
    assert out.verdict.why.endswith("certified at 0.0349; it stops at 0.05.")
    assert run("ab" * 10, "certified").reason == "budget"
    assert Certified().need(poll("aa"), 99) == 6
    assert Certified().need(poll(""), 99) == 8


@pytest.mark.parametrize("spec", ["ddc:warmup=4", "deepconf-low:warmup=4"])
def test_with_pruning_there_is_none(spec: str) -> None:
    assert (run("aaaa", spec).certificate, run("aaaa", spec).to_json()["certificate"]) == (None, None)
    assert "ertif" not in run("aaaa", spec).explain()


def test_every_outcome_of_independent_paths_has_one() -> None:
    out = run("aaa", "sure")
    assert out.certificate == pytest.approx(0.47619, rel=1e-5)
    assert (out.votes_to_certify, out.to_json()["votes_to_certify"]) == (5, 5)
    assert "most frequent answer: 0.48; 5 more votes for it would reach 0.05." in out.explain()
    assert "most frequent" not in out.brief()
    heavy = poll("aab", values=[1.0, 1.0, 9.0])
    assert heavy.winner() == "b"
    assert certificate(heavy.standing(heavy.winner())) == pytest.approx(1.0), (
        "of the answer, not of the leader by counts"
    )
