"""What a reply commits to: its text after the thinking, and the mathematical answer in it; in time linear in the text.

An explicit form is required: a box or, if there is none, an announcement. Nothing is picked out of prose unless the
caller asks for it.
"""

from __future__ import annotations

import re

from sureenough.answers.announcements import announced_answer, last_number
from sureenough.answers.boxed import boxed_contents
from sureenough.answers.tokens import CHAT_MARKER

_THOUGHT = re.compile(r"</think>|<\|channel\|>\s{0,8}final\b(?:<\|message\|>)?")
_THINKING = re.compile(r"<think>|<\|channel\|>")


def mathematical_answer(text: str, *, last_number_too: bool = False) -> str | None:
    """The last balanced box, else an announced answer, else the last number if the caller asks for it."""
    reply = reply_of(text)
    if reply is None:
        return None
    content, any_box = boxed_contents(reply)
    if any_box:
        return content
    answer = announced_answer(reply)
    return last_number(reply) if answer is None and last_number_too else answer


def reply_of(text: str) -> str | None:
    """A model's text without its thinking and without chat markers; None if the thinking was never closed."""
    reply = split_thinking(text)[1]
    return None if reply is None else CHAT_MARKER.sub(" ", reply)


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
