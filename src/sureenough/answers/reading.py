"""What a reply commits to: its text after the thinking, and the mathematical answer in it; in time linear in the text.

An explicit form is required: a box or, if there is none, an announcement. Nothing is picked out of prose unless the
caller asks for it.
"""

from __future__ import annotations

import re
from collections import deque
from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

from sureenough.answers.math.tokens import CHAT_MARKER
from sureenough.errors import UsageError

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


# -- boxes: the last balanced one, and those that are one answer with it


_MARK = re.compile(r"\\{1,2}(?:boxed|fbox)(?![A-Za-z])(\s*\{)?|\\.|[{}]", re.DOTALL)
_FIRST = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_GROUP = r"\{(?:[^{}]|\{[^{}]{0,100}\}){0,200}\}"
_UNBRACED = re.compile(
    rf"\s*(-?\\(?:[dtc]?frac(?:\s*(?:{_GROUP}|\d)){{2}}|sqrt(?:\[[^\[\]]{{0,20}}\])?\s*(?:{_GROUP}|\d|[A-Za-z]))"
    r"|-?\\(?![dtc]?frac|sqrt)[A-Za-z]+(?:\s*\{[^{}]{0,200}\}){0,2}|[^\s${}\\]{0,100}\d[^\s${}\\]{0,100}|[A-Za-z](?![A-Za-z]))"
)
_INNER = re.compile(r"\\(?:boxed|fbox)\s*(?=\{)")
_BLANK = re.compile(r"\s*")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
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
    joints = [joint for one, two in pairwise(chain) if (joint := _joint(text, one, two))]
    return _joined(text, chain, joints), seen


def _balanced_boxes(text: str) -> tuple[list[_Box], bool]:
    """The last boxes that are closed, not empty and not inside another; found in one pass with one stack."""
    first = _FIRST.search(text)
    boxes: deque[_Box] = deque(maxlen=_MAX_JOINED)
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
        elif mark[1]:
            seen = True
            stack.append((mark.start(), mark.end()))
        elif len(token) > 2:
            content = _unbraced(text, mark.end())
            if content:
                boxes.append(_Box(mark.start(), *content, content[1]))
            seen = seen or content is not None or bool(_BLANK.fullmatch(text, mark.end()))
    return list(boxes), seen


def _unbraced(text: str, start: int) -> tuple[int, int] | None:
    r"""What \boxed 5 boxes: the word, number or command that follows."""
    after = _UNBRACED.match(text, start)
    if not after:
        return None
    end = after.start(1) + len(after[1].rstrip(".,;:!?)"))
    return (after.start(1), end) if end > after.start(1) else None


def _last_list(text: str, boxes: list[_Box]) -> list[_Box]:
    first = len(boxes) - 1
    while first > 0 and _joint(text, boxes[first - 1], boxes[first]):
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
        if inner == content or not (inner.startswith("{") and _unopened_brace(inner, 1) == len(inner) - 1):
            break
        inner = inner[1:-1].strip()
    return inner or None


def _unopened_brace(text: str, start: int = 0) -> int:
    """The place of the first brace that closes and was not opened after `start`; without one, the end of the text."""
    depth = 0
    for brace in _BRACES.finditer(text, start):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth < 0:
            return brace.start()
    return len(text)


# -- announced answers: `#### 18`, `Answer: 42`, `the final answer is $x$`; the last one that holds a value


LOOKED_AT = 200  # announcements tried, from the end
LONGEST = 300  # characters of one announced answer
_LONGEST_FORMULA = 120
_WORDS_OF_UNIT = 3
_NOT_WHOLE = ""  # an announcement whose value cannot be read whole: the reply has no answer
_MATHEMATICAL = frozenset("sin cos tan cot sec csc log ln sqrt pi frac exp and or infty".split())

# Every repeat is bounded where another follows it: two unbounded ones side by side would take quadratic time.
_HASHES = re.compile(r"(?<!#)####(?!#)")
_LABEL = re.compile(r"(?i)answer[ \t]{0,3}\}?[*_]{0,3}[ \t]{0,3}[:：][ \t]{0,3}\}?[*_]{0,3}")
_IS = re.compile(r"(?i)answer[ \t]{1,3}(?:is|are)\b[ \t]{0,3}[:：]?|答案(?:是|为|：|:)[:：]?")
# \\$ is money and ends no formula; a dollar before a digit opens one, or is money too, and closes none.
_FORMULA = re.compile(
    r"\s*[*_]{0,3}(?:\$\$(?P<a>(?:[^$\\]|\\.){1,300})\$\$|\$(?P<b>(?:[^$\\\n]|\\.){1,300})\$(?!\d)"
    r"|\\\((?P<c>(?:[^\\]|\\(?!\))){1,300})\\\)|\\\[(?P<d>(?:[^\\]|\\(?!\])){1,300})\\\])"
)
_AMOUNT_OF_MONEY = re.compile(r"\d[\d,.]*\s.*")
_JOINED = re.compile(r"[*_]{0,3}[ \t]*(?:(?P<mark>[,;])[ \t]*)?(?:(?P<word>and|or)\b[ \t]*)?(?=[*_]{0,3}[$\\\d−-])")
_BARE_NUMBER = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w$^])")
_NEXT_CLAUSE = re.compile(r"[ \t]*(?:is|are|was|were|has|have|must|will|can|gives?|holds?|works?|satisf\w+|by|we)\b")
_BOLD = re.compile(r"[*_]{2,3}([^*\n]{1,200})[*_]{2,3}")
_QUANTITY = re.compile(r"[-+−]?(?:\\?[$€£¥])?[-+−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s*/\s*\d+|\s*\\?%)?(?![\w^])")
_OPERATOR = re.compile(r"\s*[-+*/^=\\(]")
_VALUE = re.compile(r"[\d\\=]")
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_SENTENCE_END = re.compile(r"(?<!\.)\.(?=\s|$)|\n|[。；;]")
# Where an explanation begins that does not change the value.
_EXPLANATION = re.compile(r"\b(?:because|since|as|which|where|so|given|with|while|though|although|due|using)\b")
# What makes another value of the number before it: "3 or 4 days later".
_QUALIFIED = re.compile(
    r"(?i)\d|\b(?:or|and|to|if|unless|otherwise|except|out of|more|less|fewer|half|one|two|three|four|five|six"
    r"|seven|eight|nine|ten|dozen|times|plus|minus)\b"
)
# 5 feet 6 inches
_COMPOUND = re.compile(
    r"\d[\d,]{0,20}(?:\.\d{1,20})?\s{1,3}(?!(?:to|or|and|of|out|times|plus|minus|if)\b)[A-Za-z]{1,20}"
    r"(?:(?:,?\s{1,3}and|,)?\s{1,3}\d[\d,]{0,20}(?:\.\d{1,20})?\s{1,3}[A-Za-z]{1,20}){1,3}"
)
# Right after a value: another quantity, or words that qualify it, as in "**3** or more".
_CONTINUED = re.compile(
    r"\s{0,3}(?:[A-Za-z]{1,15}\s{1,3}){0,2}?(?:(?:if|unless|otherwise|or|to|out of)\b|(?:,\s{0,3}|and\s{1,3})?\d)"
)
_MARKUP = re.compile(r"[$*_]|\\[()]")
_STATEMENT = re.compile(r"(?:[A-Za-z][a-z]+)\b.{0,200}\b(?:is|are|was|were|equals|be)\s(.*)")
# Models add it by habit.
_HOPE = re.compile(r"(?i)\s{0,3}I hope (?:it|this) is (?:correct|right)\b.{0,300}")
_DOLLARS = re.compile(r"\$(.*)\$")
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+|/\d+)?")


def announced_answer(text: str) -> str | None:
    """The value of the last announcement that has one; None if it cannot be read whole."""
    for start in last_places(text, ("answer", "####", "答案"), LOOKED_AT):
        value = _value(text, start)
        if value is not None:
            return value or None
    return None


def last_places(text: str, words: tuple[str, ...], limit: int) -> list[int]:
    """Where the words stand, in any case, last first; at most `limit` places per word."""
    low = text.lower()
    if len(low) != len(text):  # a few letters grow when lowered; places must stay true
        low = "".join(char.lower() if len(char.lower()) == 1 else char for char in text)
    places: list[int] = []
    for word in words:
        at = len(low)
        for _ in range(limit):
            at = low.rfind(word, 0, at)
            if at < 0:
                break
            places.append(at)
    return sorted(places, reverse=True)


def _value(text: str, start: int) -> str | None:
    if text[start - 1 : start].isalpha() and text[start].isascii():
        return None
    for form, read in ((_HASHES, _line), (_LABEL, _line), (_IS, _sentence)):
        mark = form.match(text, start)
        if mark:
            rest = text[mark.end() : mark.end() + 2 * LONGEST]
            return read(rest[: _unopened_brace(rest)])  # up to the end of the \textbf{...} that the mark may stand in
    return None


def _line(rest: str) -> str | None:
    """After a label the whole line is the answer, or the next line if the label stands alone."""
    span = _span(rest)
    if span is not None:
        return span
    lines = [line.strip() for line in rest.split("\n")[:3]]
    first = lines[0].strip("*_ \t") or next((line for line in lines[1:] if line.strip("*_ \t")), "")
    if len(first) > LONGEST:
        return None
    first = _HOPE.sub("", first)
    statement = _STATEMENT.fullmatch(first)
    return (statement and _sentence(statement[1])) or _clean(first)


def _sentence(rest: str) -> str | None:
    """After `the answer is` only a value counts: mathematics, bold text, a quantity, a short formula."""
    span = _span(rest)
    if span is not None:
        return span
    rest = rest.lstrip(" \t")
    bold = _BOLD.match(rest)
    if bold:
        return _whole(_clean(bold[1]), rest, bold.end())
    rest = _to_sentence_end(rest)
    prose = [word for word in _PROSE.findall(rest) if word.casefold() not in _MATHEMATICAL]
    if not prose and len(rest) <= _LONGEST_FORMULA and _VALUE.search(rest):
        return _clean(rest)
    quantity = _QUANTITY.match(rest)
    if not quantity or _OPERATOR.match(rest, quantity.end()):
        return None
    explanation = _EXPLANATION.search(rest, quantity.end())
    value = rest[: explanation.start()] if explanation else rest
    unit = value[quantity.end() :]
    if _QUALIFIED.search(unit):
        return _clean(value) if _COMPOUND.fullmatch(value.strip(" \t,")) else _NOT_WHOLE
    only_unit = len(unit.split()) <= _WORDS_OF_UNIT and not _PROSE.sub("", unit).strip()
    return _clean(value if only_unit else quantity[0])


def _to_sentence_end(text: str, start: int = 0) -> str:
    stop = _SENTENCE_END.search(text, start)
    return text[: stop.start()] if stop else text


def _span(rest: str) -> str | None:
    match = _FORMULA.match(rest)
    if not match:
        return None
    inside = match[match.lastgroup or 0].strip()
    # "$5 and $7": those dollars are money, not mathematics.
    if match["b"] is not None and _AMOUNT_OF_MONEY.fullmatch(inside) and _PROSE.search(inside):
        return None
    others, end = _others(rest, match.end())
    return _whole(inside + others or None, rest, end)


def _whole(value: str | None, rest: str, end: int) -> str | None:
    """A value that ends at `end`, unless what follows makes it another: $5$ feet $6$ inches, $100$ if x is even."""
    sentence = _to_sentence_end(rest, end)
    if value is None or not _CONTINUED.match(_MARKUP.sub("", sentence[end:])):
        return value
    compound = _MARKUP.sub("", sentence).strip()
    return compound if _COMPOUND.fullmatch(compound) else _NOT_WHOLE


def _others(rest: str, at: int) -> tuple[str, int]:
    """The parts that follow the first one in `$1$, $2$ and $3$`, each with its joint, and where they end."""
    joined = ""
    while (joint := _JOINED.match(rest, at)) and (joint["mark"] or joint["word"]):
        match = _FORMULA.match(rest, joint.end()) or _BARE_NUMBER.match(rest, joint.end())
        if not match or _NEXT_CLAUSE.match(rest, match.end()):
            break
        part = match[match.lastgroup or 0]  # without its dollars, if it has any
        joined += f"{joint['mark'] or ''} {joint['word'] or ''}".rstrip() + " " + part.strip()
        at = match.end()
    return joined, at


def _clean(text: str) -> str | None:
    text = text.strip().strip("*_`").strip()
    dollars = _DOLLARS.fullmatch(text)
    text = dollars[1] if dollars else text
    dots = "..." if text.endswith("...") else ""  # 0.333... is not 0.333
    return (text.rstrip(".,;:").strip() + dots) or None


def last_number(text: str) -> str | None:
    """The last number in the text, as written; it is looked for near the last digit only."""
    last = max(text.rfind(digit) for digit in "0123456789")
    near = _NUMBER.findall(text[max(0, last - LONGEST) : last + 1])
    return near[-1].replace("−", "-") if near else None


# -- regular expressions of others


def encodable(text: str) -> str:
    """The text as RE2 takes it, without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


LONGEST_PATTERN = 1_000
"""Characters of a regular expression."""
PATTERN_MEMORY = 1 << 18
"""Bytes of a compiled expression, which takes a few milliseconds to compile then."""


@lru_cache(maxsize=64)
def compiled(pattern: str) -> Any:
    """A regular expression that matches in linear time, whatever the text."""
    try:
        import re2
    except ImportError:
        raise UsageError(
            "a regular expression that reads a model's text needs RE2, which takes linear time: "
            "pip install 'sureenough[regex]'"
        ) from None
    if len(pattern) > LONGEST_PATTERN:
        raise UsageError(f"a regular expression has {len(pattern):,} characters; at most {LONGEST_PATTERN:,} are read")
    options = re2.Options()
    options.log_errors, options.max_mem = False, PATTERN_MEMORY
    try:
        return re2.compile(encodable(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error
        raise UsageError(f"{pattern[:100]!r} is not a regular expression of RE2: {reason}") from None
