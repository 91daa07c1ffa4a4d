"""How far a run is: cells, questions, tokens per second, time left. It counts; the command line displays it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass(slots=True)
class ProgressMeter:
    """Calls `show` with itself after every step."""

    show: Callable[[ProgressMeter], None] = lambda meter: None
    cells: int = 0  # in all
    cell: int = 0  # the current one, from 1
    activity: str = ""
    unit: str = "paths"
    done: int = 0  # of this cell, with those of earlier sessions
    total: int = 0
    questions_done: int = 0
    questions: int = 0
    later: int = 0  # units of later cells of the same kind
    tokens: int = 0  # of this phase and session
    units: int = 0  # likewise
    began: float = field(default_factory=time.monotonic)

    def phase(self, unit: str, units: int) -> None:
        """Start another kind of work with so many units."""
        self.unit, self.later, self.tokens, self.units = unit, units, 0, 0
        self.began = time.monotonic()

    def begin(self, activity: str, done: int, total: int, questions_done: int, questions: int) -> None:
        self.cell += 1
        self.activity, self.done, self.total = activity, done, total
        self.questions_done, self.questions = questions_done, questions
        self.later -= total
        self.show(self)

    def step(self, tokens: int, question_complete: bool) -> None:
        self.done += 1
        self.units += 1
        self.tokens += tokens
        self.questions_done += question_complete
        self.show(self)

    @property
    def rate(self) -> float:
        """Tokens per second in this phase."""
        return self.tokens / max(1e-9, time.monotonic() - self.began)

    @property
    def seconds_left(self) -> float | None:
        """Of this phase, by the rate so far."""
        if not self.units:
            return None
        return (self.total - self.done + self.later) * (time.monotonic() - self.began) / self.units

    def line(self) -> str:
        """The state in one line of text."""
        left = self.seconds_left
        return (
            f"cell {self.cell} of {self.cells}, {self.activity}: {self.done:,} of {self.total:,} {self.unit}, "
            f"{self.questions_done:,} of {self.questions:,} questions, {self.rate:,.0f} tokens/s"
            + (f", about {duration(left)} left" if left is not None else "")
        )


def duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else (f"{rest // 60} min" if rest >= 120 else f"{rest} s")
