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
    words: frozenset[str]  # and signs, of the problems it was trained on
    longest_number: int  # digits of the longest number in these
    example: str  # one of them


@cache
def card(weights: Path = FILE) -> Card:
    """The settings of the model."""
    try:
        table: dict[str, Any] = json.loads(weights.with_suffix(".json").read_text("utf-8"))
        return Card(
            str(table["sha256"]), int(table["window"]), str(table["template"]), int(table["longest"]),
            frozenset(str(table["words"]).split()), int(table["longest_number"]), str(table["example"]),
        )  # fmt: skip
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


WORDS: Final = re.compile(r"[^\W\d_]+|\d+|[^\w\s]|_")
"""Words, numbers and signs."""
LIMITS: Final = "answered by the built-in model, which knows school arithmetic only"


def notes(question: str) -> tuple[str, ...]:
    """What a reader of its answer should know."""
    unknown_words = hint(question)
    return (LIMITS,) if unknown_words is None else (LIMITS, unknown_words)


def hint(question: str) -> str | None:
    """A warning if a question has words, or longer numbers, that the model has never seen; None otherwise."""
    known = card()
    unknown = [word for word in WORDS.findall(question.lower()) if word not in known.words]
    strange = [
        f"a number of {len(word)} digits" if word.isdigit() else word
        for word in unknown
        if not word.isdigit() or len(word) > known.longest_number
    ]
    if not strange:
        return None
    named = ", ".join(repr(word) for word in list(dict.fromkeys(strange))[:4])
    return (
        f"the built-in model has never seen {named}, so its answer means little here; it knows questions such as "
        f"{known.example!r}"
    )
