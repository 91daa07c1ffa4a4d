"""What sampling costs: an estimate of tokens, time and money before it, and its progress while it runs.

The estimate is from a few paths that are sampled first and not kept. `record` estimates one file of questions, `bench`
every dataset and model of a plan.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sureenough.drivers.record import RecordQuestion, missing_paths, record
from sureenough.engines.base import Engine
from sureenough.errors import UsageError
from sureenough.pools import RecordedPath

SAMPLED_FIRST: Final = 4
"""Paths to estimate from."""

Money = Callable[[float, float], float | None]
"""The price of so many prompt tokens and generated tokens; None if no price was given."""


class LiveRuns(NamedTuple):
    """Runs of strategies, which sample paths of their own."""

    runs: int = 0
    paths: float = 0.0  # per run
    tokens: float | None = 0.0  # per run, by a replay; None: as if every run spent its whole budget


NO_RUNS: Final = LiveRuns()


@dataclass(frozen=True, slots=True)
class Sampling:
    """What is to be sampled from one engine."""

    questions: Sequence[RecordQuestion]
    engine: Engine
    paths: int  # per question, to record; 0 if nothing is recorded
    parallel: int
    seed: int
    recorded: Container[tuple[str, int]] = ()  # paths that are not sampled again
    live: LiveRuns = NO_RUNS
    label: str = ""  # for one of several

    @property
    def missing(self) -> int:
        """Paths to record; an earlier command may have recorded more."""
        return sum(1 for _ in missing_paths(self.questions, self.paths, self.recorded))


class Cost(NamedTuple):
    """What one or several samplings cost."""

    tokens: float
    prompt: float
    seconds: float
    bound: bool  # tokens are at most so many

    def text(self, money: Money, each: str = "", as_fast: str = "") -> str:
        about, price = "at most" if self.bound else "about", money(self.prompt, self.tokens)
        priced = f", {about} {price:,.2f} at the given prices." if price is not None else "."
        return (
            f"{about} {self.tokens:,.0f} tokens{each} and {self.prompt:,.0f} prompt tokens, "
            f"{about} {duration(self.seconds)}{as_fast}{priced}"
        )


def estimate(samplings: Sequence[Sampling], money: Money) -> str:
    """The cost in a few lines; nothing is kept."""
    pairs = [_estimate(one, money) for one in samplings]
    lines, costs = [text for text, _ in pairs], [cost for _, cost in pairs]
    if len(costs) > 1:
        tokens, prompt, seconds, bounds = zip(*costs, strict=True)
        lines.append(f"In all {Cost(sum(tokens), sum(prompt), sum(seconds), any(bounds)).text(money)}")
    return "\n".join(lines)


def _estimate(sampling: Sampling, money: Money) -> tuple[str, Cost]:
    missing, live = sampling.missing, sampling.live
    total = len(sampling.questions) * sampling.paths
    head = (sampling.label and f"{sampling.label}: ") + _plural(len(sampling.questions), "question")
    head += f", {_plural(total, 'path')}" if total else ""
    if not missing and not live.runs:
        return f"{head}, all of them recorded: there is nothing to sample.", Cost(0.0, 0.0, 0.0, False)
    if missing != total:
        head += f", of which {missing:,} are missing" if missing else ", all of them recorded"
    head += f"; {_plural(live.runs, 'live run')}" if live.runs else ""
    step = max(1, len(sampling.questions) // SAMPLED_FIRST)
    some, began = sampling.questions[::step][:SAMPLED_FIRST], time.monotonic()
    journal: Any = _NoJournal()
    result = asyncio.run(
        record(some, sampling.engine, journal, paths=1, parallel=sampling.parallel, seed=sampling.seed)
    )
    if not result.paths:
        raise result.lost or UsageError("no path was sampled, so there is nothing to estimate from")
    per_path = result.tokens / result.paths
    paths = missing + live.runs * live.paths
    tokens = missing * per_path + live.runs * (live.paths * per_path if live.tokens is None else live.tokens)
    seconds = (time.monotonic() - began) * paths / min(sampling.parallel, max(paths, 1))
    cost = Cost(tokens, result.prompt_tokens / result.paths * paths, seconds, live.tokens is None)
    as_fast = f" if {sampling.parallel} paths at once run as fast as {result.paths}"
    text = cost.text(money, f" ({per_path:,.0f} per path)", as_fast)
    return f"{head}. Estimated from {_plural(result.paths, 'sampled path')}:\n{text}", cost


def _plural(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _NoJournal(dict[tuple[str, int], RecordedPath]):
    """A journal that stores nothing."""

    def add(self, question: str, path: RecordedPath) -> None: ...


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

    def line(self) -> str:
        """The state in one line of text."""
        seconds = max(1e-9, time.monotonic() - self.began)
        line = (
            f"cell {self.cell} of {self.cells}, {self.activity}: {self.done:,} of {self.total:,} {self.unit}, "
            f"{self.questions_done:,} of {self.questions:,} questions, {self.tokens / seconds:,.0f} tokens/s"
        )
        remaining = self.total - self.done + self.later
        return f"{line}, about {duration(remaining * seconds / self.units)} left" if self.units else line


def duration(seconds: float) -> str:
    days, rest = divmod(round(seconds), 86_400)
    hours, rest = divmod(rest, 3600)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {rest // 60} min" if hours else (f"{rest // 60} min" if rest >= 120 else f"{rest} s")
