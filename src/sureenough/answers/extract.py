"""`extract(text)`: the answer that a reply commits to, or None; in time linear in the text.

Only what follows the thinking counts, and an explicit form is required: a box or, if there is none, an announcement.
Nothing is picked out of prose unless the caller asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sureenough.answers.announcements import announced_answer, last_number
from sureenough.answers.boxed import boxed_contents
from sureenough.answers.choice import choose
from sureenough.answers.tokens import CHAT_MARKER
from sureenough.errors import UsageError

KINDS = ("math", "choice")
FALLBACKS = (None, "last-number")

_THOUGHT = re.compile(r"</think>|<\|channel\|>\s{0,8}final\b(?:<\|message\|>)?")
_THINKING = re.compile(r"<think>|<\|channel\|>")


def extract(
    text: str, kind: str = "math", *, choices: Iterable[str] = "ABCD", fallback: str | None = None
) -> str | None:
    """The answer in a model's reply; None if it has none.

    kind "math": the last balanced box, else an announced answer. kind "choice": one of `choices`, a text or list of
    letters. fallback "last-number": if a mathematical reply announces nothing, its last number.
    """
    letters = _letters(choices)
    _check(kind, fallback)
    reply = split_thinking(text)[1]
    if reply is None:
        return None
    reply = CHAT_MARKER.sub(" ", reply)
    if kind == "choice":
        return choose(reply, letters)
    content, any_box = boxed_contents(reply)
    if any_box:
        return content
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


def split_thinking(text: str) -> tuple[str | None, str | None]:
    """A model's thinking and its reply. No thinking is None, and so is the reply if the thinking was never closed.

    A chat template may have opened the thinking, so that the text has no opening tag: all text before the last closing
    one is thinking.
    """
    start = end = 0
    for closing in _THOUGHT.finditer(text):
        start, end = closing.span()
    opening = _THINKING.search(text, end)
    if opening:
        return text[opening.end() :].strip("\n"), None
    if not end:
        return None, text
    return text[:start].strip().removeprefix("<think>").strip("\n"), text[end:].lstrip("\n")
