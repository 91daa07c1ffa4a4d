"""Extraction: the tables, the refusals, and time that grows with the text and no faster."""

from __future__ import annotations

import re
import time
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

from sureenough import answers
from sureenough.answers import choice, reading
from sureenough.errors import UsageError

from .extractions import CHOICE, LAST_NUMBER, MATH

CASES: list[tuple[str, str, str | None, str | None]] = [
    *((text, "math", None, answer) for text, answer in MATH),
    *((text, "math", "last-number", answer) for text, answer in LAST_NUMBER),
    *((text, "choice", None, answer) for text, answer in CHOICE),
]


@pytest.mark.parametrize(("text", "kind", "fallback", "answer"), CASES)
def test_what_is_extracted(text: str, kind: str, fallback: str | None, answer: str | None) -> None:
    assert answers.extract(text, kind, fallback=fallback) == answer


@pytest.mark.parametrize(
    ("module", "name"),
    [
        (module, name)
        for module in (reading, choice)
        for name, value in vars(module).items()
        if isinstance(value, re.Pattern)
    ],
)
def test_every_pattern_is_needed_by_a_reply(module: ModuleType, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, name, re.compile("(?!)"))  # matches nothing
    assert any(answers.extract(text, kind, fallback=fallback) != answer for text, kind, fallback, answer in CASES)


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


REPEATED = [
    "\\boxed{", "\\boxed{\\boxed{1}", "\\boxed 5 ", "the answer is ", "answer is $", "Answer: ", "answer: a ",
    "<think>", "</think>", "<|channel|>", "{", "}", "\\", "#### ", "答案", "选", "option a is ", "(A) is ",
    "1,", "*", "answer ", "\\boxed{}", "\\boxed}", "\\boxed{ ", "\n", "İ answer is ", "\\boxed{1} and ",
    "the answer is a b c d e ", " ", "$", "\\frac", "answer:**", "1 feet ",
]  # fmt: skip
LONG = 400_000
TEXTS = [
    *(piece * (LONG // len(piece)) for piece in REPEATED),
    "answer" + " " * LONG + "x",
    "answer:" + " " * LONG + "5",
    "answer" + "\t" * LONG + ":" + " " * LONG,
    "the answer is" + " " * LONG + "5",
    "\\boxed" + " " * LONG + "5",
    "\\boxed{" + " " * LONG + "}",
    "\\boxed{" * (LONG // 7) + "5" + "}" * (LONG // 7),
    "{" * LONG + "}" * LONG,
    "<|channel|>" + " " * LONG + "final 5",
    "answer: " + "$" * LONG,
    "answer: " + "*" * LONG,
    "answer: " + "7" * LONG,
    "answer: $" + "\\" * LONG,
]


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
@pytest.mark.parametrize("kind", ["math", "choice"])
def test_issue_14_1_time_is_linear(text: str, kind: str) -> None:
    """Quadratic time would take many minutes here; what linear time takes is the benchmark's business."""
    began = time.thread_time()
    answers.extract(text, kind, fallback="last-number")
    assert time.thread_time() - began < 20


@pytest.mark.parametrize(
    ("text", "thinking", "reply"),
    [
        ("5", None, "5"),
        ("<think>\nwell\n</think>\n\n5", "well", "5"),
        ("well\n</think>\n\n5", "well", "5"),  # the chat template opened it
        ("<think>well", "well", None),
        ("a</think>b</think>c", "a</think>b", "c"),
        ("<think>a</think>b<think>c", "c", None),
        ("<|channel|>analysis<|message|>hm<|end|><|channel|>final<|message|>5", None, "5"),
        ("<|channel|>analysis<|message|>hm", None, None),
    ],
)
def test_thinking_is_split_from_the_reply(text: str, thinking: str | None, reply: str | None) -> None:
    found = answers.split_thinking(text)
    assert found[1] == reply
    if thinking is not None:
        assert found[0] == thinking


def test_reading_a_value_is_linear_too() -> None:
    for text in ("1_" + " " * 1990 + "5", "1" + " " * 1990 + "/ 5", "\\frac{1}{" + " " * 1900 + "2}", "1, " * 660):
        began = time.thread_time()
        answers.canonical_key(text)
        assert time.thread_time() - began < 2
