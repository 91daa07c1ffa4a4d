"""An answer becomes a list of tokens in which every way of writing the same thing looks the same.

Spacing, sizing and font commands vanish, synonyms are folded, words come out as one token each with a
leading quote mark, so that nothing later has to look at LaTeX markup again.
"""

from __future__ import annotations

import re

from sureenough.answers import vocabulary
from sureenough.answers.brackets import group_end

WORD = '"'  # the first character of a word token; no other token starts with it

_TOKEN = re.compile(r"\s+|\\[A-Za-z]+\*?|\\.|\d+(?:\.\d+)?|\.\d+|[A-Za-z]+|[\u00c0-\U0010ffff]+|.", re.DOTALL)
CHAT_MARKER = re.compile(r"<\|[a-z_]{1,30}\|>|</s>|<eos>|<end_of_turn>|<｜[^<>｜]{1,40}｜>|\[/INST\]|</answer>")
_RANGE = re.compile(r"(?<=\d) ?– ?(?=\d)")  # 5–7 is from 5 to 7, not a difference
_RAISED = re.compile(f"[{''.join(map(chr, vocabulary.SUPERSCRIPTS))}]+")
_LOWERED = re.compile(f"[{''.join(map(chr, vocabulary.SUBSCRIPTS))}]+")
_COMMAND_ONCE = re.compile(r"(?<!\\)\\[A-Za-z]")
_COMMAND_TWICE = re.compile(r"(?<!\\)\\\\[A-Za-z]{2}")
_EXPLICIT_COMMA = re.compile(r"(?<=\d)\s*(?:,\\!|\{,\}(?:\\!)?|\\!,)\s*(?=\d{3})")
_THOUSANDS = re.compile(r"(?<![\d.,])[1-9]\d{0,2}(?:,\d{3})+(?!\d|,\d)")
_SPACED = re.compile(r"(?<![\d.,^_}])(?<![\^_] )[1-9]\d{0,2}(?:(?:\\[,;: ]|[ ~\u00a0\u2009\u202f])\d{3})+(?!\d|\s*/)")
_AROUND = (("\\(", "\\)"), ("\\[", "\\]"), ("\\displaystyle", ""), ("{", "}"))
_MAX_WRAPPERS = 4
_DIGITS = frozenset("0123456789")
_OPENING = re.compile(r"[(\[]|\\\{|\\lbrace|\\begin|\\langle")
_PROSE = re.compile(r"[A-Za-z][A-Za-z .,;'-]*")
_RUN = re.compile(r"[A-Za-z]{3,}|[Nn]o")
_RUNS = re.compile(r"[A-Za-z]+|[^\sA-Za-z]")
_WORDS = vocabulary.UNITS | vocabulary.SHORT_WORDS
_NOT_PROSE = vocabulary.FUNCTIONS | set(vocabulary.NAMED) | {"and", "or"}
_LONGEST_PRODUCT_OF_LETTERS = 3  # "abc" among other mathematics is a product, "apples" is a word


def unwrapped(text: str) -> str:
    """Without the signs that may stand around a whole answer: dollars, asterisks, brackets of mathematics."""
    if text.rstrip()[-1:] in (">", "]"):
        text = CHAT_MARKER.sub("", text)
    for _ in range(_MAX_WRAPPERS):
        before, text = text, text.strip(" \t\r\n$*`")
        for opening, closing in _AROUND:
            if text.startswith(opening) and text.endswith(closing):
                inside = text[len(opening) : len(text) - len(closing)]
                text = inside if opening not in inside else text
        text = text[:-1] if text.endswith(".") and not text.endswith("...") else text
        if text == before:
            break
    return text


def tokenise(text: str) -> list[str]:
    """The tokens of an answer, without spaces; `$` and `\\$` are gone."""
    if not text.isascii():
        text = _RAISED.sub(lambda run: f"^{{{run[0].translate(vocabulary.SUPERSCRIPTS)}}}", text)
        text = _LOWERED.sub(lambda run: f"_{{{run[0].translate(vocabulary.SUBSCRIPTS)}}}", text)
        text = _RANGE.sub(r"\\text{to}", text).translate(vocabulary.UNICODE)
    if "\\\\" in text and _COMMAND_TWICE.search(text) and not _COMMAND_ONCE.search(text):
        text = text.replace("\\\\", "\\")  # LaTeX that was escaped once more, as in JSON
    if _PROSE.fullmatch(text) and any(run.casefold() not in _NOT_PROSE for run in _RUN.findall(text)):
        return [WORD + run.casefold() if len(run) > 1 else run for run in _RUNS.findall(text)]
    if "=" in text or "..." in text or "\\q" in text:
        for typed, command in vocabulary.TYPED:
            text = text.replace(typed, command)
    raw = _TOKEN.findall(_join_thousands(text))
    if "\\times" in raw and not vocabulary.VECTOR_COMMANDS.isdisjoint(raw):
        # A cross product does not commute: keep it apart from multiplication, unread.
        raw = ["\\cross" if token == "\\times" else token for token in raw]
    return _fold(raw)


def _join_thousands(text: str) -> str:
    """1,000 and 10,\\!080 and 1\\,000 lose their separators, but not inside brackets: (1,200) is a point."""
    if "," not in text and " " not in text and "\\" not in text and "~" not in text:
        return text
    text = _EXPLICIT_COMMA.sub("", text)
    opening = _OPENING.search(text)
    cut = opening.start() if opening else len(text)
    head, tail = text[:cut], text[cut:]
    head = _THOUSANDS.sub(lambda m: m[0].replace(",", ""), head)
    return _SPACED.sub(lambda m: re.sub(r"\D", "", m[0]), head) + tail


def _fold(raw: list[str]) -> list[str]:
    out: list[str] = []
    at, end = 0, len(raw)
    while at < end:
        token = raw[at]
        at += 1
        first = token[0]
        if first == "\\":
            at = _command(token, raw, at, out)
        elif first.isalpha():
            _letters(token, out)
        elif first == "$" or first.isspace() or first == "~":
            continue
        else:
            out.append(token)
    return out


def _command(token: str, raw: list[str], at: int, out: list[str]) -> int:
    if token in vocabulary.IGNORED:
        return at
    if token in vocabulary.ARGUMENT_DROPPED:
        return _braced(raw, at)[1]
    if token in vocabulary.TEXT_COMMANDS:
        inner, after = _braced(raw, at)
        _text(inner, out)
        return after
    if token in vocabulary.NAME_COMMANDS:
        inner, after = _braced(raw, at)
        letters = "".join(inner).strip()
        if len(letters) > 1:
            out.append(f"\\mathbf{{{token[1:]} {letters}}}")
            return after
    if token in vocabulary.FONTS:
        inner, after = _braced(raw, at)
        letters = "".join(inner).strip()
        if letters in ("i", "e"):  # in bold a vector or a name, not the imaginary unit or Euler's number
            out.append(f"\\mathbf{{{letters}}}")
            return after
        if len(letters) == 1:
            out.append(letters)
            return after
        return at
    out.append(vocabulary.SYNONYMS.get(token, token))
    return at


def _braced(raw: list[str], at: int) -> tuple[list[str], int]:
    """The tokens between the braces at `at`, or the single token there; and where they end."""
    while at < len(raw) and raw[at].isspace():
        at += 1
    if at >= len(raw):
        return [], at
    if raw[at] != "{":
        return [raw[at]], at + 1
    end = group_end(raw, at, "{", "}")
    return (raw[at + 1 :], len(raw)) if end is None else (raw[at + 1 : end - 1], end)


def _text(inner: list[str], out: list[str]) -> None:
    """Inside \\text a run of letters is a word, unless all are capitals that may be choices: \\text{(C)}."""
    letters = [token for token in inner if token[0].isalpha()]
    capitals = all(len(token) == 1 and token.isupper() for token in letters)
    for token in inner:
        if token.isspace() or token in "{}$" or token in vocabulary.IGNORED:
            continue
        low = token.casefold()
        if (low in vocabulary.NAMED and (len(low) > 1 or token == low)) or low in vocabulary.FUNCTIONS:
            out.append(vocabulary.NAMED.get(low, "\\" + low))
        elif token[0].isalpha() and not capitals:
            out.append(WORD + low)
        else:
            out.append(vocabulary.SYNONYMS.get(token, token))


def _letters(run: str, out: list[str]) -> None:
    low = run.casefold()
    if len(run) == 1:
        out.append(run)
    elif low in vocabulary.NAMED:
        out.append(vocabulary.NAMED[low])
    elif low in vocabulary.FUNCTIONS and (run == low or run.istitle()):
        out.append("\\" + low)
    elif len(run) > _LONGEST_PRODUCT_OF_LETTERS or low in _WORDS or not run.isascii():
        out.append(WORD + low)
    elif run.isupper() and not vocabulary.ROMAN.issuperset(run):
        out.append(f"\\mathbf{{{run}}}")  # one name, as of a segment: TF is not FT
    else:
        out.extend(run)


def is_word(token: str) -> bool:
    return token[0] == WORD


def is_numeral(token: str) -> bool:
    return token[:1] in _DIGITS or (token[:1] == "." and len(token) > 1)
