"""How far a run is: cells, questions, tokens a second, time left. It counts; somebody else shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ProgressMeter:
    """Told of every step; tells `show` of itself."""

    show: Callable[[ProgressMeter], None] = lambda meter: None
    cells: int = 0  # in all
    cell: int = 0  # the one at work, from 1
    doing: str = ""
    unit: str = "paths"
    done: int = 0  # of this cell, earlier sessions' too
    total: int = 0
    questions_done: int = 0
    questions: int = 0
    ahead: int = 0  # units of later cells of the same kind
    tokens: int = 0  # of this phase and session
    made: int = 0  # units likewise
    began: float = field(default_factory=time.monotonic)

    def phase(self, unit: str, ahead: int) -> None:
        """Another kind of work begins, with so many units before it."""
        self.unit, self.ahead, self.tokens, self.made = unit, ahead, 0, 0
        self.began = time.monotonic()

    def begin(self, doing: str, done: int, total: int, questions_done: int, questions: int) -> None:
        """The next cell."""
        self.cell += 1
        self.doing, self.done, self.total = doing, done, total
        self.questions_done, self.questions = questions_done, questions
        self.ahead -= total
        self.show(self)

    def step(self, tokens: int, whole_question: bool) -> None:
        """One more unit."""
        self.done += 1
        self.made += 1
        self.tokens += tokens
        self.questions_done += whole_question
        self.show(self)

    @property
    def rate(self) -> float:
        """Tokens a second in this phase."""
        return self.tokens / max(1e-9, time.monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """Of this phase, by the pace so far."""
        if not self.made:
            return None
        return (self.total - self.done + self.ahead) * (time.monotonic() - self.began) / self.made

    def line(self) -> str:
        """All of it for people."""
        left = self.seconds_left
        return (
            f"cell {self.cell} of {self.cells}, {self.doing}: {self.done:,} of {self.total:,} {self.unit}, "
            f"{self.questions_done:,} of {self.questions:,} questions, {self.rate:,.0f} tokens/s"
            + (f", about {clock(left)} left" if left is not None else "")
        )


def clock(seconds: float) -> str:
    """A time for people."""
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else (f"{rest // 60} min" if rest >= 120 else f"{rest} s")
