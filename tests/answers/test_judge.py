"""Classes of many answers, and what an error of ours does."""

from __future__ import annotations

import itertools

import pytest

from sureenough import answers


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], []),
        ([None], [None]),
        ([None, "1", None, "1"], [None, 0, None, 0]),
        (["0.5", None, "1/2", "7", r"\frac12"], [0, None, 0, 1, 0]),
        (["7", "0.5", "1/2", "7"], [0, 1, 1, 0]),
        (["5", "500", "5.0"], [0, 1, 0]),
        (["", "", "5", ""], [0, 1, 2, 3]),
        (["x=5", "y=5", "5"], [0, 0, 0]),
        (["0.333333333333", "1/3", "0.33333333333333"], [0, 0, 0]),
        (["A", "(A)", r"\text{(B)}", "B"], [0, 0, 1, 1]),
        (["y=2x+3", "2x-y+3=0", "2x+3"], [0, 1, 0]),
        (["52", "52_8", "42"], [0, 0, 1]),
        (["52_8", "52_9", "52"], [0, 1, 0]),  # never one class, although both are the same as 52
    ],
)
def test_classes(given: list[str | None], expected: list[int | None]) -> None:
    assert answers.classes(iter(given)) == expected


def test_nothing_is_chained() -> None:
    """Two answers that equal a third, but not each other, go with their representatives, in any order."""
    given = ["2x+3", "y=2x+3", "2x-y+3=0"]
    for order in itertools.permutations(given):
        found = dict(zip(order, answers.classes(order), strict=True))
        assert found["2x+3"] == found["y=2x+3"] != found["2x-y+3=0"]


def test_an_internal_error_counts_as_different_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise KeyError("a defect")

    monkeypatch.setattr("sureenough.answers.compare.values_differ", broken)
    assert answers.classes(["x+1", "x+2", "5"]) == [0, 1, 2]
    assert str(answers.explain("x+1", "x+2")) == "different, internal error: KeyError"
    assert not answers.grade("x+1", "x+2")
    assert "a defect" in caplog.text


def test_no_answer_is_never_right() -> None:
    assert answers.grade("5", None) is False
    assert answers.grade("", "") is False


def test_what_nothing_shows_to_be_equal_does_not_part_those_who_equal_the_same() -> None:
    """A long decimal is the same as both, and it is not certain that these are two values."""
    assert answers.classes([r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"]) == [0, 1]
    assert answers.classes(["2.41421356237310", r"\sqrt{3+2\sqrt2}", r"1+\sqrt2"]) == [0, 0, 0]
    assert answers.classes(["3.14159265359", r"\pi", r"\pi+10^{-12}"]) == [0, 0, 1]


def test_a_set_is_different_once_one_element_is_certainly() -> None:
    assert str(answers.explain(r"(\sqrt{3+2\sqrt2}, 1)", r"(1+\sqrt2, 2)")) == "different, by keys"
    assert not answers.explain(r"(\sqrt{3+2\sqrt2}, 1)", r"(1+\sqrt2, 1)").certain


def test_floats_tell_hundreds_of_answers_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Comparing all pairs exactly would take a minute."""

    def exact(*_: object) -> None:
        raise AssertionError("compared exactly")

    monkeypatch.setattr("sureenough.answers.compare.are_equal", exact)
    given = [rf"\ln(x-9)+\frac{{x+{n}}}{{(x-{n + 1})(y+{n})}}" for n in range(300)]
    assert len(set(answers.classes(given))) == 300
