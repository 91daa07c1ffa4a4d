"""Strategies under options, replayed on every question of a pool; all use the same orders of a question's paths."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import chain, pairwise
from math import inf
from typing import Final, NamedTuple, Protocol, Self, TypeVar
from zlib import crc32

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import (
    JudgedQuestions,
    OpenPool,
    Progress,
    ReplaySettings,
    Source,
    open_pools,
    run_tasks,
)
from sureenough.bench.published_grader import math_verify_version
from sureenough.bench.result import AnswerGroup, QuestionAnswers
from sureenough.bench.score import Row, StrategyRuns, mean_state, rows
from sureenough.core.confidence import Windows
from sureenough.core.options import RunOptions, fitting_warmup
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Pool, Question, RecordedPath, SummarisedPath, scan_together
from sureenough.spec import parse, render, resolve

P_co = TypeVar("P_co", covariant=True)
P = TypeVar("P")


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


def summarise(question: Question, judged: JudgedAnswers, window: int) -> SummarisedQuestion:
    scan_together(question.paths, window)
    return SummarisedQuestion(question.id, [path.summarised(window) for path in question.paths], judged)


def in_order(question: HasPaths[P], repeat: int, seed: int, budget: int | None) -> list[P]:
    """The paths that a repeat may use, in its order; the same for every strategy."""
    rng = np.random.default_rng((seed, repeat, crc32(question.id.encode())))
    return [question.paths[i] for i in rng.permutation(len(question.paths))[:budget]]


class ReplayCell(NamedTuple):
    """One line of a table."""

    label: str
    strategy: str | Strategy
    options: RunOptions  # without a budget, a question's paths are all used


class CalibrationCache:
    """Gates of one question: ablations of a strategy share a calibration on the same order."""

    def __init__(self) -> None:
        self._gates: dict[tuple[int, ...], list[tuple[Calibrate, Sequence[Windows], Gate]]] = {}

    def wrap(self, strategy: Strategy) -> Strategy:
        """The strategy with cached calibration."""
        return replace(strategy, calibrate=partial(self._gate, strategy.calibrate)) if strategy.prunes else strategy

    def _gate(self, calibrate: Calibrate, paths: Sequence[Windows]) -> Gate:
        known = self._gates.setdefault(tuple(map(id, paths)), [])
        for other, _, gate in known:
            if other == calibrate:  # it need not be hashable
                return gate
        gate = calibrate(paths)
        known.append((calibrate, paths, gate))  # kept, so that no other windows get their ids
        return gate


@dataclass(slots=True)
class CellRuns:
    """Cells on one question after the other: the pipeline's task, and what it has made of the questions so far."""

    cells: Sequence[ReplayCell]
    repeats: int
    totals_only: bool = False  # the answers of single questions are not kept
    summary_window: int | None = None  # cells that learn are run elsewhere, on summaries under this window
    runs: list[StrategyRuns] = field(init=False)  # by cell
    states: list[list[LearnerState]] = field(init=False)  # by cell and repeat; empty if the cell does not learn
    paths: list[int] = field(default_factory=list)  # recorded ones, by question
    questions: list[QuestionAnswers] = field(default_factory=list)
    summaries: list[SummarisedQuestion] = field(default_factory=list)

    def __post_init__(self) -> None:
        strategies = [resolve(cell.strategy) for cell in self.cells]
        self.runs = [StrategyRuns(render(one), weight=getattr(one.weigh, "weight", None)) for one in strategies]
        self.states = [[one.state] * self.repeats if one.state is not None else [] for one in strategies]

    def __call__(self, questions: JudgedQuestions) -> Self:
        cells = [n for n, states in enumerate(self.states) if self.summary_window is None or not states]
        for question, judged in questions:
            self._run(cells, question, judged)
            self.paths.append(len(question.paths))
            if not self.totals_only:
                self.questions.append(answers_of(question, judged))
            if self.summary_window is not None:
                self.summaries.append(summarise(question, judged, self.summary_window))
        return self

    def join(self, part: CellRuns) -> None:
        """Add the next questions; cells that learn are run on them now, if they were not."""
        for total, runs in zip(self.runs, part.runs, strict=True):
            total.join(runs)
        self.paths += part.paths
        self.questions += part.questions
        if part.summary_window is None:
            self.states = part.states
        learning = [n for n, states in enumerate(self.states) if states]
        for question in part.summaries:
            self._run(learning, question, question.judged)

    def _run(
        self, cells: Sequence[int], question: HasPaths[RecordedPath | SummarisedPath], judged: JudgedAnswers
    ) -> None:
        """Run these cells in every repeat."""
        calibrations, ordered = CalibrationCache(), cache(partial(in_order, question))
        for number in cells:
            options, states = self.cells[number].options, self.states[number]
            strategy = calibrations.wrap(resolve(self.cells[number].strategy))
            outcomes, all_tokens = [], []
            for repeat in range(self.repeats):
                paths = ordered(repeat, options.seed, options.paths)
                current = strategy.with_state(states[repeat]) if states else strategy
                if len(paths) < strategy.warmup:
                    current = replace(current, warmup=len(paths))
                outcome = run_recorded(paths, current, replace(options, paths=len(paths)), classes=judged.classes)
                if states:
                    states[repeat] = states[repeat].receive(outcome)
                outcomes.append(outcome)
                tokens = sum(path.tokens for path in paths)
                all_tokens.append(min(tokens, options.max_tokens or tokens))
            self.runs[number].add(outcomes, all_tokens, judged)


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


class CellResult(NamedTuple):
    """A cell's result on one source."""

    opened: OpenPool
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first cell, to which differences are taken
    paths: list[int]  # recorded, per question
    questions: list[QuestionAnswers]  # of the source; empty if only totals were needed

    @property
    def source(self) -> Source:
        return self.opened.source


def reference_cell(cells: Sequence[ReplayCell]) -> int:
    """The cell that others are measured against: sc with the largest budget, else the first."""
    plain = [i for i, cell in enumerate(cells) if resolve(cell.strategy).name == "sc"]
    return max(plain, key=lambda i: cells[i].options.paths or inf, default=0)


def replay_cells(
    sources: Sequence[Source],
    cells_of: Callable[[OpenPool], Sequence[ReplayCell]],
    settings: ReplaySettings,
    *,
    window: int | None = None,
    progress: Progress = lambda done, total: None,
    totals_only: bool = False,
) -> list[list[CellResult]]:
    """Replay every source under its cells; with `totals_only`, the answers of single questions are not kept.

    With several processes, any of them runs the cells that do not learn on any question. Cells that learn must see the
    questions in order: they are run here, on summaries of the paths. If these do not suffice, one process does it all.
    """
    opened = open_pools(sources, settings, window)
    cells = [tuple(cells_of(pool)) for pool in opened]
    for cell in chain(*cells):
        cell.options.check_budget(resolve(cell.strategy))
    learning = [[cell for cell in of_pool if resolve(cell.strategy).state is not None] for of_pool in cells]
    windows = [{cell.options.window or 1 for cell in of_pool} for of_pool in learning]
    enough = max(map(len, windows)) <= 1 and not any(resolve(cell.strategy).prunes for cell in chain(*learning))
    jobs = settings.jobs if enough else 1
    tasks = [
        (pool, CellRuns(of_pool, settings.repeats, totals_only, max(of_window, default=None) if jobs > 1 else None))
        for pool, of_pool, of_window in zip(opened, cells, windows, strict=True)
    ]
    totals = [CellRuns(of_pool, settings.repeats) for of_pool in cells]
    for number, part in run_tasks(tasks, jobs, progress):
        totals[number].join(part)
    return [_results(*one) for one in zip(opened, totals, strict=True)]


def _results(opened: OpenPool, total: CellRuns) -> list[CellResult]:
    table = rows(total.runs, total.repeats, total.cells[0].options.seed)
    return [
        CellResult(
            opened, cell, replace(row, learned=mean_state(resolve(cell.strategy), states)), runs, total.runs[0],
            total.paths, total.questions,
        )
        for cell, row, runs, states in zip(total.cells, table, total.runs, total.states, strict=True)
    ]  # fmt: skip


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


def replay_notes(results: Sequence[CellResult], settings: ReplaySettings) -> list[str]:
    """What a reader of a source's table should know."""
    opened, recorded, row = results[0].opened, results[0].paths, results[0].row
    notes = list(opened.notes)
    budget = max(result.cell.options.paths or 0 for result in results)
    short = sum(n < budget for n in recorded)
    if short:
        most = max(recorded)
        notes.append(f"{short} questions have fewer than {budget} recorded paths ({most} at most); all were used")
    warmup = max(resolve(result.cell.strategy).warmup for result in results)
    few = sum(n < warmup for n in recorded)
    if few:
        notes.append(f"{few} questions have fewer paths than a warm-up of {warmup}; all their paths warmed up")
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
    return notes + [note for result in results if (note := _learned_note(result.row)) is not None]


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
