"""Axes of figures that are drawn without matplotlib: from values to places, and round values for the ticks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from math import ceil, floor, isfinite, log10

from sureenough.bench.report.plots import short_number
from sureenough.bench.result import Axis


@dataclass(slots=True)
class PlotScale:
    """From values to pixels, or to columns of text."""

    axis: Axis
    start: float  # the place of `low`
    end: float
    low: float = 0.0
    high: float = 1.0
    names: list[str] = field(default_factory=list)

    @classmethod
    def over(
        cls, axis: Axis, values: Iterable[float | None], start: float, end: float, *, zero: bool = False
    ) -> PlotScale:
        """A scale that holds the values with some room; with `zero` it begins at 0."""
        log = axis.scale == "log"
        known = [log10(v) if log else v for v in values if v is not None and isfinite(v) and (v > 0 or not log)]
        low, high = (min(known), max(known)) if known else (0.0, 1.0)
        if zero and not log:
            low, high = min(0.0, low), max(0.0, high)
        room = (high - low or abs(high) or 1.0) * 0.06
        low, high = low - (room if not zero or low < 0 else 0.0), high + room
        return cls(axis, start, end, low, high)

    def at(self, value: float | str | None) -> float | None:
        """The pixel of a value; None if it cannot be drawn."""
        if self.names:
            place = (self.names.index(str(value)) + 0.5) / len(self.names)
        else:
            if not isinstance(value, int | float) or not isfinite(value) or (self.axis.scale == "log" and value <= 0):
                return None
            number = log10(value) if self.axis.scale == "log" else value
            place = (number - self.low) / (self.high - self.low)
        return self.start + place * (self.end - self.start)

    def ticks(self) -> list[tuple[float, str]]:
        """Round values with their texts."""
        if self.axis.scale == "log":
            decades = range(max(-300, floor(self.low)), min(300, ceil(self.high)) + 1)
            values = [m * 10.0**d for d in decades for m in (1, 2, 5) if self.low <= d + log10(m) <= self.high]
            if len(values) > 9:
                few = decades[:: ceil(len(decades) / 9)]
                values = [10.0**d for d in few if self.low <= d <= self.high]
        else:
            step = 10.0 ** floor(log10((self.high - self.low) / 4))
            step *= next(m for m in (1, 2, 2.5, 5, 10) if (self.high - self.low) / (m * step) <= 6)
            values = [n * step for n in range(ceil(self.low / step), floor(self.high / step) + 1)]
        return [(value, f"{100 * value:.4g}" if self.axis.percent else short_number(value)) for value in values]
