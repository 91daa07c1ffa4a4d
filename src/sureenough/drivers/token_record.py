"""One path's tokens, as the run log keeps them."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, isnan
from typing import Final

from sureenough.core.events import Token
from sureenough.core.search import Growth
from sureenough.drivers.run_log import PathTokens

MOST_CONFIDENCE: Final = 1e6
"""A server that reports more is not believed: a chart could not show it."""
POINTS: Final = 8
"""Points of a path's confidence per window."""


class TokenRecord:
    """One path's tokens: their texts, their confidence, and the points that no line has yet."""

    __slots__ = ("conf", "drawn", "points", "texts", "window")

    def __init__(self, window: int) -> None:
        self.window = window  # 0: confidence is not used
        self.texts: list[str] = []
        self.conf = array("f")
        self.points: list[float] = []
        self.drawn: list[float] = []  # all points, if an engine that watches the path says how confident it is

    def draw_to(self, tokens: int, confidence: float) -> None:
        """Points up to this token, on a line from the last one: single tokens of the path are not known."""
        if not self.window or self.conf or not abs(confidence) < MOST_CONFIDENCE:
            return
        missing = tokens // stride_of(self.window) - len(self.drawn)
        before = self.drawn[-1] if self.drawn else confidence
        line = [round(before + (confidence - before) * step / missing, 3) for step in range(1, missing + 1)]
        self.drawn += line
        self.points += line

    def extend(self, tokens: Sequence[Token]) -> None:
        self.texts += [token.text for token in tokens]
        if self.window:
            stride = stride_of(self.window)
            for token in tokens:
                self.conf.append(token.conf)
                if len(self.conf) % stride == 0:
                    self.points.append(self.mean())

    def adopt(self, growth: Growth) -> None:
        """Take what a search adds to its path; text without tokens, such as a blank line, joins the piece before it."""
        self.extend(growth.tokens)
        if growth.text and not growth.tokens:
            self.texts[-1:] = ["".join([*self.texts[-1:], growth.text])]

    def redraw(self, window: int) -> None:
        """Form all points anew: the session has chosen its window."""
        self.window = window
        stride = stride_of(window)
        self.drawn = []
        self.points = [self.mean(end) for end in range(stride, len(self.conf) + 1, stride)]

    def mean(self, end: int | None = None) -> float:
        """Mean confidence of the window before `end`, the last one by default, or of all tokens before one is full."""
        end = len(self.conf) if end is None else end
        window = self.conf[max(0, end - self.window) : end]
        return round(known_number(sum(window) / len(window)) or 0.0, 3)

    def to_json(self, path: int) -> PathTokens:
        aligned = len(self.conf) == len(self.texts)
        conf = [round(value, 2) if isfinite(value) else None for value in self.conf] if aligned else []
        return {"path": path, "texts": self.texts, "confidence": conf}


def stride_of(window: int) -> int:
    """Tokens between two points."""
    return max(1, window // POINTS)


def known_number(value: float | None) -> float | None:
    return None if value is None or isnan(value) else value
