"""Every pair of the table, both ways round, by `same`, by `classes` and by `grade`."""

from __future__ import annotations

import pytest

from sureenough import answers

from .pairs import GRADED, NOT_GRADED, PAIRS, POLICIES


@pytest.mark.parametrize(("one", "two", "same", "rule"), PAIRS)
def test_pair(one: str, two: str, same: bool, rule: str) -> None:
    forward, backward = answers.explain(one, two), answers.explain(two, one)
    assert (forward.same, backward.same) == (same, same), f"{rule}: {forward} / {backward}"
    assert str(forward) == str(backward)
    assert answers.grade(one, two) is same
    assert answers.grade(two, one) is same
    assert (len(set(answers.classes([one, two]))) == 1) is same


@pytest.mark.parametrize(("one", "two"), GRADED)
def test_grading_drops_a_label_that_a_vote_keeps(one: str, two: str) -> None:
    assert answers.grade(one, two)
    assert answers.grade(two, one)
    assert answers.classes([one, two]) == [0, 1]


@pytest.mark.parametrize(("one", "two"), NOT_GRADED)
def test_grading_keeps_what_says_something(one: str, two: str) -> None:
    for options in ({}, {"percent": True, "rounding": True, "decimal_comma": True}):
        assert not answers.grade(one, two, **options)
        assert not answers.grade(two, one, **options)


@pytest.mark.parametrize(("one", "two", "policy"), POLICIES)
def test_policies_of_grading(one: str, two: str, policy: str) -> None:
    assert answers.grade(one, two, **{policy: True})
    assert answers.grade(two, one, **{policy: True})
    for other in {"percent", "rounding", "decimal_comma"} - {policy}:
        assert not answers.grade(one, two, **{other: True})
    assert not answers.grade(one, two)
    assert answers.classes([one, two]) == [0, 1]


@pytest.mark.parametrize(
    ("one", "two", "sentence"),
    [
        ("1/2", "0.5", "same, by keys"),
        ("5", "500", "different, by keys"),
        ("x+1", "x-1", "different, refuted numerically"),
        (r"\sqrt{3+2\sqrt{2}}", r"1+\sqrt{2}", "different, nothing shows that they are equal"),
        (r"\frac{x^2-1}{x-1}", "x+1", "same, by exact arithmetic"),
        ("0.333333333333", "1/3", "same, by keys: a long decimal and what it rounds"),
        ("52_8", "52", "same, by keys: the same digits, one of them with its base"),
        ("(1,2)", r"\{1,2\}", "different, by keys: not the same kind of answer"),
        ("", "", "different, an empty answer equals nothing"),
        (r"(\frac{x^2-1}{x-1}, 1)", "(x+1, 1)", "same, part by part"),
        (r"x+10^{-20}", "x", "different, refuted by exact arithmetic"),
    ],
)
def test_a_verdict_says_why(one: str, two: str, sentence: str) -> None:
    assert str(answers.explain(one, two)) == sentence
