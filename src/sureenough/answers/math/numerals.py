"""Plain numbers, exactly: a key's text is the lowest fraction, or the digits of a long decimal.

A decimal of 12 or more significant digits is taken for the rounding of some fraction; shorter ones are
exact, so 0.33 is not 1/3.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction

from sureenough.answers.math.algebra import Rational, Unreadable, write_rational

MAX_DIGITS = 2000
MAX_EXPONENT = 400
LONG = 12  # significant digits from which a decimal is a rounding
_DOUBLE = 15  # digits that survive in a double; 16 and 17 are printed, and noise

_DECIMAL = re.compile(r"([+-]?)(\d*)(?:\.(\d*))?", re.ASCII)
_FRACTION = re.compile(r"([+-]?)\\[dtc]?frac\s*\{\s*([+-]?\d{1,2000})\s*\}\s*\{\s*([+-]?\d{1,2000})\s*\}", re.ASCII)
_RATIO = re.compile(r"([+-]?)\s*(\d{1,2000})\s*/\s*(\d{1,2000})", re.ASCII)
_MIXED = re.compile(r"([+-]?)\s*(\d{1,2000})\s+(\d{1,2000})\s*/\s*(\d{1,2000})", re.ASCII)
_SCIENTIFIC = re.compile(r"([+-]?\d{1,2000}(?:\.\d{0,2000})?|[+-]?\.\d{1,2000})[eE]([+-]?\d{1,3})", re.ASCII)
_REPEATING = re.compile(r"([+-]?)(\d{0,100})\.(\d{0,100})\\(?:overline|bar)\s*\{(\d{1,100})\}", re.ASCII)
_BASED = re.compile(r"([+-]?)\s{0,3}(\d{1,2000})\s{0,3}_\s{0,3}(?:\{\s{0,3}(\d{1,2})\s{0,3}\}|(\d{1,2}))", re.ASCII)


def numeral_text(text: str) -> str | None:
    """The key text of an answer that is nothing but a number in one of the common forms; else None."""
    if not text or not (text[-1].isdigit() or text[-1] in ".}"):
        return None
    for pattern, read in _FORMS:
        if match := pattern.fullmatch(text):
            return read(match)
    return None


def decimal(sign: str, whole: str, part: str) -> str | None:
    """The key text of a decimal, given its digits before and after the point."""
    if not (whole or part) or len(whole) + len(part) > MAX_DIGITS:
        return None
    part = part.rstrip("0")
    whole = whole.lstrip("0") or "0"
    sign = "-" if sign == "-" and (part or whole != "0") else ""
    if not part:
        return sign + whole
    if len((whole + part).lstrip("0")) >= LONG:
        return f"{sign}{whole}.{part}"
    return rational_text(Fraction(f"{sign}{whole}.{part}"))


def _ratio(match: re.Match[str]) -> str | None:
    return _fraction(match[1], int(match[2]), int(match[3]))


def _mixed(match: re.Match[str]) -> str | None:
    whole, above, below = map(int, match.group(2, 3, 4))
    return _fraction(match[1], whole * below + above, below) if above < below else None


def _scientific(match: re.Match[str]) -> str | None:
    exponent = int(match[2])
    return rational_text(Fraction(match[1]) * Fraction(10) ** exponent) if abs(exponent) <= MAX_EXPONENT else None


def _repeating(match: re.Match[str]) -> str | None:
    sign, whole, part, again = match.groups()
    cycle = 10 ** len(again) - 1
    return _fraction(sign, int((whole + part) or "0") * cycle + int(again), cycle * 10 ** len(part))


def _in_base(match: re.Match[str]) -> str:
    """Read 52_8 as its digits with the base as a note: the question says which base it wants."""
    return f"{match[1].strip('+')}{int(match[2])}_{{{int(match[3] or match[4])}}}"


def _fraction(sign: str, above: int, below: int) -> str | None:
    return rational_text(Fraction(-above if sign == "-" else above, below)) if below else None


_FORMS: tuple[tuple[re.Pattern[str], Callable[[re.Match[str]], str | None]], ...] = (
    (_DECIMAL, lambda match: decimal(*match.groups(default=""))),
    (_RATIO, _ratio),
    (_FRACTION, _ratio),
    (_MIXED, _mixed),
    (_BASED, _in_base),
    (_SCIENTIFIC, _scientific),
    (_REPEATING, _repeating),
)


def rational_text(value: Rational) -> str:
    """3 or 1/3, as int and Fraction print."""
    write_rational(value)  # raises if that would be too long
    text = str(value)
    if len(text) > MAX_DIGITS:
        raise Unreadable("a number too long to write")
    return text


def exact_value(text: str) -> Fraction:
    """The value of a number key's text; a subscript that names a base is a note, not part of the value."""
    return Fraction(text.partition("_")[0])


def is_rounded_decimal(text: str) -> bool:
    return "." in text


def base_of(text: str) -> str:
    """The base that a number key names, such as {8} in 52_{8}; empty if none is named."""
    return text.partition("_")[2]


def rounding_error(text: str) -> Fraction:
    """Half a unit of the last digit that a long decimal vouches for."""
    whole, _, part = text.lstrip("-").partition(".")
    digits = len((whole + part).lstrip("0"))
    trusted = len(part) - max(0, digits - _DOUBLE) if digits in (16, 17) else len(part)
    return Fraction(1, 2) / Fraction(10) ** trusted


def same_number(one: str, two: str) -> bool:
    """Whether two number keys are one number: exactly, or as a long decimal and what it rounds."""
    if base_of(one) and base_of(two) and base_of(one) != base_of(two):
        return False
    gap = abs(exact_value(one) - exact_value(two))
    if gap == 0:
        return True
    return any(is_rounded_decimal(text) and gap <= rounding_error(text) for text in (one, two))
