"""Extraction: the tables, the refusals, and time that grows with the text and no faster."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import pytest

from sureenough import answers
from sureenough.errors import UsageError

from .extractions import CHOICE, LAST_NUMBER, MATH


def test_the_tables_are_large_enough() -> None:
    assert len(MATH) + len(CHOICE) + len(LAST_NUMBER) >= 80


@pytest.mark.parametrize(("text", "answer"), MATH)
def test_math(text: str, answer: str | None) -> None:
    assert answers.extract(text) == answer
    assert answers.extract(text, "math") == answer


@pytest.mark.parametrize(("text", "answer"), LAST_NUMBER)
def test_last_number_is_read_only_when_asked_for(text: str, answer: str | None) -> None:
    assert answers.extract(text, fallback="last-number") == answer


@pytest.mark.parametrize(("text", "answer"), CHOICE)
def test_choice(text: str, answer: str | None) -> None:
    assert answers.extract(text, "choice") == answer


@pytest.mark.parametrize("letter", "ABCDEFGHIJ")
def test_the_choices_are_those_offered(letter: str) -> None:
    for text in (f"\\boxed{{{letter}}}", f"Answer: {letter}", f"The answer is ({letter}).", f"{letter}"):
        assert answers.extract(text, "choice", choices="ABCDEFGHIJ") == letter
        assert answers.extract(text, "choice", choices="KL") is None


@pytest.mark.parametrize("choices", [["A", "B"], ("A", "B"), "AB", iter("AB")])
def test_choices_are_any_letters(choices: Iterable[str]) -> None:
    assert answers.extract("Answer: B", "choice", choices=choices) == "B"


def test_choices_keep_their_own_case() -> None:
    assert answers.extract("Answer: B", "choice", choices="ab") == "b"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "maths"}, "math, choice"),
        ({"kind": ""}, "math, choice"),
        ({"fallback": "first-number"}, "last-number"),
        ({"kind": "choice", "choices": ""}, "ABCD"),
        ({"kind": "choice", "choices": "A B"}, "ABCD"),
        ({"kind": "choice", "choices": "AA"}, "ABCD"),
        ({"kind": "choice", "choices": ["A", "AB"]}, "ABCD"),
        ({"kind": "choice", "choices": ["A", 5]}, "ABCD"),
        ({"kind": "choice", "choices": None}, "ABCD"),
    ],
)
def test_unknown_options_are_refused_with_the_known_ones(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        answers.extract("5", **options)


HOSTILE = [
    "\\boxed{", "\\boxed{\\boxed{1}", "\\boxed 5 ", "the answer is ", "answer is $", "Answer: ", "answer: a ",
    "<think>", "</think>", "<|channel|>", "{", "}", "\\", "#### ", "答案", "选", "option a is ", "(A) is ",
    "1,", "*", "answer ", "\\boxed{}", "\\boxed}", "\\boxed{ ", "\n", "İ answer is ",
    "the answer is a b c d e ",
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE)
@pytest.mark.parametrize("kind", ["math", "choice"])
def test_time_is_linear(piece: str, kind: str) -> None:
    """Four times the text takes four times as long, not sixteen; the absolute figure is the benchmark's."""

    def seconds(size: int) -> float:
        text = piece * (size // len(piece))
        best = float("inf")
        for _ in range(3):
            began = time.thread_time()
            answers.extract(text, kind, fallback="last-number")
            best = min(best, time.thread_time() - began)
        return best

    small, large = seconds(50_000), seconds(200_000)
    assert large < 10 * small + 0.05


def test_deeply_nested_boxes_are_linear_too() -> None:
    depth = 50_000
    began = time.thread_time()
    assert answers.extract("\\boxed{" * depth + "5" + "}" * depth) is not None
    assert time.thread_time() - began < 2
