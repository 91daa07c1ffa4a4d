"""From single runs to a row of the table: means, and intervals by resampling questions.

A question's repeats stay together: they share its difficulty, so they are one unit of evidence.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from sureenough.core.confidence.instability import Floats
from sureenough.core.events import Json, Tier
from sureenough.core.outcome import BUCKETS, Outcome
from sureenough.core.stop_rules import exceeds_share

RESAMPLES: Final = 2000
CONFIDENT: Final = 0.95
"""The paper's tau: a wrong answer is a confident one when its posterior passed this."""


class Interval(NamedTuple):
    """A 95% interval."""

    low: float
    high: float


class ScoredRun(NamedTuple):
    """What the table needs of one outcome."""

    right: float | None  # 1 or 0; None where the question has no gold answer
    tokens: int
    plain: int  # what plain voting would have spent on the same paths
    outcome: Outcome


@dataclass(frozen=True, slots=True)
class Row:
    """One strategy over a whole pool."""

    strategy: str
    accuracy: float  # 0..1; NaN where no question has a gold answer
    interval: Interval
    difference: float  # to the first strategy
    difference_interval: Interval
    tokens: float  # mean a question and repeat
    saving: float  # tokens of plain voting on the same paths, over ours
    steps: float
    width: float  # paths started
    pruned: float  # paths a question
    tiers: dict[str, float]  # by test
    buckets: dict[str, float]  # tokens by fate
    reasons: dict[str, float]  # share of runs by why they ended
    questions: int
    graded: int  # questions with a gold answer
    repeats: int
    weight: str | None = None  # how votes were scaled
    notes: tuple[str, ...] = ()

    def to_json(self) -> Json:
        """As plain JSON values, NaN as null."""
        data = {name: getattr(self, name) for name in self.__slots__}
        data["interval"] = list(self.interval)
        data["difference_interval"] = list(self.difference_interval)
        data["notes"] = list(self.notes)
        cleaned: Json = _without_nan(data)
        return cleaned


@dataclass(slots=True)
class StrategyRuns:
    """All runs of one strategy, question by question; holds sums, not runs."""

    strategy: str
    right: list[float] = field(default_factory=list)  # by question, mean over repeats; NaN ungraded
    runs: int = 0
    questions: int = 0
    weight: str | None = None
    sums: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)  # by their first words
    examples: dict[str, str] = field(default_factory=dict)

    def add(self, runs: list[ScoredRun]) -> None:
        """All repeats of one question."""
        graded = [run.right for run in runs if run.right is not None]
        self.right.append(float(np.mean(graded)) if graded else float("nan"))
        self.questions += 1
        for run in runs:
            self._count(run)

    def _count(self, run: ScoredRun) -> None:
        out = run.outcome
        self.runs += 1
        self.weight = out.weight
        self.reasons[out.reason] += 1
        for note in out.notes:
            self.notes[note.split(":")[0]] += 1
            self.examples[note.split(":")[0]] = note
        spent = out.tokens
        for name in BUCKETS:
            self.sums["tokens " + name] += getattr(spent, name)
        for tier in Tier:
            self.sums["tier " + tier] += out.tiers.get(tier, 0)
        self.sums.update(
            {"tokens": run.tokens, "plain": run.plain, "steps": out.steps, "width": out.started, "pruned": out.pruned}
        )
        if run.right == 0.0:
            self.sums["wrong"] += 1
            if posterior(out) > CONFIDENT:
                self.sums.update({"confident wrong": 1, "tokens confident wrong": run.tokens})

    def join(self, more: StrategyRuns) -> None:
        """Take over the runs of further questions."""
        self.right += more.right
        self.runs += more.runs
        self.questions += more.questions
        self.weight = more.weight
        for mine, theirs in ((self.sums, more.sums), (self.reasons, more.reasons), (self.notes, more.notes)):
            mine.update(theirs)
        self.examples |= more.examples

    def mean(self, name: str) -> float:
        """Mean a run."""
        return self.sums[name] / self.runs


def posterior(out: Outcome) -> float:
    """The chance that the winner holds most of the votes, by the weights of its own strategy (the paper's test)."""
    weights = list(out.votes.values())
    return exceeds_share(1.0 + weights[0], 1.0 + sum(weights[1:]), 0.5) if weights else 0.0


def rows(sheets: list[StrategyRuns], repeats: int, seed: int) -> list[Row]:
    """The table; differences are to the first strategy, on the same resampled questions."""
    marks = [np.array(sheet.right) for sheet in sheets]
    graded = np.isfinite(marks[0])
    marks = [mark[graded] for mark in marks]
    values = np.stack([*marks, *(mark - marks[0] for mark in marks)], axis=1)
    bounds = intervals(values, seed)
    return [
        _row(sheet, mark, marks[0], (bounds[i], bounds[len(sheets) + i]), repeats)
        for i, (sheet, mark) in enumerate(zip(sheets, marks, strict=True))
    ]


def _row(sheet: StrategyRuns, mark: Floats, first: Floats, bounds: tuple[Interval, Interval], repeats: int) -> Row:
    tokens = sheet.mean("tokens")
    return Row(
        strategy=sheet.strategy,
        accuracy=float(mark.mean()) if len(mark) else float("nan"),
        interval=bounds[0],
        difference=float((mark - first).mean()) if len(mark) else float("nan"),
        difference_interval=bounds[1],
        tokens=tokens,
        saving=sheet.mean("plain") / tokens if tokens else float("nan"),
        steps=sheet.mean("steps"),
        width=sheet.mean("width"),
        pruned=sheet.mean("pruned"),
        tiers={str(tier): sheet.mean("tier " + tier) for tier in Tier},
        buckets={name: sheet.mean("tokens " + name) for name in BUCKETS},
        reasons={reason: n / sheet.runs for reason, n in sheet.reasons.most_common()},
        questions=sheet.questions,
        graded=len(mark),
        repeats=repeats,
        weight=sheet.weight,
        notes=tuple(f"{sheet.examples[note]} ({n} of {sheet.runs} runs)" for note, n in sheet.notes.most_common()),
    )


def intervals(values: Floats, seed: int) -> list[Interval]:
    """95% intervals of the means of the columns; every column sees the same resampled questions."""
    questions, columns = values.shape
    if questions == 0:
        return [Interval(float("nan"), float("nan"))] * columns
    rng = np.random.default_rng(seed)
    even = np.full(questions, 1.0 / questions)
    means = np.concatenate([rng.multinomial(questions, even, size=100) @ values for _ in range(RESAMPLES // 100)])
    low, high = np.percentile(means / questions, (2.5, 97.5), axis=0)
    return [Interval(*pair) for pair in zip(low.tolist(), high.tolist(), strict=True)]


def _without_nan(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_without_nan(item) for item in value]
    return None if isinstance(value, float) and not np.isfinite(value) else value
