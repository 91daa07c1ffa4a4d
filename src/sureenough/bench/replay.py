"""Strategies under options, replayed on every question of a pool; all use the same orders of a question's paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from math import inf
from typing import Final, NamedTuple, Protocol, TypeVar
from zlib import crc32

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import (
    OpenPool,
    PathCounter,
    PoolRows,
    Processes,
    Progress,
    ReplaySettings,
    Source,
    open_pool,
    run_rows,
    run_tasks,
    whole_pool,
)
from sureenough.bench.published_grader import math_verify_version
from sureenough.bench.result import AnswerGroup, QuestionAnswers
from sureenough.bench.score import Row, ScoredRun, StrategyRuns, join_repeats, mean_state, rows
from sureenough.core.confidence import Windows
from sureenough.core.events import Json
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions, fitting_warmup
from sureenough.core.outcome import Outcome
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Pool, Question, RecordedPath, SummarisedPath, scan_together
from sureenough.spec import parse, render, resolve

P = TypeVar("P")
P_co = TypeVar("P_co", covariant=True)


class HasPaths(Protocol[P_co]):
    """A question, with signals or without."""

    @property
    def id(self) -> str: ...
    @property
    def paths(self) -> Sequence[P_co]: ...


class SummarisedQuestion(NamedTuple):
    """What strategies that do not prune read of a question."""

    id: str
    paths: list[SummarisedPath]
    judged: JudgedAnswers


@dataclass(frozen=True, slots=True)
class Summarise:
    """The pipeline's task: a question under one window."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> SummarisedQuestion:
        scan_together(question.paths, self.window)
        return SummarisedQuestion(question.id, [path.summarised(self.window) for path in question.paths], judged)


def in_order(question: HasPaths[P], repeat: int, seed: int, budget: int | None) -> list[P]:
    """The paths that a repeat may use, in its order; the same for every strategy."""
    rng = np.random.default_rng((seed, repeat, crc32(question.id.encode())))
    return [question.paths[i] for i in rng.permutation(len(question.paths))[:budget]]


AnyQuestion = HasPaths[RecordedPath] | HasPaths[SummarisedPath]


class ReplayCell(NamedTuple):
    """One line of a table."""

    label: str
    strategy: str | Strategy
    options: RunOptions  # without a budget, a question's paths are all used


class ReplayUnit(NamedTuple):
    """What one process does without a break: a cell in some repeats; one repeat of a cell that learns."""

    cell: int
    repeats: tuple[int, ...]


class UnitRuns(NamedTuple):
    """All units of a task on some questions."""

    runs: list[StrategyRuns]  # by unit
    states: list[LearnerState | None]  # after the last question, by unit

    def add(self, more: UnitRuns) -> None:
        """Add further questions."""
        for total, runs in zip(self.runs, more.runs, strict=True):
            total.join(runs)
        self.states[:] = more.states


class QuestionRuns(NamedTuple):
    """The same, and what others need of the questions."""

    units: UnitRuns
    paths: list[int]  # recorded ones, by question
    recorded: list[QuestionAnswers]  # empty if only totals are needed
    summaries: list[dict[int, SummarisedQuestion]]  # by question and window, for cells that learn after this pass


class CalibrationCache:
    """Gates of one question: ablations of a strategy share a calibration on the same order."""

    def __init__(self) -> None:
        self._calibrations: list[Calibrate] = []
        self._gates: dict[tuple[int, tuple[int, ...]], tuple[Gate, Sequence[Windows]]] = {}

    def wrap(self, strategy: Strategy) -> Strategy:
        """The strategy with cached calibration."""
        if not strategy.prunes:
            return strategy
        calibrate = strategy.calibrate
        number = self._number(calibrate)

        def cached(paths: Sequence[Windows]) -> Gate:
            key = number, tuple(map(id, paths))
            if key not in self._gates:
                self._gates[key] = calibrate(paths), paths  # kept, so that no other windows get their ids
            return self._gates[key][0]

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
    """Units on one question after the other. If a cell learns, it must see the questions in order."""

    cells: tuple[ReplayCell, ...]
    units: tuple[ReplayUnit, ...]
    windows: frozenset[int] = frozenset()  # of the summaries that others need
    totals_only: bool = False  # the results of single questions are not kept
    _states: list[LearnerState | None] = field(default_factory=list)  # by unit

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionRuns:
        """The pipeline's task."""
        units = self.run(lambda options: question, judged)
        summaries = [{window: Summarise(window)(question, judged) for window in self.windows}] if self.windows else []
        recorded = [] if self.totals_only else [answers_of(question, judged)]
        return QuestionRuns(units, [len(question.paths)], recorded, summaries)

    def join(self, values: Sequence[QuestionRuns]) -> QuestionRuns:
        """What several questions gave, added to the first value: memory holds a few numbers per question."""
        first = values[0]
        for more in values[1:]:
            first.units.add(more.units)
            first.paths.extend(more.paths)
            first.recorded.extend(more.recorded)
            first.summaries.extend(more.summaries)
        return first

    def run(self, question_for: Callable[[RunOptions], AnyQuestion], judged: JudgedAnswers) -> UnitRuns:
        strategies = [resolve(self.cells[unit.cell].strategy) for unit in self.units]
        self._states = self._states or [strategy.state for strategy in strategies]
        by_unit: list[list[ScoredRun]] = [[] for _ in self.units]
        cache = CalibrationCache()
        for repeat in sorted({repeat for unit in self.units for repeat in unit.repeats}):
            orders: dict[tuple[int, int | None, int | None], list[RecordedPath | SummarisedPath]] = {}
            for number, (unit, strategy) in enumerate(zip(self.units, strategies, strict=True)):
                if repeat not in unit.repeats:
                    continue
                options = self.cells[unit.cell].options
                key = options.seed, options.paths, options.window
                if key not in orders:
                    orders[key] = in_order(question_for(options), repeat, *key[:2])
                state = self._states[number]
                current = cache.wrap(strategy if state is None else strategy.with_state(state))
                scored = score_run(orders[key], current, options, judged)
                by_unit[number].append(scored)
                if state is not None:
                    self._states[number] = state.receive(scored.outcome)
        runs = [StrategyRuns(render(strategy)) for strategy in strategies]
        for total, scored_runs in zip(runs, by_unit, strict=True):
            total.add(scored_runs)
        return UnitRuns(runs, [*self._states])


class LearningPass(NamedTuple):
    """Units that learn, over all questions of a pool: one process does it without a break."""

    task: ReplayCells
    questions: Sequence[Mapping[int, SummarisedQuestion]]  # by window

    def run(self) -> UnitRuns:
        """The units on one question after the other."""
        runs = [self.task.run(partial(_of_window, one), next(iter(one.values())).judged) for one in self.questions]
        for more in runs[1:]:
            runs[0].add(more)
        return runs[0]


def _of_window(question: Mapping[int, SummarisedQuestion], options: RunOptions) -> SummarisedQuestion:
    return question[options.window or 1]


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


def score_run(
    paths: Sequence[RecordedPath | SummarisedPath], strategy: Strategy, options: RunOptions, judged: JudgedAnswers
) -> ScoredRun:
    """One strategy on one order of one question."""
    if len(paths) < strategy.warmup:
        strategy = replace(strategy, warmup=len(paths))
    outcome = run_recorded(paths, strategy, replace(options, paths=len(paths)), classes=judged.classes)
    all_tokens = sum(path.tokens for path in paths)
    return score_outcome(outcome, judged, min(all_tokens, options.max_tokens or all_tokens))


def score_outcome(outcome: Outcome, judged: JudgedAnswers, all_tokens: int) -> ScoredRun:
    """A run, graded; `all_tokens` are those of plain voting."""
    right = None if judged.right is None else float(outcome.answer is not None and judged.right[outcome.answer])
    answer_class = None if outcome.answer is None else judged.classes.get(outcome.answer)
    return ScoredRun(right, outcome.tokens.total, all_tokens, outcome, answer_class)


class CellResult(NamedTuple):
    """A cell's result on one source."""

    source: Source
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first cell, to which differences are taken
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
    learned: list[Json | None] = []
    for number, cell in enumerate(cells):
        units = sorted(
            (unit.repeats, place, part)
            for part, (task, _) in enumerate(parts)
            for place, unit in enumerate(task.units)
            if unit.cell == number
        )
        totals.append(join_repeats([parts[part][1].runs[place] for _, place, part in units]))
        states = [parts[part][1].states[place] for _, place, part in units]
        learned.append(mean_state(resolve(cell.strategy), [state for state in states if state is not None]))
    results = [
        CellResult(opened.source, cell, replace(row, learned=of_cell), total, totals[0], read.paths, read.recorded)
        for cell, row, total, of_cell in zip(
            cells, rows(totals, repeats, cells[0].options.seed), totals, learned, strict=True
        )
    ]
    return Replayed(results, opened, read.paths, read.recorded)


LEAST_WARMUP: Final = 4
"""Percentiles of fewer paths mean nothing."""


def fitting(names: Sequence[str], paths: int) -> tuple[list[str], list[str]]:
    """The strategies for so many paths, with notes; a warm-up that is too long becomes half of the paths."""
    long = [name for name in names if parse(name).warmup > paths]
    if not long:
        return list(names), []
    half = fitting_warmup(paths)
    specs = [f"{name}{',' if ':' in name else ':'}warmup={half}" if name in long else name for name in names]
    note = f"there are {paths} paths per question, fewer than the warm-up of {', '.join(long)}"
    if half < LEAST_WARMUP:
        return [name for name in names if name not in long], [f"{note}: left out"]
    return specs, [f"{note}: {half} paths warm up"]


def fitting_pool(names: Sequence[str], opened: OpenPool, budget: int | None) -> list[str]:
    """The same for a pool, which keeps the notes."""
    recorded = recorded_paths(opened.pool)
    specs, notes = fitting(names, min(recorded, budget or recorded))
    opened.notes += notes
    return specs


def recorded_paths(pool: Pool) -> int:
    """Most paths of any question."""
    return max(b - a for a, b in pairwise([*pool.starts(), pool.rows]))


def replay_notes(replayed: Replayed, settings: ReplaySettings) -> list[str]:
    """What a reader of the table should know."""
    opened, recorded = replayed.opened, replayed.recorded
    cells = [result.cell for result in replayed.results]
    notes = list(opened.notes)
    budget = max(cell.options.paths or 0 for cell in cells)
    short = sum(n < budget for n in recorded)
    if short:
        most = max(recorded)
        notes.append(f"{short} questions have fewer than {budget} recorded paths ({most} at most); all were used")
    warmup = max(resolve(cell.strategy).warmup for cell in cells)
    few = sum(n < warmup for n in recorded)
    if few:
        notes.append(f"{few} questions have fewer paths than a warm-up of {warmup}; all their paths warmed up")
    row = replayed.results[0].row
    if 0 < row.graded < row.questions:
        notes.append(
            f"questions without a gold answer: {row.questions - row.graded} of {row.questions}; accuracy is that of "
            "the others, all other columns are means over all"
        )
    if settings.equal == "string":
        notes.append("answers were one candidate only if their strings are equal")
    if settings.grader != "own":
        notes.append(f"answers to mathematics were graded by math-verify {math_verify_version()}; votes do not use it")
    if opened.judge.lost:
        notes.append(f"{opened.judge.lost} answers were not graded by math-verify within its limits and count as wrong")
    if opened.damaged:
        notes.append(f"{opened.damaged} damaged rows were left out")
    return notes + [note for result in replayed.results if (note := _learned_note(result.row)) is not None]


def _learned_note(row: Row) -> str | None:
    if row.learned is None:
        return None
    if not any(one["questions"] for one in row.learned.values()):
        return f"{row.strategy} learned nothing of confidence: no question had five votes that do not all agree"
    parts = [
        f"{name.replace('_', ' ')} {one['r']:+.2f} from {one['questions']:.{0 if one['questions'] >= 1 else 1}f} "
        f"question{'' if one['questions'] == 1 else 's'}, weight {one['beta']:.2f}"
        for name, one in row.learned.items()
    ]
    return f"{row.strategy} learned how far confidence goes with agreement: {'; '.join(parts)}"
