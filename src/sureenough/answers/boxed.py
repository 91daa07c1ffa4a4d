"""Boxed answers: the last balanced \\boxed{...} or \\fbox{...}, found in one pass with one stack."""

from __future__ import annotations

import re

_MARK = re.compile(r"\\{1,2}(?:boxed|fbox)(?![A-Za-z])(\s*\{)?|\\.|[{}]", re.DOTALL)
_FIRST = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_GROUP = r"\{(?:[^{}]|\{[^{}]{0,100}\}){0,200}\}"
_UNBRACED = re.compile(
    rf"\s*(-?\\(?:[dtc]?frac(?:\s*(?:{_GROUP}|\d)){{2}}|sqrt(?:\[[^\[\]]{{0,20}}\])?\s*(?:{_GROUP}|\d|[A-Za-z]))"
    r"|-?\\(?![dtc]?frac|sqrt)[A-Za-z]+(?:\s*\{[^{}]{0,200}\}){0,2}|[^\s${}\\]{0,100}\d[^\s${}\\]{0,100}|[A-Za-z](?![A-Za-z]))"
)
_INNER = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_BLANK = re.compile(r"\s*")
_MAX_NESTED = 8
_BOX, _BRACE = True, False


def boxed_contents(text: str) -> tuple[str | None, bool]:
    """The content of the last balanced box that is not empty; and whether there is any box at all."""
    first = _FIRST.search(text)
    if not first:
        return None, False
    found: tuple[int, int] | None = None
    seen = False
    stack: list[tuple[bool, int]] = []
    for mark in _MARK.finditer(text, first.start()):
        token = mark[0]
        if token == "{":
            stack.append((_BRACE, 0))
        elif token == "}":
            if stack:
                boxed, start = stack.pop()
                if boxed and not _BLANK.fullmatch(text, start, mark.start()):
                    found = start, mark.start()  # not cut out yet: nested boxes would make that quadratic
        elif mark[1]:
            seen = True
            stack.append((_BOX, mark.end()))
        elif len(token) > 2:
            content = _unbraced(text, mark.end())
            found = content or found
            seen = seen or content is not None or bool(_BLANK.fullmatch(text, mark.end()))
    return (_opened(text[found[0] : found[1]].strip()) if found else None), seen


def _unbraced(text: str, start: int) -> tuple[int, int] | None:
    """What \\boxed 5 boxes: the word, number or command that follows."""
    after = _UNBRACED.match(text, start)
    if not after:
        return None
    end = after.start(1) + len(after[1].rstrip(".,;:!?)"))
    return (after.start(1), end) if end > after.start(1) else None


def _opened(content: str) -> str | None:
    """A box in a box keeps its braces, as plain grouping; they go where they are around the whole."""
    inner = _INNER.sub("", content)
    for _ in range(_MAX_NESTED):
        if inner == content or not (inner.startswith("{") and _closing(inner) == len(inner) - 1):
            break
        inner = inner[1:-1].strip()
    return inner or None


def _closing(text: str) -> int:
    """Where the brace that opens a text is closed."""
    depth = 0
    for mark in _MARK.finditer(text):
        depth += {"{": 1, "}": -1}.get(mark[0], 0)
        if depth == 0 and mark[0] == "}":
            return mark.start()
    return -1
