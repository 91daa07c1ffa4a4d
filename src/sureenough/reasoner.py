"""The built-in model: its file, its settings, and which questions are outside of what it was trained on."""

from __future__ import annotations

import hashlib
import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

from sureenough.data import REASONER
from sureenough.errors import UsageError

NAME: Final = "built-in"
FILE: Final = REASONER
AGAIN: Final = "install sureenough again"


class Card(NamedTuple):
    """The settings in the file beside the weights."""

    sha256: str
    window: int
    template: str
    longest: int  # a path with more tokens will not find an answer any more


@cache
def card(weights: Path = FILE) -> Card:
    """The settings of the model."""
    try:
        table: dict[str, Any] = json.loads(weights.with_suffix(".json").read_text("utf-8"))
        return Card(str(table["sha256"]), int(table["window"]), str(table["template"]), int(table["longest"]))
    except (OSError, ValueError, KeyError):
        raise UsageError(f"the built-in model is missing from this installation; {AGAIN}, or name another") from None


@cache
def file(weights: Path = FILE) -> Path:
    """The file of the weights, after a check of its checksum."""
    expected = card(weights).sha256
    try:
        checksum = hashlib.sha256(weights.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"the built-in model cannot be read: {error.strerror or error}; {AGAIN}") from None
    if checksum != expected:
        raise UsageError(
            f"the built-in model is damaged: its checksum is {checksum[:12]}…, not {expected[:12]}…; {AGAIN}"
        )
    return weights


LIMITS: Final = "answered by the built-in model, which knows school arithmetic only"


def notes(question: str) -> tuple[str, ...]:
    """What a reader of its answer should know."""
    unknown_words = hint(question)
    return (LIMITS,) if unknown_words is None else (LIMITS, unknown_words)


def hint(question: str) -> str | None:
    """A warning if a question has words that the model has never seen; None otherwise."""
    known, example = _training_words()
    unknown = [word for word in _words(question) if word not in known]
    if not unknown:
        return None
    named = ", ".join(repr(word) for word in list(dict.fromkeys(unknown))[:4])
    return (
        f"the built-in model has never seen {named}, so its answer means little here; it knows questions such as "
        f"{example!r}"
    )


def _words(text: str) -> list[str]:
    """Words and signs; a number is represented by its length."""
    words = re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", text.lower())
    return [f"a number of {len(word)} digits" if word.isdigit() else word for word in words]


@cache
def _training_words() -> tuple[frozenset[str], str]:
    """Every word of the problems it was trained on, numbers up to the longest of theirs, and one of the problems."""
    from sureenough.problems import LEVELS, generate

    questions = [problem.question for level in LEVELS for problem in generate(level, n=300)]
    longest = max(map(len, re.findall(r"\d+", " ".join(questions))))
    words = {word for question in questions for word in _words(question)}
    return frozenset(words | {f"a number of {n} digits" for n in range(1, longest + 1)}), questions[0]
