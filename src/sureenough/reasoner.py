"""The built-in model: where it is, what it suggests, and what it can be asked."""

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
OTHERS: Final = "for others give --model FILE.gguf, --model hf:OWNER/NAME or --url"


class Card(NamedTuple):
    """What stands beside the weights."""

    sha256: str
    context: int
    window: int
    template: str
    longest: int  # tokens after which a path has lost its way


@cache
def card(beside: Path = FILE) -> Card:
    """Read what the weights suggest."""
    try:
        said: dict[str, Any] = json.loads(beside.with_suffix(".json").read_text())
        sizes = [int(said[name]) for name in ("context", "window", "longest")]
        return Card(str(said["sha256"]), sizes[0], sizes[1], str(said["template"]), sizes[2])
    except (OSError, ValueError, KeyError):
        raise UsageError(
            "the built-in model is not in this installation; install sureenough again, or give --model FILE.gguf"
        ) from None


@cache
def file(weights: Path = FILE) -> Path:
    """The weights, once their checksum is right."""
    expected = card(weights).sha256
    try:
        found = hashlib.sha256(weights.read_bytes()).hexdigest()
    except OSError as error:
        raise UsageError(f"the built-in model cannot be read: {error.strerror or error}; {AGAIN}") from None
    if found != expected:
        raise UsageError(f"the built-in model is damaged: its checksum is {found[:12]}…, not {expected[:12]}…; {AGAIN}")
    return weights


def greeting() -> str:
    """What is said where nobody named a model."""
    return f"Asking the built-in model, which knows school arithmetic only ({OTHERS})."


def hint(question: str) -> str | None:
    """A sentence where a question is outside of what the model has learnt; None where nothing seems strange."""
    strange = [word for word in _words(question) if word not in _world()]
    if not strange:
        return None
    named = ", ".join(repr(word) for word in list(dict.fromkeys(strange))[:4])
    return (
        f"the built-in model has never seen {named}, so its answer means little here; it knows questions such as "
        f"{_example()!r} ({OTHERS})"
    )


def _words(text: str) -> list[str]:
    """Words and signs; numbers all count as one, by their length."""
    found = re.findall(r"[^\W\d_]+|\d+|[^\w\s]|_", text.lower())
    return [f"a number of {len(word)} digits" if word.isdigit() else word for word in found]


@cache
def _world() -> frozenset[str]:
    """Everything that stands in the problems it was made for; their numbers are never the longest it can read."""
    from sureenough.problems import generate

    seen = {word for level in range(1, 6) for one in generate(level, 0, 300) for word in _words(one.question)}
    digits = [int(word.split()[3]) for word in seen if word.startswith("a number of")]
    return frozenset(seen | {f"a number of {n} digits" for n in range(1, max(digits, default=1) + 1)})


def _example() -> str:
    from sureenough.problems import generate

    return generate(1, 0, 1)[0].question
