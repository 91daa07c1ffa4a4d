"""Strategies under options, replayed on every question of a pool; all use the same orders of a question's paths."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import chain, pairwise
from math import inf
from typing import Final, NamedTuple
from zlib import crc32

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import OpenPool, Progress, ReplaySettings, Source, map_questions, open_pools
from sureenough.bench.published_grader import math_verify_version
from sureenough.bench.score import Row, StrategyRuns, mean_state, rows
from sureenough.core.confidence import Windows
from sureenough.core.options import RunOptions, fitting_warmup
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.core.weights import LearnerState
from sureenough.drivers import replay as run_recorded
from sureenough.drivers.replay import refusal
from sureenough.pools import Pool, Question, RecordedPath, scan_together
from sureenough.spec import parse, render, resolve


def summarise(question: Question, window: int) -> Question:
    """What strategies that do not prune read of a question."""
    scan_together(question.paths, window)
    return replace(question, paths=[path.summarised(window) for path in question.paths])


def in_order(question: Question, repeat: int, seed: int, budget: int | None) -> list[RecordedPath]:
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


States = list[LearnerState | None]
"""What a cell has learned, by repeat; None if it does not learn."""


class QuestionRuns(NamedTuple):
    """What the pipeline makes of a question."""

    runs: dict[int, StrategyRuns]  # by cell; cells that learn must see the questions in order, and run elsewhere
    judged: JudgedAnswers
    paths: int
    question: tuple[str, str | None]  # its id and gold answer
    learned_from: Question | None


@dataclass(frozen=True, slots=True)
class RunCells:
    """The pipeline's work: cells on a question."""

    cells: Sequence[ReplayCell]
    repeats: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> QuestionRuns:
        learning = [cell for cell in self.cells if learns(cell)]
        fixed: dict[int, States] = {n: [None] * self.repeats for n, cell in enumerate(self.cells) if not learns(cell)}
        runs = run_cells(self.cells, fixed, question, judged)
        windows = {cell.options.window or 1 for cell in learning}
        learned_from = question if learning else None
        if len(windows) == 1 and not any(resolve(cell.strategy).prunes for cell in learning):
            learned_from = summarise(question, *windows)
        return QuestionRuns(runs, judged, len(question.paths), (question.id, question.gold), learned_from)


def learns(cell: ReplayCell) -> bool:
    return resolve(cell.strategy).state is not None


def run_cells(
    cells: Sequence[ReplayCell],
    states: Mapping[int, States],
    question: Question,
    judged: JudgedAnswers,
) -> dict[int, StrategyRuns]:
    """Run the cells that have states on a question, once per state, which learns from the outcome."""
    calibrations, ordered = CalibrationCache(), cache(partial(in_order, question))
    runs = {number: StrategyRuns() for number in states}
    for number, of_cell in states.items():
        strategy, options = calibrations.wrap(resolve(cells[number].strategy)), cells[number].options
        outcomes, all_tokens = [], 0
        for repeat, state in enumerate(of_cell):
            paths = ordered(repeat, options.seed, options.paths)
            current = strategy.with_state(state) if state else strategy
            if len(paths) < strategy.warmup:
                current = replace(current, warmup=len(paths))
            outcome = run_recorded(paths, current, replace(options, paths=len(paths)), classes=judged.classes)
            of_cell[repeat] = state.receive(outcome) if state else None
            outcomes.append(outcome)
            tokens = sum(path.tokens for path in paths)
            all_tokens += min(tokens, options.max_tokens or tokens)
        runs[number].add(outcomes, all_tokens, judged)
    return runs


@dataclass(frozen=True, slots=True)
class Line:
    """A strategy on one source: a row of most tables."""

    source: Source
    cell: ReplayCell
    row: Row
    runs: StrategyRuns
    first: StrategyRuns  # of the source's first strategy, to which differences are taken


@dataclass(frozen=True, slots=True)
class CellResult(Line):
    """A replayed cell."""

    opened: OpenPool


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
) -> list[list[CellResult]]:
    """Replay every source under its cells.

    Any process runs the cells that do not learn on any question. Cells that learn must see the questions in order: they
    run here, on summaries of the paths (on the paths themselves if they prune, or read several windows).
    """
    opened = open_pools(sources, settings, window)
    cells = [tuple(cells_of(pool)) for pool in opened]
    for cell in chain(*cells):
        cell.options.check_budget(resolve(cell.strategy))
    totals = [[StrategyRuns() for _ in of_pool] for of_pool in cells]
    states: list[dict[int, States]] = [
        {n: [resolve(cell.strategy).state] * settings.repeats for n, cell in enumerate(of_pool) if learns(cell)}
        for of_pool in cells
    ]
    work = [(pool, RunCells(own, settings.repeats)) for pool, own in zip(opened, cells, strict=True)]
    for number, one in map_questions(work, settings.jobs, progress):
        late = run_cells(cells[number], states[number], one.learned_from, one.judged) if one.learned_from else {}
        for place, runs in (one.runs | late).items():
            totals[number][place].join(runs)
        opened[number].paths.append(one.paths)
        opened[number].questions.append(one.question)
    return [_results(*pool) for pool in zip(opened, cells, totals, states, strict=True)]


def _results(
    opened: OpenPool, cells: Sequence[ReplayCell], totals: Sequence[StrategyRuns], states: Mapping[int, States]
) -> list[CellResult]:
    strategies = [resolve(cell.strategy) for cell in cells]
    results = []
    for number, row in enumerate(
        rows(list(map(render, strategies)), totals, cells[0].options.seed, reference_cell(cells))
    ):
        strategy = strategies[number]
        learned = mean_state(strategy, [state for state in states.get(number, ()) if state])
        full = replace(row, weight=getattr(strategy.weigh, "weight", None), learned=learned)
        results.append(CellResult(opened.source, cells[number], full, totals[number], totals[0], opened))
    return results


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
    """The same for a pool, which keeps the notes: strategies that need more than was recorded are left out."""
    recorded, signals = recorded_paths(opened.pool), opened.pool.signals
    left_out = [name for name in names if refusal(parse(name), signals)]
    if left_out:
        missing = "confidence" if signals == "none" else "the confidence of single tokens"
        opened.notes.append(f"left out, since the pool was recorded without {missing}: {', '.join(left_out)}")
    specs, notes = fitting([name for name in names if name not in left_out], min(recorded, budget or recorded))
    opened.notes += notes
    return specs


def recorded_paths(pool: Pool) -> int:
    """Most paths of any question."""
    return max(b - a for a, b in pairwise([*pool.starts(), pool.rows]))


def replay_notes(results: Sequence[CellResult], settings: ReplaySettings) -> list[str]:
    """What a reader of a source's table should know."""
    opened, recorded, row = results[0].opened, results[0].opened.paths, results[0].row
    budget = max(result.cell.options.paths or 0 for result in results)
    warmup = max(resolve(result.cell.strategy).warmup for result in results)
    short, few = (sum(n < least for n in recorded) for least in (budget, warmup))
    ungraded, lost = row.questions - row.graded, opened.lost
    notes = {
        f"{short} questions have fewer than {budget} recorded paths ({max(recorded)} at most); all were used": short,
        f"{few} questions have fewer paths than a warm-up of {warmup}; all their paths warmed up": few,
        f"questions without a gold answer: {ungraded} of {row.questions}; accuracy is that of the others, all other "
        "columns are means over all": row.graded and ungraded,
        "answers were one candidate only if their strings are equal": settings.equal == "string",
        f"answers to mathematics were graded by math-verify {math_verify_version()}; votes do not use it":
            settings.grader != "own",
        f"{lost} answers were not graded by math-verify within its limits and count as wrong": lost,
        f"{opened.damaged} damaged rows were left out": opened.damaged,
    }  # fmt: skip
    learned = [_learned_note(result.row) for result in results if result.row.learned is not None]
    learned = learned if opened.pool.signals != "none" else []
    return [*opened.notes, *(note for note, holds in notes.items() if holds), *learned]


def _learned_note(row: Row) -> str:
    learned = row.learned or {}
    if not any(one["questions"] for one in learned.values()):
        return f"{row.strategy} learned nothing of confidence: no question had five votes that do not all agree"
    parts = [
        f"{name.replace('_', ' ')} {one['r']:+.2f} from {one['questions']:.{0 if one['questions'] >= 1 else 1}f} "
        f"question{'' if one['questions'] == 1 else 's'}, weight {one['beta']:.2f}"
        for name, one in learned.items()
    ]
    return f"{row.strategy} learned how far confidence goes with agreement: {'; '.join(parts)}"
