"""Where a reply in words states its answer: in a box, after "Answer:", or on its last line; in linear time."""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Sequence
from unicodedata import normalize

from sureenough.answers.boxed import boxed_contents
from sureenough.answers.extract import reply_of

LONGEST = 4_000  # characters of an answer: normalising a long run of accents would take quadratic time
REASON = 'Please reason step by step, and end with a line "Answer: …" that'
WHERE = 'in a box, after "Answer:" or on the last line'

_ANSWER = re.compile(
    r"(?<![A-Za-z])answer[ \t]{0,3}[*_`]{0,3}[ \t]{0,3}(?:is[ \t]{0,3})?[:：][ \t]{0,3}(?:[*_`]{1,3}(?=[ \t\n]|$))?"
    r"|<answer>|答案(?:是|为)?[:：]|^####(?!#)",
    re.IGNORECASE | re.MULTILINE,
)
_FENCE = re.compile(r"\s*```\w{0,20}\s*")
_COMMAND = re.compile(r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox)\s?\{(.*)\}", re.DOTALL)
_PAIRS = (("**", "**"), ("__", "__"), ("*", "*"), ("`", "`"), ('"', '"'), ("'", "'"), ("“", "”"), ("$", "$"))


def final_statement(text: str) -> str | None:
    """The box, else the line after the last "Answer:", else the last line; None if there is none or it is too long."""
    block = final_block(text)
    statement = next((line.strip() for line in (block or "").splitlines() if line.strip()), "")
    return statement if 0 < len(statement) <= LONGEST else None


def final_block(text: str) -> str | None:
    """As `final_statement`, with all lines of the box or after "Answer:"; without either, the last line or list."""
    reply = reply_of(text)
    if reply is None:
        return None
    content, any_box = boxed_contents(reply)
    if any_box:
        return content
    end = None
    for mark in _ANSWER.finditer(reply):
        end = mark.end()
    if end is not None:
        return "\n".join(line for line in reply[end:].splitlines() if not _FENCE.fullmatch(line)).strip() or None
    return _last_lines([line for line in reply.splitlines() if line.strip() and not _FENCE.fullmatch(line)])


BULLET = re.compile(r"\s{0,12}(?:[-*•]|\(?(?:\d{1,4}|[A-Za-z])[.)])\s{1,8}(?=\S)")


def _last_lines(lines: list[str]) -> str | None:
    first = len(lines)
    while first and BULLET.match(lines[first - 1]):
        first -= 1
    return "\n".join(lines[first:] if len(lines) - first > 1 else lines[-1:]).strip() or None


def trimmed(text: str) -> str:
    """Without emphasis, quotes and LaTeX around the whole, and without its full stop."""
    text = text.strip()
    for _ in range(4):
        before = text
        for opening, closing in _PAIRS:
            inside = text[len(opening) : -len(closing)]
            if text.startswith(opening) and text.endswith(closing) and inside.strip() and opening not in inside:
                text = inside.strip()
        command = _COMMAND.fullmatch(text)
        text = command[1].strip() if command else text
        if text.endswith(".") and not text.endswith(".."):
            text = text[:-1].strip()
        if text == before:
            break
    return text


def normal_form(text: str) -> str:
    """What texts are compared by: Unicode's compatible form, without case, with single spaces."""
    return " ".join(normalize("NFKC", normalize("NFKC", text).casefold()).split()) if len(text) <= LONGEST else text


def number_classes(keys: Iterable[Hashable | None]) -> list[int | None]:
    """Classes numbered by first appearance; None for None."""
    numbers: dict[Hashable, int] = {}
    return [None if key is None else numbers.setdefault(key, len(numbers)) for key in keys]


def key_or_text(key: Callable[[str], Hashable | None], answer: str) -> Hashable:
    """What an answer is compared by; one without a key is the same as its exact copies only."""
    value = key(answer)
    return ("unread", answer) if value is None else ("read", value)


class KeyedKind:
    """A kind of answers that are the same if their keys are; by default without case and extra space."""

    __slots__ = ()

    def key(self, answer: str) -> Hashable | None:
        return normal_form(answer)

    def classes(self, answers: Sequence[str | None]) -> list[int | None]:
        return number_classes(None if answer is None else key_or_text(self.key, answer) for answer in answers)

    def grade(self, gold: str, answer: str) -> bool:
        return key_or_text(self.key, gold) == key_or_text(self.key, answer)
