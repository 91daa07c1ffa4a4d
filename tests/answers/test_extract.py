"""Extraction: the tables and the refusals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from types import ModuleType
from typing import Any

import pytest

from sureenough import answers
from sureenough.answers import choice, reading
from sureenough.errors import UsageError

from .extractions import CHOICE, LAST_NUMBER, MATH

CASES: list[tuple[str, str, str | None]] = [
    *((text, "math", answer) for text, answer in MATH),
    *((text, "math:fallback=last-number", answer) for text, answer in LAST_NUMBER),
    *((text, "choice:letters=ABCD", answer) for text, answer in CHOICE),
]


@pytest.mark.parametrize(("text", "kind", "answer"), CASES)
def test_what_is_extracted(text: str, kind: str, answer: str | None) -> None:
    assert answers.extract(text, kind) == answer


@pytest.mark.parametrize("choices", [["A", "B"], "AB", iter("AB")])
def test_options_are_those_of_the_kind(choices: Iterable[str]) -> None:
    assert answers.extract("Answer: B", "choice", choices=choices) == "B"
    assert answers.extract("Answer: B", "choice", choices="ab") == "b"
    assert answers.extract("Answer: E", "choice") is None, "A to D are offered by default"
    assert answers.extract("It is 42 then", fallback="last-number") == "42"


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"kind": "maths"}, "math, choice"),
        ({"fallback": "first-number"}, "last-number"),
        ({"kind": "choice", "choices": ""}, "ABCD"),
        ({"kind": "choice", "choices": "AA"}, "ABCD"),
        ({"kind": "choice", "choices": ["A", 5]}, "ABCD"),
        ({"kind": "choice", "choices": None}, "ABCD"),
    ],
)
def test_unknown_options_are_refused_with_the_known_ones(options: dict[str, Any], named: str) -> None:
    with pytest.raises(UsageError, match=named):
        answers.extract("5", **options)


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
    assert any(answers.extract(text, kind) != answer for text, kind, answer in CASES)


@pytest.mark.parametrize("letter", "ABCDEFGHIJ")
def test_the_choices_are_those_offered(letter: str) -> None:
    for text in (f"\\boxed{{{letter}}}", f"Answer: {letter}", f"The answer is ({letter}).", f"{letter}"):
        assert answers.extract(text, "choice:letters=abcdefghij") == letter.lower()
        assert answers.extract(text, "choice:letters=KL") is None


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
