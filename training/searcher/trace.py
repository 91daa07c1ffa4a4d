"""A written search: its text, its answer, and the best answer at every point of it."""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field
from random import Random

ANSWER = "The answer is \\boxed{{{}}}."
GIVEN_UP = "No answer."
LONGEST = 3_900
"""Tokens of a whole trace; a token is a byte."""


@dataclass(slots=True)
class Trace:
    """Lines as they are written; a search that has used up its states, or its room, ends."""

    states: int  # how many it may visit
    text: str = ""
    visited: int = 0
    best: int | None = None
    answer: int | None = None
    improved: list[tuple[int, int]] = field(default_factory=list)  # the length of the text, and the best from there on

    def write(self, text: str) -> None:
        self.text += text

    def improve(self, best: int) -> None:
        """Remember a better answer; the mark of it is the next thing written."""
        self.best = best
        self.write("!")
        self.improved.append((len(self.text), best))

    @property
    def exhausted(self) -> bool:
        return self.visited >= self.states or len(self.text) > LONGEST - 500

    def end(self, answer: int | None) -> None:
        """The last line: a box, or that there is none."""
        self.answer = answer
        self.write(GIVEN_UP if answer is None else ANSWER.format(answer))

    def cut(self, rng: Random) -> tuple[str, str]:
        """The text up to some point, and the answer at that point."""
        offsets = [offset for offset, _ in self.improved]
        if not offsets:
            return self.text, ""
        at = rng.randint(min(offsets[0], len(self.text) - 40), len(self.text) - 40)
        best = self.improved[max(0, bisect_right(offsets, at) - 1)][1]
        return self.text[:at], "\n" + ANSWER.format(best)
