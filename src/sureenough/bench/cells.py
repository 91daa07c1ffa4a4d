"""Cells: a strategy under options, replayed on every question of a pool; all cells use the same orders of the paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import NamedTuple

from sureenough.bench.pipeline import OpenPool, PathCounter, Processes, Progress, open_pool, run_tasks
from sureenough.bench.replay_units import LearningPass, ReplayCell, ReplayCells, ReplayUnit, UnitRuns
from sureenough.bench.result import QuestionAnswers
from sureenough.bench.score import Row, StrategyRuns, join_repeats, mean_state, rows
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.core.learning import LearnerState
from sureenough.spec import render, resolve


class CellResult(NamedTuple):
    """A cell's result on one source."""

    source: Source
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first cell, to which differences are taken
    states: list[list[LearnerState]]  # after each question, in every repeat, if the cell learns
    by_question: list[StrategyRuns]  # the same runs, one question each


def reference_cell(cells: Sequence[ReplayCell]) -> int:
    """The cell that others are measured against: sc with the largest budget, else the first."""
    plain = [i for i, cell in enumerate(cells) if resolve(cell.strategy).name == "sc"]
    return max(plain, key=lambda i: cells[i].options.paths or inf, default=0)


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
    if any(_learns(cell) and resolve(cell.strategy).probe is not None for of_pool in cells for cell in of_pool):
        settings = replace(settings, jobs=1)  # the summaries that other processes would need have no probes
    learning = [_learning_units(of_pool, settings) for of_pool in cells]
    passes = [1 + len(dealt) for dealt in learning]
    counter = PathCounter(progress, sum(pool.pool.rows * n for pool, n in zip(opened, passes, strict=True)))
    with Processes(settings.jobs) as processes:
        first = [ReplayCells(of_pool, *_first_units(of_pool, settings)) for of_pool in cells]
        read = [one.values for one in run_tasks(list(zip(opened, first, strict=True)), processes, counter)]
        parts = [[(task, [one.units for one in values])] for task, values in zip(first, read, strict=True)]
        later = [
            (i, LearningPass(ReplayCells(cells[i], units), [one.summaries for one in read[i]]))
            for i, dealt in enumerate(learning)
            for units in dealt
        ]
        for number, values in processes.run(LearningPass.run, [one for _, one in later]):
            i, one = later[number]
            parts[i].append((one.task, values))
            counter(opened[i].pool.rows)
    recorded = [[one.recorded for one in values] for values in read]
    return [_replayed(*one, settings.repeats) for one in zip(opened, cells, parts, recorded, strict=True)]


def _learns(cell: ReplayCell) -> bool:
    return resolve(cell.strategy).state is not None


def _first_units(
    cells: tuple[ReplayCell, ...], settings: ReplaySettings
) -> tuple[tuple[ReplayUnit, ...], frozenset[int]]:
    """What is done while the pool is read: everything in one process; with several, what does not learn.

    The questions of a cell that learns cannot be split. It gets its turn when all are read, and needs their summaries.
    """
    later = [number for number, cell in enumerate(cells) if settings.jobs > 1 and _learns(cell)]
    every = tuple(range(settings.repeats))
    units = [
        ReplayUnit(number, repeats)
        for number, cell in enumerate(cells)
        if number not in later
        for repeats in ([(repeat,) for repeat in every] if _learns(cell) else [every])
    ]
    return tuple(units), frozenset(cells[number].options.window or 1 for number in later)


def _learning_units(cells: tuple[ReplayCell, ...], settings: ReplaySettings) -> list[tuple[ReplayUnit, ...]]:
    """With several processes, the repeats of cells that learn are dealt out to them."""
    if settings.jobs == 1:
        return []
    numbers = [number for number, cell in enumerate(cells) if _learns(cell)]
    units = [ReplayUnit(number, (repeat,)) for repeat in range(settings.repeats) for number in numbers]
    return [tuple(units[start :: settings.jobs]) for start in range(min(settings.jobs, len(units)))]


def _replayed(
    opened: OpenPool,
    cells: tuple[ReplayCell, ...],
    values: list[tuple[ReplayCells, list[UnitRuns]]],
    recorded: list[QuestionAnswers],
    repeats: int,
) -> Replayed:
    """Join the units of each cell, question by question."""
    totals, states, by_question = [], [], []
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
