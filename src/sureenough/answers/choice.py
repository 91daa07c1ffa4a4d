"""Multiple choice: a boxed letter; else the last announcement; else a reply that is, or opens with, a letter.

A letter that was not offered is not an answer, nor is an article: "A careful analysis" answers nothing.
"""

from __future__ import annotations

import re

from sureenough.answers.reading import boxed_contents, last_places

LOOKED_AT = 200
REACH = 80  # characters after "the answer is" in which the letter must come
SEVERAL = ""  # the letter of an announcement that names several: not one of those offered
_WORDS = ("answer", "option", "choice", "答案", "选", "correct", "right", "best")
_MARKUP = re.compile(
    r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|rm|boldsymbol|operatorname)\b|[{}$*_`\s\"'~]|\\[,;:! ]"
)
_BOXED_WORD = re.compile(r"(?i)^(?:option|choice|answer)(?::|(?=[A-Z(]))")
_BOXED_LETTER = re.compile(r"(?s)\(?([A-Za-z])\)?\.?|\(([A-Za-z])\).*|([A-Za-z])[).:].*")
_LABEL = re.compile(
    r"(?i)(?:answer|choice|option)(?:[\"'*_`]{0,4}\s{0,3}[:：=]\s{0,3}|[*_]{2,3}[ \t]{0,3}\n\s{0,3})"
    r"|(?:答案|选项|选择|选)(?:应该|应)?(?:是|为)?\s{0,2}[:：]?"
)
_IS = re.compile(r"(?i)(?:answer|option|choice)\b[^.:\n]{0,40}?\b(?:is|would be|must be|should be)\b[:：]?")
# The word as a verdict, and not as the start of another remark: "right of it", "best avoided".
_SAYS = (
    r"(?:correct\b(?!-)|true\b(?!-)|right\b(?!-)(?!\s+(?:of|angled?|triangle|next|above|below|before|after|at|on|in|hand|side)\b)"
    r"|best\b(?!-)(?!\s+(?!(?:answer|option|choice|one|match|fit|because|since|as|here|for|among|of)\b)\w))"
)
_VERDICT = re.compile(
    r"(?i)(?:option|choice|answer)\s{0,2}[(\[*_\"']{0,3}([A-Za-z])[)\]*_\"']{0,3}\s{1,3}is\s{1,3}"
    rf"(?:the\s{{1,2}})?{_SAYS}"
)
# C is correct, C is the answer
_SUBJECT = re.compile(r"(?:^|[^\w'])[(*]{0,3}([A-Z])[)*]{0,3}\s{1,3}is\s{1,3}(?:the\s{1,2})?$")
_SAID_OF_A_SUBJECT = re.compile(rf"(?i){_SAYS}|(?:answer|option|choice)\b(?!-)")
# The clause of a verdict, and the words in it that deny the verdict or leave it open.
_CLAUSE = re.compile(r"(?i)[.;:!?,\n]|\b(?:but|so|therefore|hence|thus|because|since|then)\b")
_DENIED = re.compile(
    r"(?i)\b(?:not|never|neither|nor|none|cannot|doubt|unlikely|false|wrong|incorrect|if|whether|unless|suppose"
    r"|assum\w+)\b|n['’]t\b"
)
_UNSURE = re.compile(
    r"(?i)(?:\bnot|\bnever|n['’]t)\s+(?:(?:really|at all)\s+)?"
    r"(?:think|believe|say|true|sure|certain|clear|the case|mean)\b|\b(?:whether|doubt)\b"
)
_OR_BEFORE = re.compile(
    r"(?:\b[A-Z][)\]*_\"']{0,3},?\s+(?:or|and|nor)\s+|\b[A-Z]\s*[/&+]\s*)(?i:(?:option|choice)\s+)?[(*]{0,3}$"
)
_OR_AFTER = re.compile(
    r"(?i)(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s*[/&+]\s*)(?:option\s+|choice\s+)?"
    r"[(\[*_\"'`{]*(?-i:[A-Z])[)\]*_\"'`}]*(?=\s*(?:[.,;:!?/&+\n]|$|and\b|or\b))"
)
_LETTER = re.compile(
    r"(?<![A-Za-z0-9\\])(?P<open>[(\[*_\"'`{（【]*)(?P<letter>[A-Za-z])(?P<close>[)\]*_\"'`}）】]*)(?![A-Za-z0-9'’])"
)
_TEXT_COMMAND = re.compile(r"\\(?:text|textbf|mathrm|mathbf|mbox|boxed)\s*(?=\{)|[$]|\\[()\[\]]")
# After "A", most words make it an article, as in "A careful analysis", but not "A because".
_CARRIES_ON = re.compile(r"\s+(?!(?:because|since|as|and|which|with|due|given|for|is|based|so|but)\b)[a-z]")
_FORMULA = re.compile(r"\s*[=^+<>]|_\S")
_NOT = re.compile(r"(?i)\b(?:not|n't|never|neither|nor)\s+(?:option\s+|choice\s+)?[(\[*_\"'`{]*$")
_NOTHING = re.compile(r"(?i)\W*(?:(?:option|choice|选项|letter)\b)?\W*")
_LINE_END = re.compile(r"^[*_ \t]*\n\s*")
_SENTENCE = re.compile(r"[.!?](?=\s|$)|\n")
_OPENING = re.compile(
    r"(?i)\s*(?:(?:option|choice|answer)\s+)?(?:[(\[]\s*(?P<a>[A-Za-z])\s*[)\]]"
    r"|\*\*\s*\(?(?P<b>[A-Za-z])\)?(?:[.:)]|\s*\*\*)|(?P<c>(?-i:[A-Z]))(?=[).:,]|\s*\n|\s*$)"
    r"|(?P<d>[A-Za-z])\)|[\"'`]?(?P<e>[A-Za-z])[\"'`]?(?=\.?\s*$))"
)


def choose(reply: str, choices: str) -> str | None:
    """The chosen letter, as `choices` spells it."""
    offered = {letter.casefold(): letter for letter in choices}
    content, _ = boxed_contents(reply, joined=False)
    letter = _boxed(content) if content else None
    if letter is not None and letter in offered:
        return offered[letter]
    letter = _announced(reply)
    if letter is None and content is None:
        letter = _opening(reply)
    return offered.get(letter) if letter is not None else None


def _boxed(content: str) -> str | None:
    """The letter in a box, whatever markup is around it and whatever text follows it."""
    bare = _MARKUP.sub("", content[:400])
    bare = _BOXED_WORD.sub("", bare)
    match = _BOXED_LETTER.fullmatch(bare)
    return next(letter for letter in match.groups() if letter).casefold() if match else None


def _announced(reply: str) -> str | None:
    for start in last_places(reply, _WORDS, LOOKED_AT):
        letter = _named(reply, start)
        if letter is not None:
            return letter.casefold()
    return None


def _named(reply: str, start: int) -> str | None:
    """The letter that the announcement at `start` names; None if it names none."""
    near = max(0, start - 20)
    match = _SUBJECT.search(reply[near:start])
    if match and not _LABEL.match(reply, start) and _SAID_OF_A_SUBJECT.match(reply, start):
        # C is correct, C is the answer
        return _unless_denied(match[1], reply, near + match.start(1))
    if reply[start].isascii() and reply[start - 1 : start].isalpha():
        return None
    match = _VERDICT.match(reply, start)
    if match:
        return _unless_denied(match[1], reply, start)
    mark = _LABEL.match(reply, start)
    if mark:
        return _letter(_after(reply, mark), near=True)
    mark = _IS.match(reply, start)
    if not mark or _UNSURE.search(_clause(reply, start)):
        return None
    return _letter(_after(reply, mark), near=False)


def _clause(reply: str, end: int) -> str:
    """What comes before `end` in its clause."""
    return _CLAUSE.split(reply[max(0, end - REACH) : end])[-1]


def _unless_denied(letter: str, reply: str, start: int) -> str | None:
    """The letter of a verdict that begins at `start`; None if it is denied or shared: "A or C is right"."""
    if _OR_BEFORE.search(reply[max(0, start - 20) : start]) or _DENIED.search(_clause(reply, start)):
        return None
    return letter


def _after(reply: str, mark: re.Match[str]) -> str:
    """The rest of the sentence, without LaTeX around its letters."""
    rest = _TEXT_COMMAND.sub("", reply[mark.end() : mark.end() + REACH + 40])[:REACH]
    rest = _LINE_END.sub("", rest).lstrip()
    stop = _SENTENCE.search(rest)
    return rest[: stop.start() + 1] if stop else rest


def _letter(rest: str, *, near: bool) -> str | None:
    """The first letter that stands alone; `near` means that only `option` may come before it."""
    for match in _LETTER.finditer(rest):
        before = rest[: match.start()]
        if near and not _NOTHING.fullmatch(before):
            return None
        denied = _NOT.search(before)
        if not denied and match["letter"].isupper() and _OR_AFTER.match(rest, match.end()):
            return SEVERAL
        if _stands_alone(match, rest) and not denied:
            return match["letter"]
    return None


def _stands_alone(match: re.Match[str], rest: str) -> bool:
    """Whether a letter is a choice: not an article, a pronoun or part of a formula."""
    if _FORMULA.match(rest, match.end()):
        return False
    if match["open"] and match["close"]:
        return True
    goes_on = bool(_CARRIES_ON.match(rest, match.end()))
    if match["letter"].islower():
        return not rest[match.end() :].strip(" \t.,;:!)*\"'`}")
    return not (goes_on and match["letter"] in "AI")


def _opening(reply: str) -> str | None:
    reply = _TEXT_COMMAND.sub("", reply[:400])
    match = _OPENING.match(reply)
    if not match or _OR_AFTER.match(reply, match.end()):
        return None
    return next(letter for letter in match.groups() if letter).casefold()
