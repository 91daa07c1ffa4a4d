"""Announced answers: `#### 18`, `Answer: 42`, `the final answer is $x$`; the last one that holds a value."""

from __future__ import annotations

import re

LOOKED_AT = 200  # announcements tried, from the end
LONGEST = 300  # characters of one announced answer

_LONGEST_FORMULA = 120
_WORDS_OF_UNIT = 3
_HASH = re.compile(r"####(?!#)")
# Every repeat is bounded: two unbounded ones side by side would take quadratic time on a run of spaces.
_LABEL = re.compile(r"answer[ \t]{0,3}\}?[*_]{0,3}[ \t]{0,3}[:：][ \t]{0,3}\}?[*_]{0,3}", re.IGNORECASE)
_IS = re.compile(r"answer[ \t]{1,3}(?:is|are)\b[ \t]{0,3}[:：]?", re.IGNORECASE)
_CHINESE = re.compile(r"答案(?:是|为|：|:)[:：]?")
# \\$ is money and ends no formula; a dollar before a digit opens one, or is money too, and closes none.
_SPANS = re.compile(
    r"\s*[*_]{0,3}(?:\$\$(?P<a>(?:[^$\\]|\\.){1,300})\$\$|\$(?P<b>(?:[^$\\\n]|\\.){1,300})\$(?!\d)"
    r"|\\\((?P<c>(?:[^\\]|\\(?!\))){1,300})\\\)|\\\[(?P<d>(?:[^\\]|\\(?!\])){1,300})\\\])"
)
_ANOTHER = re.compile(r"[*_]{0,3}[ \t]*(?:(?P<mark>[,;])[ \t]*)?(?:(?P<word>and|or)\b[ \t]*)?(?=[*_]{0,3}[$\\\d−-])")
_BARE = re.compile(r"[-−]?\d[\d,]*(?:\.\d+)?(?:/\d+)?(?![\w$^])")
# "$5$, and $x = 2$ is the only root": that part belongs to the next clause.
_CLAUSE = re.compile(r"[ \t]*(?:is|are|was|were|has|have|must|will|can|gives?|holds?|works?|satisf\w+|by|we)\b")
_BRACES = re.compile(r"\\.|[{}]", re.DOTALL)
_BOLD = re.compile(r"[*_]{2,3}([^*\n]{1,200})[*_]{2,3}")
_QUANTITY = re.compile(r"[-+−]?(?:\\?[$€£¥])?[-+−]?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:\s*/\s*\d+|\s*\\?%)?(?![\w^])")
_PROSE = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_STOP = re.compile(r"(?<!\.)\.(?=\s|$)|\n|[。；;]")
_NUMBER = re.compile(r"(?<![\w.])[-−]?(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+|/\d+)?")
# Where an explanation begins that does not change the value: "7 because 3 + 4 is 7".
_EXPLANATION = re.compile(r"\b(?:because|since|as|which|where|so|given|with|while|though|although|due|using)\b")
# What makes another value of the number before it: "3 or 4 days", "100 if x is even", "5 out of 36".
_QUALIFIED = re.compile(
    r"\d|\b(?:or|and|to|if|unless|otherwise|except|out of|more|less|fewer|half|one|two|three|four|five|six|seven|eight"
    r"|nine|ten|dozen|times|plus|minus)\b",
    re.IGNORECASE,
)
_COMPOUND = re.compile(
    r"\d[\d,]{0,20}(?:\.\d{1,20})?\s{1,3}(?!(?:to|or|and|of|out|times|plus|minus|if)\b)[A-Za-z]{1,20}"
    r"(?:(?:,?\s{1,3}and|,)?\s{1,3}\d[\d,]{0,20}(?:\.\d{1,20})?\s{1,3}[A-Za-z]{1,20}){1,3}"
)
# Right after a value: another quantity, or words that qualify it.
_CONTINUED = re.compile(
    r"\s{0,3}(?:[A-Za-z]{1,15}\s{1,3}){0,2}?(?:(?:if|unless|otherwise|or|to|out of)\b|(?:,\s{0,3}|and\s{1,3})?\d)"
)
_MARKUP = re.compile(r"[$*_]|\\[()]")
_NOT_WHOLE = ""  # an announcement whose value cannot be read whole: the reply has no answer
_STATEMENT = re.compile(r"(?:[A-Za-z][a-z]+)\b.{0,200}\b(?:is|are|was|were|equals|be)\s(.*)")
_HOPE = re.compile(r"\s{0,3}I hope (?:it|this) is (?:correct|right)\b.{0,300}", re.IGNORECASE)  # models add it by habit
_MATHEMATICAL = frozenset("sin cos tan cot sec csc log ln sqrt pi frac exp and or infty".split())


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
    before = text[max(0, start - 8) : start]
    if before[-1:].isalpha() and text[start].isascii():
        return None
    if text[start] == "#":
        mark = _HASH.match(text, start)
        return _line(_after(text, mark)) if mark and not before.endswith("#") else None
    mark = _LABEL.match(text, start)
    if mark:
        return _line(_after(text, mark))
    mark = _IS.match(text, start) or _CHINESE.match(text, start)
    return _sentence(_after(text, mark)) if mark else None


def _after(text: str, mark: re.Match[str]) -> str:
    """What follows a mark, up to the end of the \\textbf{...} that the mark may stand in."""
    rest = text[mark.end() : mark.end() + 2 * LONGEST]
    depth = 0
    for brace in _BRACES.finditer(rest):
        depth += {"{": 1, "}": -1}.get(brace[0], 0)
        if depth < 0:
            return rest[: brace.start()]
    return rest


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
    statement = _STATEMENT.fullmatch(first)  # Answer: The largest n is 34.
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
    stop = _STOP.search(rest)
    rest = rest[: stop.start()] if stop else rest
    prose = [word for word in _PROSE.findall(rest) if word.casefold() not in _MATHEMATICAL]
    if not prose and len(rest) <= _LONGEST_FORMULA and re.search(r"[\d\\=]", rest):
        return _clean(rest)
    quantity = _QUANTITY.match(rest)
    if not quantity or re.match(r"\s*[-+*/^=\\(]", rest[quantity.end() :]):
        return None
    explanation = _EXPLANATION.search(rest, quantity.end())
    value = rest[: explanation.start()] if explanation else rest
    unit = value[quantity.end() :]
    if _QUALIFIED.search(unit):
        return _clean(value) if _COMPOUND.fullmatch(value.strip(" \t,")) else _NOT_WHOLE
    only_unit = len(unit.split()) <= _WORDS_OF_UNIT and not _PROSE.sub("", unit).strip()
    return _clean(value if only_unit else quantity[0])


def _span(rest: str) -> str | None:
    match = _SPANS.match(rest)
    if not match:
        return None
    inside = match[match.lastgroup or 0].strip()
    # "$5 and $7": those dollars are money, not mathematics.
    if match["b"] is not None and re.fullmatch(r"\d[\d,.]*\s.*", inside) and _PROSE.search(inside):
        return None
    others, end = _others(rest, match.end())
    return _whole(inside + others or None, rest, end)


def _whole(value: str | None, rest: str, end: int) -> str | None:
    """A value that ends at `end`, unless what follows makes it another: $5$ feet $6$ inches, $100$ if x is even."""
    stop = _STOP.search(rest, end)
    sentence = rest[: stop.start()] if stop else rest
    if value is None or not _CONTINUED.match(_MARKUP.sub("", sentence[end:])):
        return value
    compound = _MARKUP.sub("", sentence).strip()
    return compound if _COMPOUND.fullmatch(compound) else _NOT_WHOLE


def _others(rest: str, at: int) -> tuple[str, int]:
    """The parts that follow the first one in `$1$, $2$ and $3$`, each with its joint, and where they end."""
    joined = ""
    while (joint := _ANOTHER.match(rest, at)) and (joint["mark"] or joint["word"]):
        match = _SPANS.match(rest, joint.end()) or _BARE.match(rest, joint.end())
        if not match or _CLAUSE.match(rest, match.end()):
            break
        part = match[match.lastgroup or 0]  # without its dollars, if it has any
        joined += f"{joint['mark'] or ''} {joint['word'] or ''}".rstrip() + " " + part.strip()
        at = match.end()
    return joined, at


def _clean(text: str) -> str | None:
    text = text.strip().strip("*_`").strip()
    text = re.sub(r"^\$(.*)\$$", r"\1", text)
    dots = "..." if text.endswith("...") else ""  # 0.333... is not 0.333
    return (text.rstrip(".,;:").strip() + dots) or None


def last_number(text: str) -> str | None:
    """The last number in the text, as written; it is looked for near the last digit only."""
    last = max(text.rfind(digit) for digit in "0123456789")
    near = _NUMBER.findall(text[max(0, last - LONGEST) : last + 1])
    return near[-1].replace("−", "-") if near else None
