"""`extract(text)`: the answer that a reply commits to, or None; in time linear in the text.

Only what follows the thinking counts, and an explicit form is required: a box, or where there is none an
announcement. Nothing is picked out of prose unless the caller asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sureenough.answers.announcements import announced_answer, last_number
from sureenough.answers.boxed import boxed_contents
from sureenough.answers.choice import choose
from sureenough.errors import UsageError

KINDS = ("math", "choice")
FALLBACKS = (None, "last-number")

_THOUGHT = re.compile(r"</think>|<\|channel\|>\s*final\b")
_THINKING = re.compile(r"<think>|<\|channel\|>\s*(?!final\b)")
_ENDING = re.compile(r"<\|(?:return|end|im_end|eot_id|endoftext|message)\|>")


def extract(
    text: str, kind: str = "math", *, choices: Iterable[str] = "ABCD", fallback: str | None = None
) -> str | None:
    """The answer in a model's reply; None where it has none.

    kind "math": the last balanced box, else an announced answer. kind "choice": one of `choices`,
    a text or list of letters.
    fallback "last-number": where a mathematical reply announces nothing, its last number.
    """
    letters = _letters(choices)
    _check(kind, fallback)
    reply = spoken(text)
    if reply is None:
        return None
    if kind == "choice":
        return choose(reply, letters)
    found, any_box = boxed_contents(reply)
    if any_box:
        return found
    answer = announced_answer(reply)
    if answer is None and fallback == "last-number":
        answer = last_number(reply)
    return answer


def _check(kind: str, fallback: str | None) -> None:
    if kind not in KINDS:
        raise UsageError(f"unknown kind {kind!r}; known kinds: {', '.join(KINDS)}")
    if fallback not in FALLBACKS:
        raise UsageError(f"unknown fallback {fallback!r}; known: None, last-number")


def _letters(choices: Iterable[str]) -> str:
    """The offered letters as one text; refused unless they are single letters, all different."""
    given = list(choices) if isinstance(choices, Iterable) else []
    single = all(isinstance(letter, str) and len(letter) == 1 and letter.isalpha() for letter in given)
    if not given or not single or len({letter.casefold() for letter in given}) != len(given):
        raise UsageError(f"choices must be different letters, such as 'ABCD' or ['A', 'B'], not {choices!r}")
    return "".join(given)


def spoken(text: str) -> str | None:
    """The part of a reply after its thinking; None where the thinking was never closed."""
    start = 0
    for end in _THOUGHT.finditer(text):
        start = end.end()
    reply = text[start:]
    if _THINKING.search(reply):
        return None
    return _ENDING.sub(" ", reply)
