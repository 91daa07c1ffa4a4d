"""Boxed answers: the last balanced \\boxed{...} or \\fbox{...}, and the boxes that are one answer with it."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import NamedTuple

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
_LONGEST = 10_000
_MAX_JOINED = 20
_REACH = 60  # characters between two boxes that are one answer
_SPACING = re.compile(r"\\(?:text|mbox|textbf|mathrm)\{([^{}]{0,20})\}|\\q?quad|\\[()\[\],;: ]|[\s$*~]")
# One word after a box may be its unit: "\boxed{1} papers and \boxed{2} bins".
_JOINT = re.compile(
    r"(?:(?!and\b|or\b)[a-z]{2,15}(?: (?=and\b|or\b)|(?=[,;])))?"
    r"(?P<mark>[,;])? ?(?P<word>(?:and|or)\b)? ?(?P<name>[A-Za-z](?:_\{?\w{1,3}\}?)? ?= ?)?"
)
_NAME = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?:_\{?\w{1,3}\}?)?\s{0,3}=\s{0,3}$")


class _Box(NamedTuple):
    """Places in the text: of the command, of the content, and after the closing brace."""

    command: int
    start: int
    end: int
    after: int


def boxed_contents(text: str, *, joined: bool = True) -> tuple[str | None, bool]:
    r"""The content of the last balanced box that is not empty, and whether there is any box at all.

    Boxes right before it that belong to the same list are read with it if `joined`: `\boxed{1}` and `\boxed{2}`.
    """
    boxes, seen = _balanced_boxes(text)
    if not boxes:
        return None, seen
    chain = _last_list(text, boxes) if joined else boxes[-1:]
    if len(chain) == 1:
        return _content(text, chain[0]), seen
    joints = [_joint(text, one, two) for one, two in pairwise(chain)]
    return _joined(text, chain, [joint for joint in joints if joint is not None]), seen


def _balanced_boxes(text: str) -> tuple[list[_Box], bool]:
    """The last boxes that are closed, not empty and not inside another; found in one pass with one stack."""
    first = _FIRST.search(text)
    boxes: list[_Box] = []
    seen = False
    stack: list[tuple[int, int] | None] = []  # None for a plain brace
    for mark in _MARK.finditer(text, first.start()) if first else ():
        token = mark[0]
        if token == "{":
            stack.append(None)
        elif token == "}":
            opened = stack.pop() if stack else None
            if opened is not None and not _BLANK.fullmatch(text, opened[1], mark.start()):
                while boxes and boxes[-1].command > opened[0]:
                    boxes.pop()
                boxes.append(_Box(*opened, mark.start(), mark.end()))
                if len(boxes) > 2 * _MAX_JOINED:
                    del boxes[:_MAX_JOINED]
        elif mark[1]:
            seen = True
            stack.append((mark.start(), mark.end()))
        elif len(token) > 2:
            content = _unbraced(text, mark.end())
            if content:
                boxes.append(_Box(mark.start(), *content, content[1]))
            seen = seen or content is not None or bool(_BLANK.fullmatch(text, mark.end()))
    return boxes[-_MAX_JOINED:], seen


def _unbraced(text: str, start: int) -> tuple[int, int] | None:
    r"""What \boxed 5 boxes: the word, number or command that follows."""
    after = _UNBRACED.match(text, start)
    if not after:
        return None
    end = after.start(1) + len(after[1].rstrip(".,;:!?)"))
    return (after.start(1), end) if end > after.start(1) else None


def _last_list(text: str, boxes: list[_Box]) -> list[_Box]:
    first = len(boxes) - 1
    while first > 0 and len(boxes) - first < _MAX_JOINED and _joint(text, boxes[first - 1], boxes[first]):
        first -= 1
    return boxes[first:]


def _joint(text: str, one: _Box, two: _Box) -> re.Match[str] | None:
    """What joins two boxes to one list: a comma, "and", "or", or nothing but space on the same line."""
    if two.command - one.after > _REACH:
        return None
    between = text[one.after : two.command]
    joint = _JOINT.fullmatch(" ".join(_SPACING.sub(lambda space: f" {space[1] or ''} ", between).split()))
    if joint and not (joint["mark"] or joint["word"]) and ("\n" in between or joint["name"]):
        return None
    return joint


def _joined(text: str, chain: list[_Box], joints: list[re.Match[str]]) -> str:
    names = ["", *(joint["name"] or "" for joint in joints)]
    if any(names):  # x = 1 and y = 2 is not x = 2 and y = 1
        before = _NAME.search(text[max(0, chain[0].command - 20) : chain[0].command].rstrip("$ "))
        names[0] = before[0] if before else ""
    parts = [name + (_content(text, box) or "") for name, box in zip(names, chain, strict=True)]
    return (" or " if any(joint["word"] == "or" for joint in joints) else ", ").join(parts)


def _content(text: str, box: _Box) -> str | None:
    """A box inside keeps its braces as plain grouping, unless they are around the whole."""
    content = text[box.start : box.end].strip()
    if len(content) > _LONGEST:
        return content  # not an answer that anything could be compared with
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
