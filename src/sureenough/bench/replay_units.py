"""What one process does of a replay: strategies under options, on one question after the other.

All cells use the same orders of a question's paths.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.result import AnswerGroup, QuestionAnswers
from sureenough.bench.score import ScoredRun, StrategyRuns
from sureenough.bench.summaries import HasPaths, Summarise, SummarisedQuestion, in_order
from sureenough.core.confidence import Windows
from sureenough.core.learning import LearnerState
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.pruning import Calibrate, Gate
from sureenough.core.strategy import Strategy
from sureenough.drivers import replay as run_recorded
from sureenough.pools import Question, RecordedPath, SummarisedPath
from sureenough.spec import render, resolve

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
    states: list[list[LearnerState | None]]  # after each question, by unit

    def add(self, more: UnitRuns, every_state: bool) -> None:
        """Add further questions; without `every_state`, the last states alone are kept."""
        for total, runs in zip(self.runs, more.runs, strict=True):
            total.join(runs)
        self.states.extend(more.states)
        if not every_state:
            del self.states[:-1]


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
            first.units.add(more.units, every_state=not self.totals_only)
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
        return UnitRuns(runs, [[*self._states]])


class LearningPass(NamedTuple):
    """Units that learn, over all questions of a pool: one process does it without a break."""

    task: ReplayCells
    questions: Sequence[Mapping[int, SummarisedQuestion]]  # by window

    def run(self) -> UnitRuns:
        """The units on one question after the other."""
        total: UnitRuns | None = None
        for question in self.questions:
            runs = self.task.run(partial(_of_window, question), next(iter(question.values())).judged)
            if total is None:
                total = runs
            else:
                total.add(runs, every_state=not self.task.totals_only)
        assert total is not None
        return total


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
