"""Judges of the caller's own that fail, hang or return nonsense cost votes, never a run; and no traceback."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Sequence
from typing import Any

import pytest

import sureenough as se
from sureenough.answers import Judge, resolve_kind
from sureenough.answers.kinds import Json
from sureenough.data import PROBLEMS_POOL
from sureenough.drivers import judging
from sureenough.engines import Fake
from sureenough.errors import UsageError

PATHS = [se.RecordedPath(str(number % 3), [0.5], [9.0]) for number in range(6)]


class Own:
    """A judge that works."""

    def extract(self, text: str) -> Any:
        return text

    def classes(self, answers: Sequence[str]) -> Any:
        return answers

    def grade(self, gold: str, answer: str) -> bool:
        return gold == answer


class Unequal:
    """A class that cannot be compared."""

    def __hash__(self) -> int:
        return 1

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("not comparable")


class Unhashable(str):
    """An answer that no set can hold."""

    __hash__ = None  # type: ignore[assignment]


def own(**methods: Any) -> Any:
    return type("Broken", (Own,), methods)()


def leave(*_: object) -> None:
    sys.exit(3)


def fail(*_: object) -> None:
    raise ValueError("broken")


def engine() -> Fake:
    return Fake(lambda seed: [[se.Token(f"Answer: {seed % 3}", 0.5, 9.0)]])


@pytest.mark.parametrize(
    "classes",
    [
        fail, leave, lambda self, answers: [[1] for _ in answers], lambda self, answers: [1], lambda self, answers: 5,
        lambda self, answers: [Unequal() for _ in answers],
    ],
)  # fmt: skip
def test_answers_that_cannot_be_compared_count_as_different(classes: Any) -> None:
    out = se.ask("?", engine(), "sc", paths=12, kind=own(classes=classes))
    assert len(out.votes) == 3
    assert "answers could not be compared, and count as different" in out.notes[-1]
    assert len(se.replay(PATHS, "sc", kind=own(classes=classes)).votes) == 3
    with pytest.raises(UsageError, match="the judge failed on question"):
        se.compare(PROBLEMS_POOL, ["sc"], paths=2, repeats=1, kind=own(classes=classes))


@pytest.mark.parametrize("extract", [fail, leave, lambda self, text: 5, lambda self, text: self.extract(text)])
def test_a_path_whose_answer_cannot_be_extracted_abstains(extract: Any) -> None:
    out = se.ask("?", engine(), "sc", paths=3, kind=own(extract=extract))
    assert (out.answer, out.abstained) == (None, 3)
    assert any("abstains" in note for note in out.notes)


def test_an_answer_of_a_class_derived_from_str_is_a_plain_text() -> None:
    out = se.ask("?", engine(), "sc", paths=3, kind=own(extract=lambda self, text: Unhashable(text)))
    assert type(out.answer) is str


def test_what_a_judge_says_about_itself_may_fail() -> None:
    broken = own(looks_for=property(fail), ask=property(fail), extract=lambda self, text: None)
    assert "an answer that the judge can read" in se.ask("?", engine(), "sc", paths=3, kind=broken).notes[-1]


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (own(for_question=fail), "the judge failed on a question: ValueError: broken"),
        (own(for_question=lambda *_: None), "not None"),
        (own(ask=5), "the judge's ask is int"),
        (type("Made", (Own,), {"__init__": fail}), "Made cannot be made without arguments: ValueError"),
        ("regex:", "names no pattern"),
        ("regex", "names no pattern"),
    ],
)
def test_a_judge_that_cannot_begin_is_refused(kind: Any, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        se.ask("?", engine(), "sc", paths=3, kind=kind)


def test_a_class_with_extract_and_classes_is_a_judge() -> None:
    bare = type("Bare", (), {"extract": Own.extract, "classes": Own.classes})
    judge = resolve_kind(bare)
    assert judge.classes(["a", "b"]) == ["a", "b"]
    assert judge.grade("a", "a")


@pytest.mark.parametrize("method", ["extract", "classes"])
def test_a_judge_that_hangs_does_not_outlast_the_deadline(method: str) -> None:
    def hang(*_: object) -> None:
        time.sleep(60)

    began = time.monotonic()
    out = se.ask("?", engine(), "sc", paths=3, deadline=0.5, kind=own(**{method: hang}))
    assert (out.answer, out.reason) == (None, "deadline")
    assert time.monotonic() - began < 30


@pytest.mark.parametrize(
    ("judge", "text", "inline"),
    [
        (resolve_kind("math"), "1", True), (resolve_kind("math"), "1" * 5_000, False),
        (Json(), "1", True), (Json(schema={}), "1", False), (resolve_kind(r"regex:\d+"), "1", False),
    ],
)  # fmt: skip
def test_what_may_take_long_leaves_the_event_loop(
    judge: Judge, text: str, inline: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    threads: list[threading.Thread] = []
    monkeypatch.setattr(type(judge), "extract", lambda *_: threads.append(threading.current_thread()))
    asyncio.run(judging.extract_in_run(judge, text))
    assert (threads[0] is threading.main_thread()) == inline
