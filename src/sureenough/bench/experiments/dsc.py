"""DSC, difficulty-adaptive self-consistency, over the questions of a pool."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.difficulties import Difficulties, RankedQuestion, read_difficulties
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.table_settings import pool_windows, settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.replay_units import score_outcome
from sureenough.bench.result import Cell, ResultColumn, Table
from sureenough.bench.score import Row, StrategyRuns, rows
from sureenough.bench.summaries import Summarise, SummarisedQuestion, in_order
from sureenough.core.difficulty import DscOptions, DscQuestion, assign_samples
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.drivers import replay
from sureenough.pools import Question, SummarisedPath
from sureenough.spec import resolve

COLUMNS: Final = (
    ResultColumn("dataset"), ResultColumn("model"), ResultColumn("method"), ResultColumn("accuracy", "percent", "%"),
    ResultColumn("vs sc", "points", "points"), ResultColumn("tokens", "tokens", "per question, ranking included"),
    ResultColumn("ranking tokens", "tokens", "per question"), ResultColumn("paths", "number", "per question", 1),
    ResultColumn("batches", "number", "per question", 1), ResultColumn("easy", "percent", "% of questions"),
)  # fmt: skip
READING: Final = (
    "sc samples all paths in one batch, ac one path per batch; dsc samples easy questions once and gives the others a "
    "first batch of the size that the questions ranked before them needed",
    "batches: requests for samples one after the other, each of which reads the question again",
    "easy: questions of the part that a binary search over the ranking takes for easy",
)


@dataclass(frozen=True, slots=True)
class ReadLevels:
    """The pipeline's task: a question with its level."""

    window: int

    def __call__(self, question: Question, judged: JudgedAnswers) -> RankedQuestion:
        return RankedQuestion(Summarise(self.window)(question, judged), question.level)


class DscRuns(NamedTuple):
    """All repeats of one method."""

    runs: StrategyRuns
    batches: float  # per question
    easy: float | None = None  # share of questions


class _Order(NamedTuple):
    """All questions of a pool in one repeat."""

    questions: Sequence[SummarisedQuestion]
    paths: list[list[SummarisedPath]]
    options: RunOptions

    def outcomes(self, spec: str, counts: Sequence[int] | None = None) -> list[Outcome]:
        """Question by question, with so many of their paths."""
        strategy, sizes = resolve(spec), counts or [len(paths) for paths in self.paths]
        return [
            replay(paths[:n], strategy, replace(self.options, paths=n), classes=question.judged.classes)
            for question, paths, n in zip(self.questions, self.paths, sizes, strict=True)
        ]

    def assigned(self, difficulties: Difficulties, options: DscOptions) -> list[DscQuestion]:
        """What dsc gives each question, in the order of the pool."""
        order = difficulties.order(self.questions, self.paths)
        votes = [
            [None if path.answer is None else self.questions[number].judged.classes[path.answer]
             for path in self.paths[number]]
            for number in order
        ]  # fmt: skip
        by_number = dict(zip(order, assign_samples(votes, options), strict=True))
        return [by_number[number] for number in range(len(order))]


def _measure(inputs: Inputs) -> Findings:
    results: list[PoolResults[RankedQuestion]] = over_pools(inputs, lambda pool: ReadLevels(pool.window))
    options = DscOptions()
    settings = settings_note(
        window=pool_windows(one.opened for one in results),
        budget=f"{inputs.options.paths or 'all recorded'} paths per question",
        repeats=inputs.settings.repeats,
        weights="1 per path",
    )
    constants = (
        f"dsc: {options.step} samples judge a question and make a batch, {options.judged} questions are judged around "
        f"each middle, {options.neighbours} neighbours predict a first batch, settled at {options.tau:g}"
    )
    notes = [*READING, constants, settings]
    table = Table("dsc", "sc, ac and dsc on the same paths", list(COLUMNS), [], notes)
    for result in results:
        difficulties = read_difficulties(inputs.ranking, result.values)
        table.rows.extend(_lines(result, difficulties, options, inputs))
        name = result.opened.source.dataset
        table.notes.append(f"{name}: questions are ranked by {difficulties.source}")
    return Findings([table], pools=[one.opened for one in results])


def _lines(
    result: PoolResults[RankedQuestion], difficulties: Difficulties, options: DscOptions, inputs: Inputs
) -> list[list[Cell]]:
    questions = [one.question for one in result.values]
    run = replace(inputs.options, window=result.opened.window, parallel=1, planned=False)
    orders = [
        _Order(questions, [in_order(one, repeat, run.seed, run.paths) for one in questions], run)
        for repeat in range(inputs.settings.repeats)
    ]
    methods = {"sc": _plain("sc", orders), "ac": _plain("ac", orders), "dsc": _dsc(orders, difficulties, options)}
    measured = rows([one.runs for one in methods.values()], inputs.settings.repeats, run.seed)
    source = result.opened.source
    lines: list[list[Cell]] = []
    for (name, one), row in zip(methods.items(), measured, strict=True):
        ranking = difficulties.tokens if name == "dsc" else None
        lines.append([source.dataset, source.model, name, *_cells(row, one, ranking)])
    return lines


def _cells(row: Row, one: DscRuns, ranking: float | None) -> list[Cell]:
    return [
        c.measure(row.accuracy, row.interval),
        None if row.strategy == "sc" else c.measure(row.difference, row.difference_interval),
        row.tokens + (ranking or 0.0), ranking, row.width, one.batches, one.easy,
    ]  # fmt: skip


def _plain(spec: str, orders: Sequence[_Order]) -> DscRuns:
    by_repeat = [order.outcomes(spec) for order in orders]
    started = sum(outcome.started for outcomes in by_repeat for outcome in outcomes)
    per_question = started / (len(orders) * len(orders[0].questions))
    return DscRuns(_scored(spec, orders, by_repeat), 1.0 if spec == "sc" else per_question)


def _dsc(orders: Sequence[_Order], difficulties: Difficulties, options: DscOptions) -> DscRuns:
    assigned = [order.assigned(difficulties, options) for order in orders]
    by_repeat = [
        order.outcomes("sc", [one.samples for one in of_order])
        for order, of_order in zip(orders, assigned, strict=True)
    ]
    every = [one for of_order in assigned for one in of_order]
    batches, easy = (
        sum(values) / len(every) for values in zip(*((one.batches, one.easy) for one in every), strict=True)
    )
    return DscRuns(_scored("dsc", orders, by_repeat), batches, easy)


def _scored(name: str, orders: Sequence[_Order], by_repeat: Sequence[Sequence[Outcome]]) -> StrategyRuns:
    runs = StrategyRuns(name)
    for position, question in enumerate(orders[0].questions):
        runs.add([
            score_outcome(outcomes[position], question.judged, sum(path.tokens for path in order.paths[position]))
            for order, outcomes in zip(orders, by_repeat, strict=True)
        ])  # fmt: skip
    return runs


EXPERIMENT: Final = Experiment(
    "dsc",
    "DSC: rank all questions by difficulty, one sample for the easy ones, adaptive-consistency for the others",
    "Difficulty-adaptive self-consistency",
    _measure,
    reads=("ranking",),
)
