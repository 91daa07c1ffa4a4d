"""Numbers with a tolerance, and dates."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from fractions import Fraction

from sureenough.answers import numerals
from sureenough.answers.canonical import canonical_key
from sureenough.answers.statements import REASON, WHERE, KeyedKind, final_statement, number_classes, trimmed
from sureenough.core.strategy_options import NOT_NEGATIVE, check_options, one_of, option

LONGEST_NUMERAL = 400
_CHUNK = re.compile(r"(?<![\w)])([-+−]?)[$€£¥]?((?:\.(?=\d)|\d)[\d.,:/eE+'−-]*)\s?(\\?%|percent\b)?")
_NUMERAL = re.compile(r"(\d{1,3}(?:,\d{3})+|\d*)(\.\d+)?(?:[eE]([-+]?\d{1,3}))?(?:/(\d+))?")
_MINUS = str.maketrans("−", "-")

Value = tuple[bool, Fraction]
"""Whether it is a percentage, and the number before the sign."""


@dataclass(frozen=True, slots=True)
class Number(KeyedKind):
    """One number. Units are not read, except that 5% is not 5."""

    rel: float = option(0.0, "relative difference up to which numbers are the same", NOT_NEGATIVE)
    abs: float = option(0.0, "difference up to which numbers are the same", NOT_NEGATIVE)
    ask = f"{REASON} gives one number."
    looks_for = f"one number, and not several, {WHERE}"

    def __post_init__(self) -> None:
        check_options(self)

    def extract(self, text: str) -> str | None:
        statement = final_statement(text)
        numeral = None if statement is None else _numeral(re.split("[=≈]", statement)[-1])
        return None if numeral is None else numeral[0]

    def key(self, answer: str) -> Value | None:
        """The only number in a text; None if there are several, or one that cannot be read whole."""
        numeral = _numeral(answer)
        return None if numeral is None else numeral[1]

    def classes(self, answers: Sequence[str | None]) -> list[int | None]:
        """Each value joins the next smaller class if it is close to the least member of it: nothing is chained."""
        if not self.rel and not self.abs:
            return KeyedKind.classes(self, answers)
        values = {answer: None if answer is None else self.key(answer) for answer in answers}
        least: dict[Value, Value] = {}
        current: Value | None = None
        for value in sorted({value for value in values.values() if value is not None}):
            if current is None or not self._close(current, value):
                current = value
            least[value] = current
        keys: dict[str | None, Hashable] = {
            **{answer: least[value] for answer, value in values.items() if value is not None},
            **{answer: ("unread", answer) for answer, value in values.items() if value is None},
        }
        return number_classes(None if answer is None else keys[answer] for answer in answers)

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
        if exact.kind == "number" and not numerals.base_of(exact.text):
            return exact.text, (False, numerals.exact_value(exact.text))
    numbers = {_value(*chunk.groups()) for chunk in _CHUNK.finditer(text)}
    return numbers.pop() if len(numbers) == 1 else None


def _value(sign: str, digits: str, percent: str | None) -> tuple[str, Value] | None:
    digits = digits.translate(_MINUS).rstrip(".,:/eE+'-")
    numeral = _NUMERAL.fullmatch(digits) if len(digits) <= LONGEST_NUMERAL else None
    if numeral is None or not (numeral[1] or numeral[2]):
        return None
    whole, decimals, exponent, below = numeral.groups()
    value = Fraction(f"{whole.replace(',', '') or '0'}{decimals or ''}") * Fraction(10) ** int(exponent or 0)
    if below is not None:
        if int(below) == 0:
            return None
        value /= int(below)
    minus = "-" if sign in ("-", "−") else ""
    return f"{minus}{digits}{'%' if percent else ''}", (percent is not None, -value if minus else value)


_MONTHS = "jan feb mar apr may jun jul aug sep oct nov dec".split()
_MONTH = (
    r"(?P<{}>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?)"
)
_DATE = re.compile(
    r"(?<![\w.])(?:(?P<y>\d{4})(?P<s>[-/.])(?P<m>\d{1,2})(?P=s)(?P<d>\d{1,2})(?=\D|$)"
    r"|(?P<y2>\d{4})\s?年\s?(?P<m2>\d{1,2})\s?月\s?(?P<d2>\d{1,2})\s?日"
    r"|(?P<first>\d{1,2})(?P<s3>[-/.])(?P<second>\d{1,2})(?P=s3)(?P<y3>\d{4})(?=\D|$)"
    rf"|{_MONTH.format('name4')}\.?\s{{1,3}}(?P<d4>\d{{1,2}})(?:st|nd|rd|th)?,?\s{{1,3}}(?P<y4>\d{{4}})(?!\d)"
    rf"|(?P<d5>\d{{1,2}})(?:st|nd|rd|th|\.)?[\s-]{{1,3}}(?:of\s{{1,3}})?{_MONTH.format('name5')}\.?,?[\s-]{{1,3}}"
    r"(?P<y5>\d{4})(?!\d))",
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

    def __post_init__(self) -> None:
        check_options(self)

    def extract(self, text: str) -> str | None:
        statement = trimmed(final_statement(text) or "")
        matches = [match for match, _ in self._dates(statement)]
        return matches[0] if matches and self.key(statement) is not None else None

    def key(self, answer: str) -> Hashable | None:
        """The only date in a text: (year, month, day), or (year, {day, month}) if their order is unknown."""
        keys = {key for _, key in self._dates(answer)}
        return keys.pop() if len(keys) == 1 else None

    def _dates(self, text: str) -> Iterator[tuple[str, Hashable | None]]:
        for match in _DATE.finditer(text):
            if match["first"] is not None:
                first, second = int(match["first"]), int(match["second"])
                yield match[0], self._ordered(int(match["y3"]), first, second, dots=match["s3"] == ".")
                continue
            name = match["name4"] or match["name5"]
            month = _MONTHS.index(name[:3].lower()) + 1 if name else int(match["m"] or match["m2"])
            year = match["y"] or match["y2"] or match["y4"] or match["y5"]
            day = match["d"] or match["d2"] or match["d4"] or match["d5"]
            yield match[0], _valid(int(year), month, int(day))

    def _ordered(self, year: int, first: int, second: int, *, dots: bool) -> Hashable | None:
        order = self.order if self.order != "unknown" or not dots else "dmy"
        if order == "unknown":
            day_first, month_first = _valid(year, second, first), _valid(year, first, second)
            if day_first and month_first and day_first != month_first:
                return year, (first, second)
            return day_first or month_first
        return _valid(year, second, first) if order == "dmy" else _valid(year, first, second)


def _valid(year: int, month: int, day: int) -> tuple[int, int, int] | None:
    try:
        date(year, month, day)
    except ValueError:
        return None
    return year, month, day
