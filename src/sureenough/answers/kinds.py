"""Kinds of answers. A judge says what the answer in a text is, which answers are the same, and which are right.

Kinds are selected by name wherever a run is started. To add one, add an entry to `BUILTIN`; another package announces
its judges by entry points of the group `sureenough.judges`, or is named as `module:attribute`.

A reply states an answer in words in a box, after "Answer:", or on its last line. All reading takes linear time.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fractions import Fraction
from typing import Any, Final, Protocol, runtime_checkable
from unicodedata import normalize

from sureenough.answers.choice import choose
from sureenough.answers.compare import classes, number_classes
from sureenough.answers.grading import grade
from sureenough.answers.json_values import DECODER, NOT_JSON, canonical, last_json, validates
from sureenough.answers.math.key import canonical_key
from sureenough.answers.reading import boxed_contents, compiled, encodable, mathematical_answer, reply_of
from sureenough.core.options import NOT_NEGATIVE, HasOptions, Rule, one_of, option
from sureenough.errors import UsageError
from sureenough.plugins import Registry
from sureenough.spec import marked_options, read_options


@runtime_checkable
class Judge(Protocol):
    """What an answer is, and when two are the same.

    A judge may also have `ask`, a sentence that is added to the prompt; `looks_for`, what `extract` reads, for users
    whose paths have no answer; and `for_question(question)`, which returns the judge of one question. `question` is its
    text, if that is known.
    """

    def extract(self, text: str) -> str | None:
        """The answer in a model's text, or None."""

    def classes(self, answers: Sequence[str]) -> Sequence[Hashable | None]:
        """The class of each answer, whatever their order."""

    def grade(self, gold: str, answer: str) -> bool:
        """Whether an answer is the gold one."""


FAULTS: Final = (Exception, SystemExit)
"""What the code of a caller's own judge may raise without ending a run."""


def trait(judge: Judge, name: str) -> object:
    """An optional attribute of a judge; None if there is none, or if the judge's own code fails."""
    try:
        return getattr(judge, name, None)
    except FAULTS:
        return None


# -- answers in words


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


def final_statement(text: str) -> str:
    """The box, else the line after the last "Answer:", else the last line; empty if there is none or it is too long."""
    block = final_block(text)
    statement = next((line.strip() for line in (block or "").splitlines() if line.strip()), "")
    return statement if len(statement) <= LONGEST else ""


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


# -- judges of one's own

Extract = Callable[[str], str | None]
Same = Callable[[str, str], bool]


@dataclass(frozen=True, slots=True)
class FunctionJudge:
    """A judge made of functions."""

    extract: Extract
    classes: Callable[[Sequence[str]], Sequence[Hashable | None]]
    grade: Same
    ask: str = ""


def judge(
    *,
    extract: Extract | None = None,
    same: Same | None = None,
    key: Callable[[str], Hashable] | None = None,
    grade: Same | None = None,
    ask: str = "",
) -> Judge:
    """A judge of your own.

    Args:
        extract: finds the answer in a model's text; by default what follows "Answer:", else the last line.
        same: whether two answers are the same; by default they are compared without case and extra space.
        key: instead of `same`: a value that is equal for answers that are the same.
        grade: whether an answer is right, from the gold answer and the answer; `same` or `key` by default.
        ask: a sentence that is added to the prompt.
    """
    if same is not None and key is not None:
        raise UsageError("give same or key, not both")
    for name, function in {"extract": extract, "same": same, "key": key, "grade": grade}.items():
        if function is not None and not callable(function):
            raise UsageError(f"{name} is {function!r}; it must be a function", argument=name)
    read = extract or (lambda text: trimmed(final_statement(text)) or None)
    if same is not None:
        return FunctionJudge(read, lambda answers: classes_by_same(answers, same), grade or same, ask)
    form = key or normal_form
    equal = grade or (lambda gold, answer: form(gold) == form(answer))
    return FunctionJudge(read, lambda answers: [form(answer) for answer in answers], equal, ask)


def classes_by_same(answers: Sequence[str], same: Same) -> list[int | None]:
    """Sorted answers each join the first class whose first member they equal both ways: their order is irrelevant."""
    joined: dict[str, str] = {}
    for answer in sorted(set(answers), key=lambda answer: (len(answer), answer)):
        founders = dict.fromkeys(joined.values())
        joined[answer] = next((one for one in founders if same(one, answer) and same(answer, one)), answer)
    return number_classes(map(joined.get, answers))


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
        numeral = _numeral(re.split("[=≈]", final_statement(text))[-1])
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
        statement = trimmed(final_statement(text))
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
        statement = trimmed(final_statement(text))
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
        return final_statement(text) or None

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


# -- JSON


@dataclass(frozen=True, slots=True)
class Json(KeyedKind):
    """A JSON value, or some fields of an object."""

    fields: tuple[str, ...] = option(
        (), "the fields of an object that are compared; all by default", Rule("names of fields", lambda names: True)
    )
    schema: Mapping[str, Any] | None = field(default=None, hash=False)  # a value that does not match is not an answer

    @property
    def ask(self) -> str:
        named = f" object with the fields {', '.join(self.fields)}" if self.fields else ""
        return f"Please reason step by step, and end with the answer as one JSON {named.lstrip() or 'value'}."

    @property
    def looks_for(self) -> str:
        fields = f" with a field {' or '.join(self.fields)}" if self.fields else ""
        return f"complete JSON{fields}{' that matches the schema' if self.schema else ''}"

    def extract(self, text: str) -> str | None:
        reply = reply_of(text)
        answer = None if reply is None else last_json(reply)
        return answer if answer is not None and self.key(answer) is not None else None

    def key(self, answer: str) -> Hashable | None:
        try:
            value = DECODER.decode(answer.strip())
            if self.schema is not None and not validates(value, self.schema):
                return None
            if not self.fields:
                return canonical(value)
        except NOT_JSON:
            return None
        if not isinstance(value, dict) or value.keys().isdisjoint(self.fields):
            return None
        return tuple(canonical(value[name]) if name in value else None for name in self.fields)


# -- kinds that a box marks: mathematics, and the letter of a choice


FLAG: Final = Rule("1 or 0", lambda value: value in (False, True))


@dataclass(frozen=True, slots=True)
class Math(HasOptions):
    """Mathematics: numbers, expressions, sets, intervals and more, compared by value. The options are for grading."""

    percent: bool = option(False, "28% is right if the gold answer is 0.28", FLAG)
    rounding: bool = option(False, "a rounded decimal is right", FLAG)
    decimal_comma: bool = option(False, "1,5 is right if the gold answer is 1.5", FLAG)
    fallback: str = option("none", "what to read from a reply without a marked answer", one_of("none", "last-number"))
    ask = "Please reason step by step, and put your final answer within \\boxed{}."
    looks_for = "a box or an announced value (\\boxed{…}, Answer: …)"

    def extract(self, text: str) -> str | None:
        return mathematical_answer(text, last_number_too=self.fallback == "last-number")

    def classes(self, answers: Sequence[str]) -> list[int | None]:
        return classes(answers)

    def grade(self, gold: str, answer: str) -> bool:
        return grade(gold, answer, percent=self.percent, rounding=self.rounding, decimal_comma=self.decimal_comma)


ALL_LETTERS: Final = "ABCDEFGHIJ"
_OFFERED = re.compile(r"(?:^[ \t]{0,8}[(\[*]{0,3}|\()([A-J])[*]{0,2}[).:\]]", re.MULTILINE)


def are_letters(letters: str) -> bool:
    return all(letter.isalpha() for letter in letters) and len({*letters.casefold()}) == len(letters)


LETTERS: Final = Rule("different letters, such as ABCD", are_letters)


@dataclass(frozen=True, slots=True)
class LetterChoice(KeyedKind):
    """One of several choices, by its letter."""

    letters: str = option("", "the letters that were offered; by default those in the question, or A to J", LETTERS)
    ask = "Please reason step by step, and put the letter of your final answer within \\boxed{}."

    @property
    def looks_for(self) -> str:
        letters = self.letters or ALL_LETTERS
        return f"one of the letters {letters}, in a box or announced (\\boxed{{{letters[0]}}}, Answer: {letters[0]})"

    def extract(self, text: str) -> str | None:
        reply = reply_of(text)
        return None if reply is None else choose(reply, self.letters or ALL_LETTERS)

    def key(self, answer: str) -> str:
        return answer.strip().casefold()

    def for_question(self, question: str | None) -> LetterChoice:
        return self if self.letters or question is None else LetterChoice(offered_letters(question))


def offered_letters(question: str) -> str:
    """The letters of the choices below a question, such as A) … B) …; empty if there are none."""
    marked = set(_OFFERED.findall(question))
    count = next((i for i, letter in enumerate(ALL_LETTERS) if letter not in marked), len(ALL_LETTERS))
    return ALL_LETTERS[:count] if count > 1 else ""


# -- by name

BUILTIN: Final[dict[str, Judge]] = {
    "math": Math(), "choice": LetterChoice(), "text": Text(), "exact": Exact(), "number": Number(), "date": Date(),
    "list": Items(), "set": Items(ordered=False), "json": Json(),
}  # fmt: skip


def as_judge(thing: Any) -> Judge:
    """A judge, a class of judges, or a pair of functions (extract, same), as a judge."""
    if isinstance(thing, type):
        try:
            thing = thing()
        except FAULTS as error:  # whatever the class of another package raises
            raise UsageError(
                f"{thing.__name__} cannot be made without arguments: {type(error).__name__}: {error}"[:300]
            ) from None
    if isinstance(thing, tuple) and len(thing) == 2 and all(map(callable, thing)):
        return judge(extract=thing[0], same=thing[1])
    if isinstance(thing, Judge):
        return thing
    if hasattr(thing, "extract") and hasattr(thing, "classes"):
        classes = thing.classes
        ask = getattr(thing, "ask", "")
        return FunctionJudge(thing.extract, classes, lambda gold, answer: len(set(classes([gold, answer]))) == 1, ask)
    raise UsageError(
        f"a kind of answer is a name such as 'math', a judge with extract, classes and grade, or a pair of functions "
        f"(extract, same), not {thing!r}"
    )


REGISTRY: Final = Registry("kind of answer", "judges", BUILTIN, as_judge)
REGEX: Final = "regex:"


def resolve_kind(kind: Any, *, registered_only: bool = False) -> Judge:
    """The judge of a kind: `math`, `number:rel=1e-3`, `regex:PATTERN`, `module:attribute`, or a judge.

    Args:
        kind: a name with options, or what `as_judge` accepts.
        registered_only: refuse `module:attribute` and `regex:`, for names that clients or files choose.
    """
    if not isinstance(kind, str):
        return as_judge(kind)
    if kind in (REGEX, REGEX.removesuffix(":")):
        raise UsageError("regex: names no pattern; write one after it, such as regex:(\\d+) points")
    if kind.startswith(REGEX) and not registered_only:
        return Regex(kind.removeprefix(REGEX))
    named = REGISTRY.find(kind, registered_only=registered_only)
    if named.options is None:
        return named.thing
    for known, value in read_options(named, kind, marked_options(named.thing)):
        named = named._replace(thing=known.write(named.thing, value))
    return named.thing


def for_question(judge: Judge, question: str | None = None) -> Judge:
    """The judge of one question, if the kind has one; else the judge itself."""
    specific = getattr(judge, "for_question", None)
    if specific is None:
        return judge
    try:
        return as_judge(specific(question))
    except UsageError:
        raise
    except FAULTS as error:  # a judge may be the caller's own
        raise UsageError(f"the judge failed on a question: {type(error).__name__}: {error}"[:300]) from None


def extract(
    text: str, kind: str = "math", *, choices: Iterable[str] = "ABCD", fallback: str | None = None
) -> str | None:
    """The answer in a model's reply; None if it has none.

    kind "choice": one of `choices`, a text or list of letters. fallback "last-number": if a mathematical reply
    announces nothing, its last number.
    """
    letters = list(choices) if isinstance(choices, Iterable) else []
    single = all(isinstance(letter, str) and len(letter) == 1 for letter in letters)
    if not letters or not single or not are_letters("".join(letters)):
        raise UsageError(f"choices must be different letters, such as 'ABCD' or ['A', 'B'], not {choices!r}")
    if fallback not in (None, "last-number"):
        raise UsageError(f"unknown fallback {fallback!r}; known: None, last-number")
    if kind == "choice":
        return LetterChoice("".join(letters)).extract(text)
    return Math(fallback=fallback or "none").extract(text) if kind == "math" else resolve_kind(kind).extract(text)
