"""Predictive decoding (Ma et al., 2024): a line is chosen by how likely rollouts from it are; see docs/search.md."""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import exp
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.core.search import (
    REST,
    Continuation,
    Draws,
    Growth,
    Round,
    Sample,
    SampleLimits,
    Search,
    SearchOptions,
    softmax,
)
from sureenough.core.strategy_options import FEW, NOT_NEGATIVE, STEPS, TOKENS, option

_LINE: Final = re.compile(r"(?:\A\n+)?[^\n]+(?:\n+|$)")  # without \A, line feeds alone take quadratic time


class Line(NamedTuple):
    """A step of a rollout: a line and the line feeds after it."""

    growth: Growth
    ends: bool  # the path ends with it

    @property
    def content(self) -> str:
        """What makes it the same as another line: blank lines around it do not count."""
        return self.growth.text.strip("\n")

    def continues(self, line: Line) -> bool:
        """Whether it is the same line, with something after it."""
        return self.content == line.content and not self.ends


def lines_of(rollout: Continuation, most: int) -> tuple[list[Line], float]:
    """The first lines of a rollout, and their mean log-probability.

    A last line that the limit of tokens cut is left out, unless it is the only one.
    """
    text = rollout.text
    spans = [match.span() for match in _LINE.finditer(text)]
    if not rollout.complete and len(spans) > 1 and not text.endswith("\n"):
        spans.pop()
    lines, logprobs = list[Line](), list[float]()
    for (_, end), (growth, values) in zip(spans[:most], rollout.parts(spans[:most]), strict=True):
        lines.append(Line(growth, rollout.complete and end == len(text)))
        logprobs += values
    return lines, fmean(logprobs) if logprobs else 0.0


class Rollout(NamedTuple):
    """What a rollout has beyond the path, and how likely its first lines were when it was sampled."""

    lines: list[Line]
    value: float


@dataclass(frozen=True, slots=True)
class Predictive(SearchOptions):
    """Predictive decoding: the next line is that of the rollouts whose next lines are likeliest."""

    rollouts: int = option(8, "rollouts per step", FEW)
    lookahead: int = option(8, "lines of a rollout by which it is judged", FEW)
    rollout_tokens: int = option(500, "most tokens of a rollout", TOKENS)
    heat: float = option(0.8, "temperature of rollouts", NOT_NEGATIVE)
    select: float = option(0.0, "temperature of the choice among rollouts; 0: the best one", NOT_NEGATIVE)
    max_steps: int = option(30, "lines that are chosen, before the rest is sampled at once", STEPS)

    def search(self, draws: Draws) -> Search:
        """Sample rollouts, adopt the first line of one, and go on from there."""
        text, adopted = "", Growth()
        memory: list[Rollout] = []
        limits = SampleLimits(self.rollout_tokens, self.heat)
        for _ in range(self.max_steps):
            replies = yield Round((Sample(text, limits),) * self.rollouts, adopted)
            for reply in replies:
                lines, score = lines_of(reply, self.lookahead)
                memory.append(Rollout(lines, exp(score)))
            memory = [rollout for rollout in memory if rollout.lines]
            if not memory:  # every rollout is empty: the model has nothing to add, or the path is at its limit
                return Growth(truncated=not all(reply.complete for reply in replies))
            line = self._choose(memory, draws)
            if line.ends:
                return line.growth
            adopted = line.growth
            text += adopted.text
            memory = [Rollout(lines[1:], value) for lines, value in memory if lines[0].continues(line)]
        (rest,) = yield Round((Sample(text, REST._replace(temperature=self.heat)),), adopted)
        last: Growth = rest.growth()
        return last

    def _choose(self, rollouts: list[Rollout], draws: Draws) -> Line:
        """The first line of the best rollout, or one that is drawn; rollouts with the same line add up."""
        if not self.select:
            return max(rollouts, key=lambda rollout: rollout.value).lines[0]
        weights: dict[tuple[str, bool], float] = {}
        lines: dict[tuple[str, bool], Line] = {}
        for rollout, weight in zip(rollouts, softmax([one.value for one in rollouts], self.select), strict=True):
            line = rollout.lines[0]
            key = line.content, line.ends
            lines.setdefault(key, line)
            weights[key] = weights.get(key, 0.0) + weight
        return list(lines.values())[draws.choose(list(weights.values()))]
