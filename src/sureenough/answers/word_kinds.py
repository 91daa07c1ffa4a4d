"""Kinds of answers in words: texts, labels, lists, sets, numbers, dates, and what a regular expression finds.

A reply states such an answer in a box, after "Answer:", or on its last line. All of it takes linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import lru_cache
from typing import Any
from unicodedata import normalize

from sureenough.answers.compare import number_classes
from sureenough.answers.math.key import canonical_key
from sureenough.answers.reading import boxed_contents, reply_of
from sureenough.core.options import NOT_NEGATIVE, HasOptions, Rule, one_of, option
from sureenough.errors import UsageError

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
    end = max((mark.end() for mark in _ANSWER.finditer(reply)), default=None)
    lines = [line for line in reply[end:].splitlines() if not _FENCE.fullmatch(line)]
    return "\n".join(_last_item_or_list(lines) if end is None else lines).strip() or None


BULLET = re.compile(r"\s{0,12}(?:[-*•]|\(?(?:\d{1,4}|[A-Za-z])[.)])\s{1,8}(?=\S)")


def _last_item_or_list(lines: list[str]) -> list[str]:
    lines = [line for line in lines if line.strip()]
    first = len(lines)
    while first and BULLET.match(lines[first - 1]):
        first -= 1
    return lines[first:] if len(lines) - first > 1 else lines[-1:]


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


def key_or_text(key: Callable[[str], Hashable | None], answer: str) -> Hashable:
    """What an answer is compared by; one without a key is the same as its exact copies only."""
    value = key(answer)
    return ("unread", answer) if value is None else ("read", value)


class KeyedKind(HasOptions):
    """A kind of answers that are the same if their keys are; by default without case and extra space."""

    __slots__ = ()

    def key(self, answer: str) -> Hashable | None:
        return normal_form(answer)

    def classes(self, answers: Sequence[str]) -> list[int | None]:
        return number_classes(key_or_text(self.key, answer) for answer in answers)

    def grade(self, gold: str, answer: str) -> bool:
        return key_or_text(self.key, gold) == key_or_text(self.key, answer)


# -- numbers with a tolerance, and dates


LONGEST_NUMERAL = 400
_CHUNK = re.compile(r"(?<![\w)])([-+−]?)[$€£¥]?((?:\.(?=\d)|\d)[\d.,:/eE+'−-]*)\s?(\\?%|percent\b)?")
_NUMERAL = re.compile(r"(\d{1,3}(?:,\d{3})+|\d*)(\.\d+)?(?:[eE]([-+]?\d{1,3}))?(?:/(\d+))?")

Value = tuple[bool, Fraction]
"""Whether it is a percentage, and the number before the sign."""


@dataclass(frozen=True, slots=True)
class Number(KeyedKind):
    """One number. Units are not read, except that 5% is not 5."""

    rel: float = option(0.0, "relative difference up to which numbers are the same", NOT_NEGATIVE)
    abs: float = option(0.0, "difference up to which numbers are the same", NOT_NEGATIVE)
    ask = f"{REASON} gives one number."
    looks_for = f"one number, and not several, {WHERE}"

    def extract(self, text: str) -> str | None:
        numeral = _numeral(re.split("[=≈]", final_statement(text) or "")[-1])
        return None if numeral is None else numeral[0]

    def key(self, answer: str) -> Value | None:
        """The only number in a text; None if there are several, or one that cannot be read whole."""
        numeral = _numeral(answer)
        return None if numeral is None else numeral[1]

    def classes(self, answers: Sequence[str]) -> list[int | None]:
        """Each value joins the next smaller class if it is close to the least member of it: nothing is chained."""
        values = {answer: self.key(answer) for answer in answers}
        least: dict[Value | None, Value] = {}
        current: Value | None = None
        for value in sorted({value for value in values.values() if value is not None}):
            if current is None or not self._close(current, value):
                current = value
            least[value] = current
        return number_classes(least.get(values[answer], ("unread", answer)) for answer in answers)

    def grade(self, gold: str, answer: str) -> bool:
        one, two = self.key(gold), self.key(answer)
        return gold == answer if one is None or two is None else self._close(one, two)

    def _close(self, one: Value, two: Value) -> bool:
        allowed = max(Fraction(str(self.abs)), Fraction(str(self.rel)) * max(abs(one[1]), abs(two[1])))
        return one[0] == two[0] and abs(one[1] - two[1]) <= allowed


def _numeral(text: str) -> tuple[str, Value] | None:
    """The only number in a text, as written and as a value."""
    if "\\" in text and "%" not in text and len(text) <= LONGEST_NUMERAL:
        exact = canonical_key(trimmed(text))
        if exact.kind == "number" and not exact.base:
            return exact.text, (False, exact.exact)
    numbers = {_value(*chunk.groups()) for chunk in _CHUNK.finditer(text)}
    return numbers.pop() if len(numbers) == 1 else None


def _value(sign: str, digits: str, percent: str | None) -> tuple[str, Value] | None:
    digits = digits.replace("−", "-").rstrip(".,:/eE+'-")
    numeral = _NUMERAL.fullmatch(digits) if len(digits) <= LONGEST_NUMERAL else None
    if numeral is None or not (numeral[1] or numeral[2]):
        return None
    whole, decimals, exponent, below = numeral.groups(default="")
    if below and not int(below):
        return None
    value = Fraction(f"{whole.replace(',', '') or '0'}{decimals}e{exponent or 0}") / int(below or 1)
    minus = "-" if sign in ("-", "−") else ""
    return f"{minus}{digits}{'%' if percent else ''}", (percent is not None, -value if minus else value)


_MONTHS = {name: at for at, name in enumerate("jan feb mar apr may jun jul aug sep oct nov dec".split(), 1)}
_MONTH = (
    r"(?:jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
# Each alternative is named by the order of year, month and day in it.
_DATE = re.compile(
    r"(?<![\w.])(?:(?P<ymd>\d{4}(?P<s>[-/.])\d{1,2}(?P=s)\d{1,2}(?=\D|$)|\d{4}\s?年\s?\d{1,2}\s?月\s?\d{1,2}\s?日)"
    r"|(?P<unknown>\d{1,2}(?P<t>[-/.])\d{1,2}(?P=t)\d{4}(?=\D|$))"
    rf"|(?P<mdy>{_MONTH}\.?\s{{1,3}}\d{{1,2}}(?:st|nd|rd|th)?,?\s{{1,3}}\d{{4}}(?!\d))"
    rf"|(?P<dmy>\d{{1,2}}(?:st|nd|rd|th|\.)?[\s-]{{1,3}}(?:of\s{{1,3}})?{_MONTH}\.?,?[\s-]{{1,3}}\d{{4}}(?!\d)))",
    re.IGNORECASE,
)
_ORDERS = ("unknown", "dmy", "mdy")


@dataclass(frozen=True, slots=True)
class Date(KeyedKind):
    """One date; times of day are not read.

    01/02/2024 is the first of February or the second of January. Unless `order` says which, it is the same as 1/2/2024
    and as no other date. Numbers above 12 settle the order, and dots are read as day.month.year.
    """

    order: str = option("unknown", "how 01/02/2024 is meant: dmy is day first, mdy month first", one_of(*_ORDERS))
    ask = f"{REASON} gives one date, written as YYYY-MM-DD."
    looks_for = f"one date, and not several, {WHERE}"

    def extract(self, text: str) -> str | None:
        statement = trimmed(final_statement(text) or "")
        first = _DATE.search(statement)
        return first[0] if first and self.key(statement) is not None else None

    def key(self, answer: str) -> Hashable | None:
        """The only date in a text: year, month and day, or a year and two numbers if their order is unknown."""
        keys = {self._key(match) for match in _DATE.finditer(answer)}
        return keys.pop() if len(keys) == 1 else None

    def _key(self, match: re.Match[str]) -> Hashable | None:
        pieces = re.findall(r"\d+|[a-z]{3,}", match[0].casefold())
        values = [_MONTHS.get(piece[:3]) or int(piece) for piece in pieces]
        order = match.lastgroup or ""
        if order == "unknown":
            order = "dmy" if match["t"] == "." and self.order == "unknown" else self.order
        dates = {
            _valid(dict(zip(one, values, strict=True))) for one in (_ORDERS[1:] if order == "unknown" else [order])
        }
        dates.discard(None)
        return dates.pop() if len(dates) == 1 else tuple(values) if dates else None


def _valid(parts: dict[str, int]) -> date | None:
    try:
        return date(parts["y"], parts["m"], parts["d"])
    except ValueError:
        return None


# -- texts, labels, lists and patterns


_DENIED = re.compile(r"\b(?:not|no|never|neither|nor|cannot|rather than|instead of)\b|n['’]t\b", re.IGNORECASE)
_THOUSANDS = re.compile(r",(?!(?<=\d,)\d{3}(?!\d))")
_ENCLOSED = re.compile(r"\\\{(.*)\\\}|\{(.*)\}|\[(.*)\]|\((.*)\)", re.DOTALL)
_MOST_ITEMS = 1_000


def _are_labels(labels: tuple[str, ...]) -> bool:
    forms = [normal_form(label) for label in labels]
    return len(labels) != 1 and all(forms) and len(set(forms)) == len(forms)


LABELS = Rule("two or more different labels, such as positive,negative", _are_labels)


@dataclass(frozen=True, slots=True)
class Text(KeyedKind):
    """A text, compared without case and extra space; or one of a few labels."""

    labels: tuple[str, ...] = option((), "the only possible answers", LABELS)

    @property
    def ask(self) -> str:
        return f"{REASON} gives {'one of: ' + ', '.join(self.labels) if self.labels else 'the answer'}."

    @property
    def looks_for(self) -> str:
        return f"{'one of the labels ' + ', '.join(self.labels) if self.labels else 'a text'} {WHERE}"

    def extract(self, text: str) -> str | None:
        statement = trimmed(final_statement(text) or "")
        return (self._label(statement) if self.labels else statement) or None

    def _label(self, statement: str) -> str | None:
        """The label that a statement is, or the only one that it names without denying it."""
        forms = {normal_form(label): label for label in self.labels}
        form = normal_form(statement)
        if form in forms:
            return forms[form]
        longest_first = sorted(forms, key=len, reverse=True)
        pattern = rf"(?<!\w)(?:{'|'.join(map(re.escape, longest_first))})(?!\w)"
        named = set(re.findall(pattern, form))
        return forms[named.pop()] if len(named) == 1 and not _DENIED.search(re.sub(pattern, "", form)) else None


@dataclass(frozen=True, slots=True)
class Exact(KeyedKind):
    """A text, compared character by character."""

    ask = f"{REASON} gives the answer."
    looks_for = f"a text {WHERE}"

    def extract(self, text: str) -> str | None:
        return final_statement(text)

    def key(self, answer: str) -> str:
        return answer.strip()


_ITEM_KEYS: dict[str, Callable[[str], Hashable | None]] = {
    "text": lambda item: normal_form(trimmed(item)),
    "exact": str.strip,
    "number": Number().key,
    "date": Date().key,
}


@dataclass(frozen=True, slots=True)
class Items(KeyedKind):
    """Several items: a list, in which their order counts, or a set."""

    of: str = option("text", "kind of the items", one_of(*_ITEM_KEYS))
    ordered: bool = True

    @property
    def ask(self) -> str:
        return f"{REASON} gives the items, separated by commas{', in order' if self.ordered else ''}."

    looks_for = f"items, as bullets or separated by commas, {WHERE}"

    def extract(self, text: str) -> str | None:
        block = final_block(text)
        if block is None:
            return None
        lines = block.splitlines()
        if len(lines) > 1 and not all(BULLET.match(line) for line in lines if line.strip()):
            block = next(line for line in lines if line.strip())
        return block.strip() if len(block) <= LONGEST and self.key(block) is not None else None

    def items(self, answer: str) -> list[str]:
        """The items of a JSON array, of bullets, or between semicolons or commas."""
        answer = answer.strip()
        lines = [line for line in answer.splitlines() if line.strip()]
        if len(answer) > LONGEST:
            return [answer]
        if lines and all(BULLET.match(line) for line in lines):
            return [BULLET.sub("", line, count=1).strip() for line in lines]
        enclosed = _ENCLOSED.fullmatch(answer)
        if enclosed:
            array = _json_array(answer)
            if array is not None:
                return array
            answer = enclosed[enclosed.lastindex or 0]
        commas = _THOUSANDS if self.of == "number" else re.compile(",")
        parts = answer.split(";") if ";" in answer else commas.split(answer)
        parts = [part.strip() for part in parts if part.strip()]
        if len(parts) > 1:
            parts[-1] = re.sub(r"^(?:and|or)\s+", "", parts[-1], flags=re.IGNORECASE)
        return parts

    def key(self, answer: str) -> Hashable | None:
        items = self.items(trimmed(answer))
        if not items or len(items) > _MOST_ITEMS:
            return None
        keys = [key_or_text(_ITEM_KEYS[self.of], item) for item in items]
        return tuple(keys) if self.ordered else frozenset(keys)


def _json_array(text: str) -> list[str] | None:
    try:
        values = json.loads(text, parse_int=str, parse_float=str)
    except (ValueError, RecursionError):
        return None
    if not isinstance(values, list) or any(isinstance(value, dict | list) for value in values):
        return None
    return [value if isinstance(value, str) else json.dumps(value) for value in values]


@dataclass(frozen=True, slots=True)
class Regex(KeyedKind):
    """What a regular expression finds last in a reply: its first group, else all of it. Compared as texts are."""

    pattern: str
    ask = ""

    @property
    def looks_for(self) -> str:
        return f"text that matches {self.pattern}"

    def __post_init__(self) -> None:
        compiled(self.pattern)

    def extract(self, text: str) -> str | None:
        reply, value = reply_of(text), None
        for match in compiled(self.pattern).finditer(encodable(reply or "")):
            value = match[1] if match.re.groups else match[0]
        return (value or "").strip() or None


def encodable(text: str) -> str:
    """The text as RE2 takes it, without halves of surrogate pairs."""
    return text.encode("utf-8", "replace").decode()


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
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(encodable(pattern), options)
    except re2.error as error:
        reason = error.args[0].decode("utf-8", "replace") if isinstance(error.args[0], bytes) else error
        raise UsageError(f"{pattern[:100]!r} is not a regular expression of RE2: {reason}") from None
