"""One budget of tokens for a whole dataset: spent evenly, by a fixed delta, or where a token should gain most."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import sqrt
from typing import Final, NamedTuple

from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools, whole_numbers
from sureenough.bench.experiments.live_tables import live_tables
from sureenough.bench.experiments.table_settings import pool_windows, settings_note
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.replay_units import score_outcome
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table, grouped, number
from sureenough.bench.score import Row, StrategyRuns, rows
from sureenough.bench.summaries import Summarise, SummarisedQuestion, in_order
from sureenough.core.events import Regrouped
from sureenough.core.options import RunOptions
from sureenough.core.outcome import Outcome
from sureenough.core.session import Session
from sureenough.drivers import replay
from sureenough.drivers.allocate import ALLOCATED, replay_allocation
from sureenough.pools import SummarisedPath
from sureenough.spec import resolve

DIVISORS: Final = (4, 8, 16)
"""Budgets: the tokens of sc divided by these."""
DELTAS: Final = 1e-5, 0.5
"""Between these a fixed delta is sought."""
HALVINGS: Final = 10
FIXED_DELTA: Final = "sure with a fixed delta"
OVER: Final = ", over the budget"
COLUMNS: Final = (
    ResultColumn("dataset"), ResultColumn("model"), ResultColumn("budget"), ResultColumn("tokens allowed", "tokens"),
    ResultColumn("spent"), ResultColumn("accuracy", "percent", "%"), ResultColumn("vs sc", "points", "points"),
    ResultColumn("allocated minus this", "points", "points"), ResultColumn("tokens", "tokens", "all questions"),
    ResultColumn("unanswered", "number", "questions", 1),
)  # fmt: skip
READING: Final = (
    "the first line of a dataset is sc with all paths, without a budget; differences are paired by question",
    "evenly: every question has the same share of the tokens, and is voted on when that is spent",
    "fixed delta: question by question, with the smallest delta within the budget, found by trying it on this pool; "
    f"if even {DELTAS[1]:g} spends more, the line says so",
    "allocated: the next path goes to the question whose expected gain per expected token is largest",
    "all but sc weigh votes as before anything is learned, because the questions of an allocation run side by side",
)


class Order(NamedTuple):
    """All questions of a pool in one repeat, with their options: budget of paths and window."""

    questions: Sequence[SummarisedQuestion]
    paths: list[list[SummarisedPath]]
    options: RunOptions

    def alone(self, spec: str, max_tokens: int | None = None) -> list[Outcome]:
        """Question by question."""
        strategy, options = resolve(spec), replace(self.options, max_tokens=max_tokens)
        return [
            replay(paths, strategy, replace(options, paths=len(paths)), classes=question.judged.classes)
            for question, paths in zip(self.questions, self.paths, strict=True)
        ]

    def allocated(self, total: int) -> list[Outcome]:
        """With one budget for all questions."""
        sessions = [Session(resolve(ALLOCATED), replace(self.options, paths=len(paths))) for paths in self.paths]
        for session, question in zip(sessions, self.questions, strict=True):
            session.receive(Regrouped(question.judged.classes))
        return replay_allocation(self.paths, sessions, total)

    def tokens(self) -> int:
        """Of all paths."""
        return sum(path.tokens for paths in self.paths for path in paths)


class Budgeted(NamedTuple):
    """One way to spend one budget."""

    budget: str
    total: float  # tokens allowed
    spent: str  # how
    row: Row
    unanswered: float  # questions per repeat
    minus: Row | None  # the allocated line, measured against this one

    @property
    def tokens(self) -> float:
        """Of all questions."""
        return self.row.tokens * self.row.questions


def _measure(inputs: Inputs) -> Findings:
    live = live_tables(inputs.live_runs, "budget")
    if not inputs.sources and live:
        return Findings(live, notes=["the seconds of an allocation are its time divided by its questions"])
    results: list[PoolResults[SummarisedQuestion]] = over_pools(inputs, lambda pool: Summarise(pool.window))
    lines = [_lines(one, inputs) for one in results]
    settings = settings_note(
        window=pool_windows(one.opened for one in results),
        budget=f"as in the table; at most {inputs.options.paths or 'all recorded'} paths per question",
        repeats=inputs.settings.repeats,
        weights="effective votes, of the prior (sc: 1 per path)",
    )
    table = Table("budget", "One budget of tokens for all questions", list(COLUMNS), [], [*READING, settings])
    for result, of_pool in zip(results, lines, strict=True):
        table.rows.extend(_cells(result, line) for line in of_pool)
    figures = [_figure(f"budget-{i}", *pair) for i, pair in enumerate(zip(results, lines, strict=True), 1)]
    return Findings([table, *live], figures, pools=[one.opened for one in results])


def _lines(result: PoolResults[SummarisedQuestion], inputs: Inputs) -> list[Budgeted]:
    options = replace(inputs.options, window=result.opened.window, parallel=1, planned=False)
    orders = [
        Order(result.values, [in_order(one, repeat, options.seed, options.paths) for one in result.values], options)
        for repeat in range(inputs.settings.repeats)
    ]
    full = sum(order.tokens() for order in orders) / len(orders)
    plain = _runs("sc", orders, lambda order: order.alone("sc"))
    lines = [Budgeted("none", full, "sc", _rows([plain], inputs)[0], _unanswered(plain), None)]
    if inputs.total_tokens is not None:
        budgets = [(f"{inputs.total_tokens:,}", inputs.total_tokens)]
    else:
        budgets = [(f"1/{n}", int(full / n)) for n in whole_numbers("a part", inputs.sweep or DIVISORS)]
    for name, total in budgets:
        lines += _budget(name, total, orders, plain, inputs)
    return lines


def _budget(name: str, total: int, orders: list[Order], plain: StrategyRuns, inputs: Inputs) -> list[Budgeted]:
    """All ways to spend one budget."""
    share = max(1, total // len(orders[0].questions))
    delta = fixed_delta(orders, total)
    ways: dict[str, Callable[[Order], list[Outcome]]] = {
        "sc, evenly": lambda order: order.alone("sc", share),
        f"{ALLOCATED}, evenly": lambda order: order.alone(f"{ALLOCATED}", share),
        f"{FIXED_DELTA}, {delta:.3g}": lambda order: order.alone(f"sure:delta={delta:.3g}"),
        "allocated": lambda order: order.allocated(total),
    }
    runs = {spent: _runs(spent, orders, way) for spent, way in ways.items()}
    allocated = runs["allocated"]
    lines = [
        Budgeted(name, total, spent, _rows([plain, one], inputs)[1], _unanswered(one),
                 None if one is allocated else _rows([one, allocated], inputs)[1])
        for spent, one in runs.items()
    ]  # fmt: skip
    return [line._replace(spent=line.spent + OVER) if line.tokens > total + 1 else line for line in lines]


def fixed_delta(orders: Sequence[Order], total: int) -> float:
    """The smallest delta, within a percent or so, whose mean tokens over the repeats are within the budget."""
    low, high = DELTAS
    for _ in range(HALVINGS):
        middle = sqrt(low * high)
        spent = sum(out.tokens.total for order in orders for out in order.alone(f"sure:delta={middle:.3g}"))
        low, high = (middle, high) if spent > total * len(orders) else (low, middle)
    return float(f"{high:.3g}")


def _runs(name: str, orders: Sequence[Order], way: Callable[[Order], list[Outcome]]) -> StrategyRuns:
    by_repeat = [way(order) for order in orders]
    runs = StrategyRuns(name)
    for position, question in enumerate(orders[0].questions):
        outcomes = [outcomes[position] for outcomes in by_repeat]
        paths = [order.paths[position] for order in orders]
        pairs = zip(outcomes, paths, strict=True)
        runs.add([score_outcome(outcome, question.judged, sum(path.tokens for path in own)) for outcome, own in pairs])
    return runs


def _rows(runs: list[StrategyRuns], inputs: Inputs) -> list[Row]:
    return rows(runs, inputs.settings.repeats, inputs.options.seed)


def _unanswered(runs: StrategyRuns) -> float:
    return sum(answer is None for answers in runs.answers for answer in answers) * runs.questions / runs.runs


def _cells(result: PoolResults[SummarisedQuestion], line: Budgeted) -> list[Cell]:
    source, row, minus = result.opened.source, line.row, line.minus
    return [
        source.dataset, source.model, line.budget, line.total, line.spent, c.measure(row.accuracy, row.interval),
        None if line.spent == "sc" else c.measure(row.difference, row.difference_interval),
        None if minus is None else c.measure(minus.difference, minus.difference_interval),
        line.tokens, line.unanswered,
    ]  # fmt: skip


def _figure(name: str, result: PoolResults[SummarisedQuestion], lines: Sequence[Budgeted]) -> Figure:
    """Accuracy against the tokens spent, one line for each way."""
    source = result.opened.source

    def way(line: Budgeted) -> str:
        return FIXED_DELTA if line.spent.startswith(FIXED_DELTA) else line.spent.removesuffix(OVER)

    ways = {"sc, all paths": lines[:1], **grouped(lines[1:], way)}
    series = [
        Series(
            label, [one.row.tokens for one in of_way], [number(one.row.accuracy) for one in of_way],
            [number(one.row.interval.low) for one in of_way], [number(one.row.interval.high) for one in of_way],
        )
        for label, of_way in ways.items()
    ]  # fmt: skip
    title = f"{source.label}: accuracy against tokens, one budget for all questions"
    return Figure(name, title, "line", Axis("tokens per question", "log"), Axis("accuracy, %", percent=True), series)


EXPERIMENT: Final = Experiment(
    "budget",
    "one budget of tokens for all questions: evenly, by a fixed delta, or allocated",
    "The budget of a whole dataset",
    _measure,
    "optional",
    reads=("sweep", "total_tokens"),
)
