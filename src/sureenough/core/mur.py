"""MUR: a line that the model finds less likely than those before it is sampled again; see docs/search.md.

Yan et al., 2025.
"""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass
from math import exp
from typing import Any, Final

from sureenough.core.search import (
    Computation,
    Continuation,
    Draws,
    Growth,
    Round,
    Sample,
    SampleLimits,
    Search,
    SearchOptions,
)
from sureenough.core.strategy_options import FEW, NOT_NEGATIVE, PROBABILITY, STEPS, TOKENS, option

LONGEST_REST: Final = 8096
BLANK_LINES: Final = 4
"""Lines without text do not count as steps; after so many lines per step the rest is sampled at once all the same."""


@dataclass(frozen=True, slots=True)
class Mur(SearchOptions):
    """Momentum uncertainty: the likelihood of a line is compared with a moving average over the lines before it."""

    candidates: int = option(4, "lines that are sampled instead of one that is too unlikely", FEW)
    momentum: float = option(0.9, "share of the moving average that a line leaves as it was", PROBABILITY)
    scale: float = option(0.9, "share of the average likelihood that a line must have", PROBABILITY)
    heat: float = option(0.6, "temperature of lines", NOT_NEGATIVE)
    line_tokens: int = option(2048, "most tokens of a line", TOKENS)
    max_steps: int = option(20, "lines that are watched, before the rest is sampled at once", STEPS)

    def search(self, draws: Draws) -> Search:
        """Sample line after line, and those that are too unlikely again."""
        text, size, adopted, average, steps = "", 0, Growth(), 0.0, 0
        for _ in range(BLANK_LINES * self.max_steps):
            line = yield from self._line(text, adopted, average, steps)
            if not line.complete and not line.text:  # the path is at its limit
                return Growth(truncated=True)
            growth, ends = line.growth()._replace(truncated=False), line.complete and line.stop_text == ""
            size += growth.size if growth.tokens else 0  # as the path counts it
            if line.complete and line.stop_text is None:
                (after,) = yield Round((Sample(text + line.text, SampleLimits(1, self.heat), size),))
                ends = after.complete and not after.text
            if ends:
                return growth
            adopted = growth.with_end(line.line_end) if line.complete else growth
            text += adopted.text
            if line.text.strip():
                average = self.momentum * average + (1.0 - self.momentum) * line.score
                steps += 1
            if steps == self.max_steps:
                break
        (rest,) = yield Round((Sample(text, SampleLimits(LONGEST_REST, self.heat)),), adopted)
        last: Growth = rest.growth()
        return last

    def _line(
        self, text: str, adopted: Growth, average: float, steps: int
    ) -> Generator[Round | Computation, Any, Continuation]:
        """The next line; if it is too unlikely, the likeliest of some others."""
        sample = Sample(text, SampleLimits(self.line_tokens, self.heat, "\n"))
        (line,) = yield Round((sample,), adopted)
        first: Continuation = line
        if not steps or not first.text.strip() or exp(first.score) >= exp(average) * self.scale:
            return first
        others: list[Continuation] = yield Round((sample,) * self.candidates)
        return max(others, key=lambda other: other.score)
