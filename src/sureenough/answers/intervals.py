"""Unions of intervals: order does not matter, and what overlaps or touches is one interval."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple

from sureenough.answers import numerals
from sureenough.answers.key_types import Key, interval_key

_ENDLESS = {"\\infty": True, "-\\infty": False}


class _Span(NamedTuple):
    """An interval with rational or infinite ends; an end compares by (value, how far it reaches)."""

    low: tuple[int, Fraction, int]
    high: tuple[int, Fraction, int]
    first: Key
    last: Key


def interval_union(parts: list[Key]) -> Key:
    """The union of intervals, merged if their ends are plain numbers; a single interval is returned as it is."""
    flat: list[Key] = []
    for part in parts:
        flat.extend(part.parts if part.kind == "union" else (part,))
    spans = [_span(part) for part in flat]
    if all(spans):
        flat = [_row(span) for span in _merged([span for span in spans if span is not None])]
    ordered = tuple(sorted(set(flat), key=lambda part: part.order))
    if len(ordered) == 1:
        return ordered[0]
    return Key("union", "\\cup ".join(part.text for part in ordered), ordered)


def _span(part: Key) -> _Span | None:
    if part.kind not in ("tuple", "interval") or len(part.parts) != 2:
        return None
    low = _end(part.parts[0], 0 if part.text[0] == "[" else 1)
    high = _end(part.parts[1], 1 if part.text[-1] == "]" else 0)
    if low is None or high is None or high <= low:
        return None
    return _Span(low, high, part.parts[0], part.parts[1])


def _end(key: Key, reach: int) -> tuple[int, Fraction, int] | None:
    """An end of an interval as something to sort by: 5 from below is (0, 5, 0), just above it (0, 5, 1)."""
    if key.text in _ENDLESS:
        return (1 if _ENDLESS[key.text] else -1), Fraction(0), 0
    if key.kind != "number" or numerals.is_rounded_decimal(key.text):
        return None
    return 0, numerals.exact_value(key.text), reach


def _merged(spans: list[_Span]) -> list[_Span]:
    out: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.low, span.high)):
        if out and span.low <= out[-1].high:
            if span.high > out[-1].high:
                out[-1] = out[-1]._replace(high=span.high, last=span.last)
        else:
            out.append(span)
    return out


def _row(span: _Span) -> Key:
    opening = "[" if span.low[0] == 0 and span.low[2] == 0 else "("
    closing = "]" if span.high[2] == 1 else ")"
    return interval_key(opening, span.first, span.last, closing)
