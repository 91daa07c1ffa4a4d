"""Cells: a strategy under options, replayed on every question of a pool; all cells use the same orders of the paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import NamedTuple
from zlib import crc32

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import OpenPool, PathCounter, Progress, open_pool, run_tasks
from sureenough.bench.result import AnswerGroup, QuestionAnswers
from sureenough.bench.score import Row, ScoredRun, StrategyRuns, join_repeats, mean_state, rows
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.core.confidence.array import Windows
from sureenough.core.learning import LearnerState
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
    states: list[list[LearnerState]]  # after each question, in every repeat, if the cell learns
    by_question: list[StrategyRuns]  # the same runs, one question each


class ReplayUnit(NamedTuple):
    """What one process does without a break: a cell in some repeats; one repeat of a cell that learns."""

    cell: int
    repeats: tuple[int, ...]


class QuestionRuns(NamedTuple):
    """All units of a task on one question."""

    runs: list[StrategyRuns]
    recorded: QuestionAnswers
    states: list[LearnerState | None]  # of each unit, after the question


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
    """The pipeline's task: units on one question. If a cell learns, it must see the questions in order."""

    cells: tuple[ReplayCell, ...]
    units: tuple[ReplayUnit, ...]
    _states: list[LearnerState | None] = field(default_factory=list)  # by unit

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionRuns:
        strategies = [resolve(self.cells[unit.cell].strategy) for unit in self.units]
        self._states = self._states or [strategy.state for strategy in strategies]
        by_unit: list[list[ScoredRun]] = [[] for _ in self.units]
        cache = CalibrationCache()
        for repeat in sorted({repeat for unit in self.units for repeat in unit.repeats}):
            orders: dict[tuple[int, int | None], list[RecordedPath]] = {}
            for number, (unit, strategy) in enumerate(zip(self.units, strategies, strict=True)):
                if repeat not in unit.repeats:
                    continue
                options = self.cells[unit.cell].options
                key = options.seed, options.paths
                if key not in orders:
                    orders[key] = in_order(question, repeat, *key)
                state = self._states[number]
                current = cache.wrap(strategy if state is None else strategy.with_state(state))
                scored = score_run(orders[key], current, options, judged)
                by_unit[number].append(scored)
                if state is not None:
                    self._states[number] = state.receive(scored.outcome)
        runs = [StrategyRuns(render(strategy)) for strategy in strategies]
        for total, scored_runs in zip(runs, by_unit, strict=True):
            total.add(scored_runs)
        return QuestionRuns(runs, answers_of(question, judged), [*self._states])


def reference_cell(cells: Sequence[ReplayCell]) -> int:
    """The cell that others are measured against: sc with the largest budget, else the first."""
    plain = [i for i, cell in enumerate(cells) if resolve(cell.strategy).name == "sc"]
    return max(plain, key=lambda i: cells[i].options.paths or inf, default=0)


def answers_of(question: Question, judged: JudgedAnswers) -> QuestionAnswers:
    """A question's paths by what they answer, the most frequent answer first."""
    groups: dict[int | None, AnswerGroup] = {}
    for position, path in enumerate(question.paths):
        right = judged.right.get(path.answer or "", False) if judged.right is not None else None
        group = groups.setdefault(judged.classes.get(path.answer or ""), AnswerGroup(path.answer, right, [], []))
        group.paths.append(position if path.number is None else path.number)
        group.tokens.append(path.tokens)
    answers = sorted(groups.values(), key=lambda group: -len(group.paths))
    return QuestionAnswers(question.id, question.gold, answers)


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
    spent = outcome.tokens.total
    answer_class = None if outcome.answer is None else judged.classes.get(outcome.answer)
    return ScoredRun(right, spent, min(all_tokens, options.max_tokens or all_tokens), outcome, answer_class)


class Replayed(NamedTuple):
    """One source with the results of all its cells."""

    results: list[CellResult]
    opened: OpenPool
    questions: list[QuestionAnswers]

    @property
    def recorded(self) -> list[int]:
        """Paths per question."""
        return [sum(len(group.paths) for group in question.answers) for question in self.questions]


def replay_cells(
    sources: Sequence[Source],
    cells_of: Callable[[OpenPool], Sequence[ReplayCell]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
) -> list[Replayed]:
    """Replay every source under its cells."""
    opened = [open_pool(source, settings, window) for source in sources]
    cells = [tuple(cells_of(pool)) for pool in opened]
    for cell in (cell for of_pool in cells for cell in of_pool):
        cell.options.check_budget(resolve(cell.strategy))
    plans = [_passes(of_pool, settings) for of_pool in cells]
    rows = [pool.pool.rows * sum(map(len, plan)) for pool, plan in zip(opened, plans, strict=True)]
    counter = PathCounter(progress, sum(rows))
    values: list[list[tuple[ReplayCells, list[QuestionRuns]]]] = [[] for _ in opened]
    for number in (0, 1):  # the first pass judges all answers, before processes read the same pool side by side
        owners = [i for i, plan in enumerate(plans) for _ in plan[number]]
        tasks = [(opened[i], task) for i, plan in enumerate(plans) for task in plan[number]]
        for owner, (_, task), one in zip(
            owners, tasks, run_tasks(tasks, settings.jobs, counter, whole=number == 1), strict=True
        ):
            values[owner].append((task, one.values))
    return [_replayed(*one, settings.repeats) for one in zip(opened, cells, values, strict=True)]


def _passes(cells: tuple[ReplayCell, ...], settings: ReplaySettings) -> tuple[list[ReplayCells], list[ReplayCells]]:
    """The tasks that may be split over processes, and the whole ones.

    A repeat of a cell that learns is never split; with several processes, such repeats are dealt out to them.
    """
    every = tuple(range(settings.repeats))
    learns = [resolve(cell.strategy).state is not None for cell in cells]
    plain = [ReplayUnit(cell, every) for cell in range(len(cells)) if not learns[cell]]
    learning = [ReplayUnit(cell, (repeat,)) for repeat in every for cell in range(len(cells)) if learns[cell]]
    if settings.jobs == 1 or not learning:
        return [ReplayCells(cells, (*plain, *learning))], []
    dealt = [learning[start :: settings.jobs] for start in range(min(settings.jobs, len(learning)))]
    return [ReplayCells(cells, tuple(plain))], [ReplayCells(cells, tuple(units)) for units in dealt]


def _replayed(
    opened: OpenPool,
    cells: tuple[ReplayCell, ...],
    values: list[tuple[ReplayCells, list[QuestionRuns]]],
    repeats: int,
) -> Replayed:
    """Join the units of each cell, question by question."""
    totals, states, by_question = [], [], []
    recorded = [question.recorded for question in values[0][1]]
    for cell in range(len(cells)):
        units = sorted(
            (unit.repeats, number, questions)
            for task, questions in values
            for number, unit in enumerate(task.units)
            if unit.cell == cell
        )
        total, learned, single = StrategyRuns(render(resolve(cells[cell].strategy))), [], []
        for question in range(len(recorded)):
            single.append(join_repeats([questions[question].runs[number] for _, number, questions in units]))
            total.join(single[-1])
            learned.append([questions[question].states[number] for _, number, questions in units])
        totals.append(total)
        by_question.append(single)
        states.append([[state for state in of_question if state is not None] for of_question in learned])
    table = rows(totals, repeats, cells[0].options.seed)
    table = [
        replace(row, learned=mean_state(resolve(cell.strategy), of_cell[-1]))
        for cell, row, of_cell in zip(cells, table, states, strict=True)
    ]
    joined = zip(cells, table, totals, states, by_question, strict=True)
    results = [
        CellResult(opened.source, cell, row, total, totals[0], of_cell, single)
        for cell, row, total, of_cell, single in joined
    ]
    return Replayed(results, opened, recorded)
