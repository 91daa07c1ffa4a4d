"""Multiple choice: a boxed letter; else the last announcement; else a reply that is, or opens with, a letter.

A letter that was not offered is not an answer, nor is an article: "A careful analysis" answers nothing.
"""

from __future__ import annotations

import re

from sureenough.answers.reading import Table, boxed_contents, last_places

LOOKED_AT = 200
REACH = 80  # characters after "the answer is" in which the letter must come
SEVERAL = ""  # the letter of an announcement that names several: not one of those offered
_WORDS = ("answer", "option", "choice", "答案", "选", "correct", "right", "best")
# The word as a verdict, and not as the start of another remark: "right of it", "best avoided".
_SAYS = (
    r"(?:correct\b(?!-)|true\b(?!-)|right\b(?!-)(?!\s+(?:of|angled?|triangle|next|above|below|before|after|at|on|in|hand|side)\b)"
    r"|best\b(?!-)(?!\s+(?!(?:answer|option|choice|one|match|fit|because|since|as|here|for|among|of)\b)\w))"
)

CHOICES: Table = {
    "markup": (
        r"\\(?:text|textbf|textit|textrm|mathrm|mathbf|mbox|bf|rm|boldsymbol|operatorname)\b"
        r"|[{}$*_`\s\"'~]|\\[,;:! ]",
        r"\boxed{\text{(C)}}", "C",
    ),
    "boxed word": (r"(?i)^(?:option|choice|answer)(?::|(?=[A-Z(]))", r"\boxed{\text{Option C}}", "C"),
    "boxed letter": (r"(?s)\(?([A-Za-z])\)?\.?|\(([A-Za-z])\).*|([A-Za-z])[).:].*", r"\boxed{C}", "C"),
    "label": (
        r"(?i)(?:answer|choice|option)(?:[\"'*_`]{0,4}\s{0,3}[:：=]\s{0,3}|[*_]{2,3}[ \t]{0,3}\n\s{0,3})",
        "Answer: C", "C",
    ),
    "is": (
        r"(?i)(?:answer|option|choice)\b[^.:\n]{0,40}?\b(?:is|would be|must be|should be)\b[:：]?",
        "The answer is C", "C",
    ),
    "chinese": (r"(?:答案|选项|选择|选)(?:应该|应)?(?:是|为)?\s{0,2}[:：]?", "故选C。", "C"),
    "verdict": (
        r"(?i)(?:option|choice|answer)\s{0,2}[(\[*_\"']{0,3}([A-Za-z])[)\]*_\"']{0,3}\s{1,3}is\s{1,3}"
        rf"(?:the\s{{1,2}})?{_SAYS}",
        "So option (c) is the correct one.", "C",
    ),
    "subject": (r"(?:^|[^\w'])[(*]{0,3}([A-Z])[)*]{0,3}\s{1,3}is\s{1,3}(?:the\s{1,2})?$", "So C is correct.", "C"),
    "said of a subject": (rf"(?i){_SAYS}|(?:answer|option|choice)\b(?!-)", "B is the answer", "B"),
    # The clause of a verdict, and the words in it that deny the verdict or leave it open.
    "clause": (
        r"(?i)[.;:!?,\n]|\b(?:but|so|therefore|hence|thus|because|since|then)\b",
        "A is not correct, so C is correct", "C",
    ),
    "denied": (
        r"(?i)\b(?:not|never|neither|nor|none|cannot|doubt|unlikely|false|wrong|incorrect|if|whether|unless|suppose"
        r"|assum\w+)\b|n['’]t\b",
        "I don't think C is correct", None,
    ),
    "unsure": (
        r"(?i)(?:\bnot|\bnever|n['’]t)\s+(?:(?:really|at all)\s+)?"
        r"(?:think|believe|say|true|sure|certain|clear|the case|mean)\b|\b(?:whether|doubt)\b",
        "I don't think the answer is C", None,
    ),
    "or before": (
        r"(?:\b[A-Z][)\]*_\"']{0,3},?\s+(?:or|and|nor)\s+|\b[A-Z]\s*[/&+]\s*)(?i:(?:option|choice)\s+)?[(*]{0,3}$",
        "A or C is correct", None,
    ),
    "or after": (
        r"(?i)(?:\s*,\s*(?:and\s+|or\s+)?|\s+(?:and|or)\s+|\s*[/&+]\s*)(?:option\s+|choice\s+)?"
        r"[(\[*_\"'`{]*(?-i:[A-Z])[)\]*_\"'`}]*(?=\s*(?:[.,;:!?/&+\n]|$|and\b|or\b))",
        "Answer: B or C", None,
    ),
    "letter": (
        r"(?<![A-Za-z0-9\\])(?P<open>[(\[*_\"'`{（【]*)(?P<letter>[A-Za-z])(?P<close>[)\]*_\"'`}）】]*)(?![A-Za-z0-9'’])",
        "The answer is (C).", "C",
    ),
    "text command": (r"\\(?:text|textbf|mathrm|mathbf|mbox|boxed)\s*(?=\{)|[$]|\\[()\[\]]", "$C$", "C"),
    # After "A", most words make it an article, as in "A careful analysis", but not "A because".
    "carries on": (
        r"\s+(?!(?:because|since|as|and|which|with|due|given|for|is|based|so|but)\b)[a-z]",
        "Answer: A careful analysis", None,
    ),
    "formula": (r"\s*[=^+<>]|_\S", "The answer is C = 5", None),
    "not": (
        r"(?i)\b(?:not|n't|never|neither|nor)\s+(?:option\s+|choice\s+)?[(\[*_\"'`{]*$",
        "The answer is not A but C.", "C",
    ),
    "nothing": (r"(?i)\W*(?:(?:option|choice|选项|letter)\b)?\W*", "Answer: option C", "C"),
    "line end": (r"^[*_ \t]*\n\s*", "**Answer:**\n(C) 5", "C"),
    "sentence": (r"[.!?](?=\s|$)|\n", "The answer is unclear. (C) is wrong", None),
    "opening": (
        r"(?i)\s*(?:(?:option|choice|answer)\s+)?(?:[(\[]\s*(?P<a>[A-Za-z])\s*[)\]]"
        r"|\*\*\s*\(?(?P<b>[A-Za-z])\)?(?:[.:)]|\s*\*\*)|(?P<c>(?-i:[A-Z]))(?=[).:,]|\s*\n|\s*$)"
        r"|(?P<d>[A-Za-z])\)|[\"'`]?(?P<e>[A-Za-z])[\"'`]?(?=\.?\s*$))",
        "C) a mole", "C",
    ),
}  # fmt: skip
FORMS = {name: re.compile(row[0]) for name, row in CHOICES.items()}


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
    bare = FORMS["markup"].sub("", content[:400])
    bare = FORMS["boxed word"].sub("", bare)
    match = FORMS["boxed letter"].fullmatch(bare)
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
    match = FORMS["subject"].search(reply[near:start])
    if match and not FORMS["label"].match(reply, start) and FORMS["said of a subject"].match(reply, start):
        # C is correct, C is the answer
        return _unless_denied(match[1], reply, near + match.start(1))
    if reply[start].isascii() and reply[start - 1 : start].isalpha():
        return None
    match = FORMS["verdict"].match(reply, start)
    if match:
        return _unless_denied(match[1], reply, start)
    mark = FORMS["label"].match(reply, start) or FORMS["chinese"].match(reply, start)
    if mark:
        return _letter(_after(reply, mark), near=True)
    mark = FORMS["is"].match(reply, start)
    if not mark or FORMS["unsure"].search(_clause(reply, start)):
        return None
    return _letter(_after(reply, mark), near=False)


def _clause(reply: str, end: int) -> str:
    """What comes before `end` in its clause."""
    return FORMS["clause"].split(reply[max(0, end - REACH) : end])[-1]


def _unless_denied(letter: str, reply: str, start: int) -> str | None:
    """The letter of a verdict that begins at `start`; None if it is denied or shared: "A or C is right"."""
    if FORMS["or before"].search(reply[max(0, start - 20) : start]) or FORMS["denied"].search(_clause(reply, start)):
        return None
    return letter


def _after(reply: str, mark: re.Match[str]) -> str:
    """The rest of the sentence, without LaTeX around its letters."""
    rest = FORMS["text command"].sub("", reply[mark.end() : mark.end() + REACH + 40])[:REACH]
    rest = FORMS["line end"].sub("", rest).lstrip()
    stop = FORMS["sentence"].search(rest)
    return rest[: stop.start() + 1] if stop else rest


def _letter(rest: str, *, near: bool) -> str | None:
    """The first letter that stands alone; `near` means that only `option` may come before it."""
    for match in FORMS["letter"].finditer(rest):
        before = rest[: match.start()]
        if near and not FORMS["nothing"].fullmatch(before):
            return None
        denied = FORMS["not"].search(before)
        if not denied and match["letter"].isupper() and FORMS["or after"].match(rest, match.end()):
            return SEVERAL
        if _stands_alone(match, rest) and not denied:
            return match["letter"]
    return None


def _stands_alone(match: re.Match[str], rest: str) -> bool:
    """Whether a letter is a choice: not an article, a pronoun or part of a formula."""
    if FORMS["formula"].match(rest, match.end()):
        return False
    if match["open"] and match["close"]:
        return True
    goes_on = bool(FORMS["carries on"].match(rest, match.end()))
    if match["letter"].islower():
        return not rest[match.end() :].strip(" \t.,;:!)*\"'`}")
    return not (goes_on and match["letter"] in "AI")


def _opening(reply: str) -> str | None:
    reply = FORMS["text command"].sub("", reply[:400])
    match = FORMS["opening"].match(reply)
    if not match or FORMS["or after"].match(reply, match.end()):
        return None
    return next(letter for letter in match.groups() if letter).casefold()
