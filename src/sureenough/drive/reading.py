"""How a live run reads a path's text: what its answer is, and which answers mean the same.

Both are plain callables, so that a caller can bring others; symbolic comparison may be slow, and runs off the loop.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Final

from sureenough.answers import grouped
from sureenough.errors import UsageError

Extract = Callable[[str], str | None]
"""The answer in a path's text, where there is one."""

Group = Callable[[Iterable[str]], Mapping[str, Hashable]]
"""The class of each answer."""

_BOX: Final = re.compile(r"\\(?:boxed|fbox)\s*\{")
_LETTER: Final = re.compile(r"\\boxed\s*\{\s*\(?([A-D])\)?\s*\}|answer\W{0,6}([A-D])\b", re.IGNORECASE)


def boxed(text: str) -> str | None:
    """What stands in the last box that is closed, after the thinking."""
    reply = text.rpartition("</think>")[2]
    for box in reversed(list(_BOX.finditer(reply))):
        depth = 1
        for at in range(box.end(), len(reply)):
            if reply[at - 1] != "\\":
                depth += {"{": 1, "}": -1}.get(reply[at], 0)
            if depth == 0:
                return reply[box.end() : at].strip() or None
    return None


def choice(text: str) -> str | None:
    """The last letter that is boxed or announced, after the thinking."""
    found = list(_LETTER.finditer(text.rpartition("</think>")[2]))
    return (found[-1][1] or found[-1][2]).upper() if found else None


KINDS: Final[dict[str, Extract]] = {"math": boxed, "choice": choice}
"""Answer kinds by name."""


def reader(kind: str) -> Extract:
    """How answers of this kind are found."""
    if kind not in KINDS:
        raise UsageError(f"unknown kind of answer {kind!r}; known: {', '.join(KINDS)}")
    return KINDS[kind]


group: Final[Group] = grouped
