"""Replayed cells: strategies under settings, on every question of every pool, over all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple, TypeVar

from sureenough.bench.experiments.inputs import ExperimentSettings, Inputs
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.parallel import OpenPool, PoolResults, Task, map_questions
from sureenough.bench.replay_pass import CalibrationCache, ReplayPass, ReplaySettings
from sureenough.bench.score import Row, StrategyRuns, rows
from sureenough.bench.source import Source
from sureenough.core.options import RunOptions, check_count, check_seed
from sureenough.errors import UsageError
from sureenough.pools import Question
from sureenough.spec import resolve

T = TypeVar("T")
PAPER_BUDGET: Final = 512


class ReplayCell(NamedTuple):
    """One line of a table: a strategy under settings, and what to call it."""

    label: str
    strategy: str
    settings: ReplaySettings


class CellResult(NamedTuple):
    """A cell's result on one source."""

    source: Source
    cell: ReplayCell
    row: Row
    sheet: StrategyRuns
    first: StrategyRuns  # what differences are to


class QuestionRuns(NamedTuple):
    """One question: a sheet a cell."""

    sheets: list[StrategyRuns]
    recorded: int


@dataclass(frozen=True, slots=True)
class ReplayCells:
    """The task: all cells on one question."""

    cells: tuple[ReplayCell, ...]

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionRuns:
        """Cells of equal settings run side by side on each order."""
        remembered = CalibrationCache()
        by_settings: dict[ReplaySettings, list[int]] = {}
        for i, cell in enumerate(self.cells):
            by_settings.setdefault(cell.settings, []).append(i)
        sheets: dict[int, StrategyRuns] = {}
        for settings, places in by_settings.items():
            work = ReplayPass([resolve(self.cells[i].strategy) for i in places], settings)
            work.question(question, judged, remembered)
            sheets |= dict(zip(places, work.sheets, strict=True))
        return QuestionRuns([sheets[i] for i in range(len(self.cells))], len(question.paths))


CellsOf = Callable[[OpenPool], Sequence[ReplayCell]]


def replayed(
    inputs: Inputs, cells_of: CellsOf
) -> tuple[list[list[CellResult]], list[PoolResults[QuestionRuns]], list[str]]:
    """Lines by source, what was read, and what a reader should know."""
    settings = inputs.settings
    refuse_bad_settings(settings)
    planned: dict[int, tuple[ReplayCell, ...]] = {}

    def task_of(opened: OpenPool) -> Task[QuestionRuns]:
        cells = planned[id(opened)] = tuple(cells_of(opened))
        for cell in cells:
            cell.settings.options.check_budget(resolve(cell.strategy))
        return ReplayCells(cells)

    seen = over_pools(inputs, task_of)
    lines = [_lines(one, planned[id(one.opened)], settings) for one in seen]
    notes = [note for one in seen for note in _notes(one, planned[id(one.opened)])]
    return lines, seen, notes


def named(
    inputs: Inputs, names: Sequence[str]
) -> tuple[list[list[CellResult]], list[PoolResults[QuestionRuns]], list[str]]:
    """The same for strategies as they are named, with the caller's settings."""
    return replayed(
        inputs, lambda pool: [ReplayCell(name, name, settings_of(inputs.settings, pool.window)) for name in names]
    )


def over_pools(inputs: Inputs, task_of: Callable[[OpenPool], Task[T]]) -> list[PoolResults[T]]:
    """Every source under its task, with the caller's settings."""
    if not inputs.sources:
        raise UsageError("this experiment replays recorded paths: name a pool, or record one with `sureenough record`")
    settings = inputs.settings
    return map_questions(
        inputs.sources,
        task_of,
        jobs=settings.jobs,
        window=settings.window,
        symbolic_seconds=settings.symbolic_seconds,
        equal=settings.equal,
        skip_damaged=settings.skip_damaged,
        progress=inputs.progress,
    )


def settings_of(settings: ExperimentSettings, window: int, **changes: int | None) -> ReplaySettings:
    """A cell's settings: the caller's, in the paper's budget, changed where a sweep says so."""
    options = RunOptions(
        paths=settings.paths or PAPER_BUDGET, window=window, parallel=settings.parallel, seed=settings.seed
    )
    return ReplaySettings(replace(options, **changes), settings.repeats)  # type: ignore[arg-type]  # only sizes change


def refuse_bad_settings(settings: ExperimentSettings) -> None:
    """Before anything is read."""
    check_count("repeats", settings.repeats)
    check_count("jobs", settings.jobs)
    check_seed("seed", settings.seed)
    for name in settings.strategies or ():
        resolve(name)


def _lines(
    seen: PoolResults[QuestionRuns], cells: tuple[ReplayCell, ...], settings: ExperimentSettings
) -> list[CellResult]:
    sheets = [StrategyRuns(resolve(cell.strategy).name) for cell in cells]
    for value in seen.values:
        for sheet, more in zip(sheets, value.sheets, strict=True):
            sheet.strategy = more.strategy
            sheet.join(more)
    table = rows(sheets, settings.repeats, settings.seed)
    together = zip(cells, table, sheets, strict=True)
    return [CellResult(seen.opened.source, cell, row, sheet, sheets[0]) for cell, row, sheet in together]


def _notes(seen: PoolResults[QuestionRuns], cells: tuple[ReplayCell, ...]) -> list[str]:
    name, groups = seen.opened.source.dataset, seen.opened.groups
    budget = max(cell.settings.options.paths or 0 for cell in cells)
    recorded = [value.recorded for value in seen.values]
    short = sum(n < budget for n in recorded)
    notes = []
    if short:
        most = max(recorded)
        notes.append(
            f"{name}: {short} questions have fewer than {budget} recorded paths ({most} at most); all were used"
        )
    need = max(resolve(cell.strategy).warmup for cell in cells)
    few = sum(n < need for n in recorded)
    if few:
        notes.append(f"{name}: {few} questions have fewer paths than a warm-up of {need}; all their paths warmed up")
    if groups.equal == "string":
        notes.append(f"{name}: answers were one candidate only where their strings are equal")
    if groups.unsettled:
        notes.append(f"{name}: {groups.unsettled} pairs of answers were not settled in {groups.symbolic_seconds:g} s")
    if seen.opened.damaged:
        notes.append(f"{name}: {seen.opened.damaged} damaged rows were left out")
    return notes
