"""Cells: a strategy under options, replayed on every question of a pool; all cells use the same orders of the paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

from sureenough.bench.pipeline import (
    OpenPool,
    PathCounter,
    PoolRows,
    Progress,
    open_pool,
    run_rows,
    run_tasks,
    whole_pool,
)
from sureenough.bench.processes import Processes
from sureenough.bench.replay_units import LearningPass, QuestionRuns, ReplayCell, ReplayCells, ReplayUnit, UnitRuns
from sureenough.bench.result import QuestionAnswers
from sureenough.bench.score import Row, StrategyRuns, join_repeats, mean_state, rows
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.bench.summaries import SummarisedQuestion
from sureenough.core.learning import LearnerState
from sureenough.spec import resolve


class CellResult(NamedTuple):
    """A cell's result on one source."""

    source: Source
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first cell, to which differences are taken
    states: list[list[LearnerState]]  # after each question, in every repeat, if the cell learns
    paths: list[int]  # recorded, per question
    questions: list[QuestionAnswers]  # of the source; empty if only totals were needed


def reference_cell(cells: Sequence[ReplayCell]) -> int:
    """The cell that others are measured against: sc with the largest budget, else the first."""
    plain = [i for i, cell in enumerate(cells) if resolve(cell.strategy).name == "sc"]
    return max(plain, key=lambda i: cells[i].options.paths or inf, default=0)


class Replayed(NamedTuple):
    """One source with the results of all its cells."""

    results: list[CellResult]
    opened: OpenPool
    recorded: list[int]  # paths per question
    questions: list[QuestionAnswers]  # empty if only totals were needed


KEPT_ROWS: Final = 200_000
"""Cells that learn read the summaries of a pool with so many paths from memory; a larger pool is read again."""


def replay_cells(
    sources: Sequence[Source],
    cells_of: Callable[[OpenPool], Sequence[ReplayCell]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
    totals_only: bool = False,
) -> list[Replayed]:
    """Replay every source under its cells; with `totals_only`, the answers of single questions are not kept."""
    opened = [open_pool(source, settings, window) for source in sources]
    cells = [tuple(cells_of(pool)) for pool in opened]
    for cell in (cell for of_pool in cells for cell in of_pool):
        cell.options.check_budget(resolve(cell.strategy))
    jobs = settings.jobs
    learning = [_learning_units(of_pool, settings.repeats, jobs) for of_pool in cells]
    passes = [1 + len(dealt) for dealt in learning]
    counter = PathCounter(progress, sum(pool.pool.rows * n for pool, n in zip(opened, passes, strict=True)))
    with Processes(jobs) as processes:
        first = [_first_task(*one, settings.repeats, jobs, totals_only) for one in zip(opened, cells, strict=True)]
        results = run_tasks(list(zip(opened, first, strict=True)), processes, counter)
        read = [task.join(one.values) for task, one in zip(first, results, strict=True)]
        parts = [[(task, value.units)] for task, value in zip(first, read, strict=True)]
        later = [
            (i, ReplayCells(cells[i], units, totals_only=totals_only))
            for i, dealt in enumerate(learning)
            for units in dealt
        ]
        work = [_learning_pass(opened[i], task, read[i].summaries) for i, task in later]
        for number, runs in processes.run(_learn, work):
            i, task = later[number]
            parts[i].append((task, runs))
            counter(opened[i].pool.rows)
    return [_replayed(*one, settings.repeats) for one in zip(opened, cells, parts, read, strict=True)]


def _learns(cell: ReplayCell) -> bool:
    return resolve(cell.strategy).state is not None


def _needs_signals(cell: ReplayCell) -> bool:
    """Whether summaries of the paths are not enough."""
    return resolve(cell.strategy).prunes


def _first_task(
    opened: OpenPool, cells: tuple[ReplayCell, ...], repeats: int, jobs: int, totals_only: bool
) -> ReplayCells:
    """What is done while the pool is read: everything in one process; with several, what does not learn.

    The questions of a cell that learns cannot be split. It gets its turn when all are read, and needs their summaries.
    """
    later = [number for number, cell in enumerate(cells) if jobs > 1 and _learns(cell)]
    every = tuple(range(repeats))
    units = [
        ReplayUnit(number, orders)
        for number, cell in enumerate(cells)
        if number not in later
        for orders in ([(repeat,) for repeat in every] if _learns(cell) else [every])
    ]
    kept = [number for number in later if opened.pool.rows <= KEPT_ROWS and not _needs_signals(cells[number])]
    windows = frozenset(cells[number].options.window or 1 for number in kept)
    return ReplayCells(cells, tuple(units), windows, totals_only)


def _learning_pass(
    opened: OpenPool, task: ReplayCells, summaries: list[dict[int, SummarisedQuestion]]
) -> LearningPass | PoolRows[QuestionRuns]:
    """From the summaries, or from the file once more."""
    again = not summaries or _needs_signals(task.cells[task.units[0].cell])
    return whole_pool(opened, task) if again else LearningPass(task, summaries)


def _learn(work: LearningPass | PoolRows[QuestionRuns]) -> UnitRuns:
    """One share of the cells that learn, over all questions; runs in a worker if there are several."""
    return work.run() if isinstance(work, LearningPass) else run_rows(work).values[0].units


def _learning_units(cells: tuple[ReplayCell, ...], repeats: int, jobs: int) -> list[tuple[ReplayUnit, ...]]:
    """With several processes, the repeats of cells that learn are dealt out to them.

    Those that need signals read the file again, so they are dealt out apart.
    """
    if jobs == 1:
        return []
    dealt: list[tuple[ReplayUnit, ...]] = []
    for signals in (True, False):
        numbers = [n for n, cell in enumerate(cells) if _learns(cell) and _needs_signals(cell) == signals]
        units = [ReplayUnit(number, (repeat,)) for repeat in range(repeats) for number in numbers]
        dealt += [tuple(units[start::jobs]) for start in range(min(jobs, len(units)))]
    return dealt


def _replayed(
    opened: OpenPool,
    cells: tuple[ReplayCell, ...],
    parts: list[tuple[ReplayCells, UnitRuns]],
    read: QuestionRuns,
    repeats: int,
) -> Replayed:
    totals: list[StrategyRuns] = []
    states: list[list[list[LearnerState]]] = []
    for cell in range(len(cells)):
        units = sorted(
            (unit.repeats, number, place)
            for place, (task, _) in enumerate(parts)
            for number, unit in enumerate(task.units)
            if unit.cell == cell
        )
        totals.append(join_repeats([parts[place][1].runs[number] for _, number, place in units]))
        by_unit = [[state[number] for state in parts[place][1].states] for _, number, place in units]
        states.append([[one for one in of_question if one is not None] for of_question in zip(*by_unit, strict=True)])
    table = rows(totals, repeats, cells[0].options.seed)
    results = [
        CellResult(opened.source, cell, replace(row, learned=mean_state(resolve(cell.strategy), learned[-1])), total,
                   totals[0], learned, read.paths, read.recorded)
        for cell, row, total, learned in zip(cells, table, totals, states, strict=True)
    ]  # fmt: skip
    return Replayed(results, opened, read.paths, read.recorded)
