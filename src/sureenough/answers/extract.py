"""`extract(text)`: the answer that a reply commits to, or None; in time linear in the text.

Only what follows the thinking counts, and an explicit form is required: a box, or where there is none an
announcement. Nothing is picked out of prose unless the caller asks for it.
"""

from __future__ import annotations

import re

from ..errors import UsageError
from .announced import announced, last_number
from .boxes import boxes
from .choice import choose

KINDS = ("math", "choice")
FALLBACKS = (None, "last-number")

_THOUGHT = re.compile(r"</think>|<\|channel\|>\s*final\b")
_THINKING = re.compile(r"<think>|<\|channel\|>\s*(?!final\b)")
_ENDING = re.compile(r"<\|(?:return|end|im_end|eot_id|endoftext|message)\|>")


def extract(text: str, kind: str = "math", *, choices: str = "ABCD", fallback: str | None = None) -> str | None:
    """The answer in a model's reply; None where it has none.

    kind "math": the last balanced box, else an announced answer. kind "choice": one of `choices`.
    fallback "last-number": where a mathematical reply announces nothing, its last number.
    """
    _check(kind, choices, fallback)
    reply = spoken(text)
    if reply is None:
        return None
    if kind == "choice":
        return choose(reply, choices)
    found, any_box = boxes(reply)
    if any_box:
        return found
    answer = announced(reply)
    if answer is None and fallback == "last-number":
        answer = last_number(reply)
    return answer


def _check(kind: str, choices: str, fallback: str | None) -> None:
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; known kinds: {', '.join(KINDS)}")
    if fallback not in FALLBACKS:
        raise UsageError(f"unknown fallback {fallback!r}; known: None, last-number")
    if not choices or not choices.isalpha() or len(set(choices.casefold())) != len(choices):
        raise UsageError(f"choices must be different letters, such as 'ABCD' or 'ABCDE', not {choices!r}")


def spoken(text: str) -> str | None:
    """The part of a reply after its thinking; None where the thinking was never closed."""
    start = 0
    for end in _THOUGHT.finditer(text):
        start = end.end()
    reply = text[start:]
    if _THINKING.search(reply):
        return None
    return _ENDING.sub(" ", reply)
