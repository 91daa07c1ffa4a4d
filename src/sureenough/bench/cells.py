"""Cells: a strategy under options, replayed on every question of a pool; all cells use the same orders of the paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from zlib import crc32

import numpy as np

from sureenough.bench.guard import ConfidenceGuard
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import OpenPool, PoolResults, Progress, Task, map_questions
from sureenough.bench.score import Row, ScoredRun, StrategyRuns, rows
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.core.confidence.array import Windows
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Question, RecordedPath
from sureenough.spec import render, resolve


class ReplayCell(NamedTuple):
    """One line of a table."""

    label: str
    strategy: str | Strategy
    options: RunOptions  # without a budget, a question's paths are all used


class CellResult(NamedTuple):
    """A cell's result on one source."""

    source: Source
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first cell, to which differences are taken


class QuestionRuns(NamedTuple):
    """All cells on one question."""

    runs: list[StrategyRuns]
    recorded: int  # paths of the question
    beliefs: list[float]  # of each cell's guards so far


class CalibrationCache:
    """Gates of one question: ablations of a strategy share a calibration on the same order."""

    def __init__(self) -> None:
        self._calibrations: list[Calibrate] = []
        self._gates: dict[tuple[int, tuple[int, ...]], Gate] = {}

    def wrap(self, strategy: Strategy) -> Strategy:
        """The strategy with cached calibration."""
        if not strategy.prunes:
            return strategy
        calibrate = strategy.calibrate
        number = self._number(calibrate)

        def cached(paths: Sequence[Windows]) -> Gate:
            key = number, tuple(map(id, paths))
            if key not in self._gates:
                self._gates[key] = calibrate(paths)
            return self._gates[key]

        return replace(strategy, calibrate=cached)

    def _number(self, calibrate: Calibrate) -> int:
        """Equal calibrations have one number; they need not be hashable."""
        for number, known in enumerate(self._calibrations):
            if known == calibrate:
                return number
        self._calibrations.append(calibrate)
        return len(self._calibrations) - 1


@dataclass(slots=True)
class ReplayCells:
    """The pipeline's task: all cells on one question. With a guard it must see the questions in order."""

    cells: tuple[ReplayCell, ...]
    repeats: int
    guard: bool
    _guards: list[list[ConfidenceGuard]] = field(default_factory=list)  # by cell and repeat

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionRuns:
        strategies = [resolve(cell.strategy) for cell in self.cells]
        if not self._guards:
            self._guards = [[ConfidenceGuard(strategy) for _ in range(self.repeats)] for strategy in strategies]
        by_cell: list[list[ScoredRun]] = [[] for _ in self.cells]
        cache = CalibrationCache()
        for repeat in range(self.repeats):
            orders: dict[tuple[int, int | None], list[RecordedPath]] = {}
            for cell, guards, scored in zip(self.cells, self._guards, by_cell, strict=True):
                key = cell.options.seed, cell.options.paths
                if key not in orders:
                    orders[key] = in_order(question, repeat, *key)
                strategy = guards[repeat].current() if self.guard else guards[repeat].strategy
                scored.append(score_run(orders[key], cache.wrap(strategy), cell.options, judged))
                if self.guard:
                    guards[repeat].learn(scored[-1].outcome.agreement)
        runs = [StrategyRuns(render(strategy)) for strategy in strategies]
        for total, scored in zip(runs, by_cell, strict=True):
            total.add(scored)
        for total, guards in zip(runs, self._guards, strict=True):
            total.sums["without confidence"] = sum(guard.take_wary() for guard in guards)
        beliefs = [sum(guard.belief for guard in guards) / len(guards) for guards in self._guards]
        return QuestionRuns(runs, len(question.paths), beliefs)


def in_order(question: Question, repeat: int, seed: int, budget: int | None) -> list[RecordedPath]:
    """The paths that a repeat may use, in its order; the same for every strategy."""
    rng = np.random.default_rng((seed, repeat, crc32(question.id.encode())))
    return [question.paths[i] for i in rng.permutation(len(question.paths))[:budget]]


def score_run(paths: list[RecordedPath], strategy: Strategy, options: RunOptions, judged: JudgedAnswers) -> ScoredRun:
    """One strategy on one order of one question."""
    if len(paths) < strategy.warmup:
        strategy = replace(strategy, warmup=len(paths))
    outcome = run_recorded(paths, strategy, replace(options, paths=len(paths)), classes=judged.classes)
    right = None if judged.right is None else float(outcome.answer is not None and judged.right[outcome.answer])
    all_tokens = sum(path.tokens for path in paths)
    return ScoredRun(right, outcome.tokens.total, min(all_tokens, options.max_tokens or all_tokens), outcome)


class Replayed(NamedTuple):
    """One source with the results of all its cells."""

    results: list[CellResult]
    opened: OpenPool
    recorded: list[int]  # paths per question
    beliefs: list[float]  # of each cell's guards, at the end


def replay_cells(
    sources: Sequence[Source],
    cells_of: Callable[[OpenPool], Sequence[ReplayCell]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Replayed]:
    """Replay every source under its cells."""
    cells: dict[int, tuple[ReplayCell, ...]] = {}

    def task_of(opened: OpenPool) -> Task[QuestionRuns]:
        chosen = cells[id(opened)] = tuple(cells_of(opened))
        for cell in chosen:
            cell.options.check_budget(resolve(cell.strategy))
        return ReplayCells(chosen, settings.repeats, settings.guard)

    passes = map_questions(sources, task_of, settings, window=window, in_order=settings.guard, progress=progress)
    return [_replayed(one, cells[id(one.opened)], settings.repeats) for one in passes]


def _replayed(questions: PoolResults[QuestionRuns], cells: tuple[ReplayCell, ...], repeats: int) -> Replayed:
    totals = [StrategyRuns(render(resolve(cell.strategy))) for cell in cells]
    for value in questions.values:
        for total, more in zip(totals, value.runs, strict=True):
            total.join(more)
    table = rows(totals, repeats, cells[0].options.seed)
    source = questions.opened.source
    results = [CellResult(source, *one, totals[0]) for one in zip(cells, table, totals, strict=True)]
    recorded = [value.recorded for value in questions.values]
    return Replayed(results, questions.opened, recorded, questions.values[-1].beliefs)


def replay_notes(replayed: Replayed, settings: ReplaySettings) -> list[str]:
    """What a reader of the table should know."""
    opened, recorded = replayed.opened, replayed.recorded
    cells = [result.cell for result in replayed.results]
    notes = []
    budget = max(cell.options.paths or 0 for cell in cells)
    short = sum(n < budget for n in recorded)
    if short:
        most = max(recorded)
        notes.append(f"{short} questions have fewer than {budget} recorded paths ({most} at most); all were used")
    warmup = max(resolve(cell.strategy).warmup for cell in cells)
    few = sum(n < warmup for n in recorded)
    if few:
        notes.append(f"{few} questions have fewer paths than a warm-up of {warmup}; all their paths warmed up")
    if settings.equal == "string":
        notes.append("answers were one candidate only if their strings are equal")
    if opened.judge.undecided:
        notes.append(
            f"{opened.judge.undecided} pairs of answers were undecided after {settings.symbolic_seconds:g} s "
            "per question and count as different; more symbolic_seconds may decide them"
        )
    if opened.damaged:
        notes.append(f"{opened.damaged} damaged rows were left out")
    return notes + _guard_notes(replayed)


def _guard_notes(replayed: Replayed) -> list[str]:
    return [
        f"{result.runs.strategy}: confidence misled (correlation with agreement {belief:+.2f}); "
        f"{result.runs.sums['without confidence']} of {result.runs.runs} runs did not use it, at a quarter of delta"
        for result, belief in zip(replayed.results, replayed.beliefs, strict=True)
        if result.runs.sums["without confidence"]
    ]
