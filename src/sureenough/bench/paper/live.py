"""Experiments on live engines: seconds and searches, in tables of their own, never mixed with replayed numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Final

from sureenough.bench.experiment import Experiment, Found, Inputs, Results, cell_options, replay_experiment
from sureenough.bench.live import LiveRun
from sureenough.bench.paper import published
from sureenough.bench.paper.shared import (
    ACCURACY,
    CATEGORIES,
    DIFFERENCE,
    LOST,
    NAMES,
    QUESTIONS,
    STEPS,
    TOKENS,
    WIDTH,
    WON,
    cell_figure,
    in_paper,
    of_line,
    settings_note,
    settings_of,
    weight_scales,
    with_printed,
)
from sureenough.bench.pipeline import OpenPool, Source
from sureenough.bench.replay import Line, ReplayCell
from sureenough.bench.result import Axis, Figure, Series, grouped
from sureenough.bench.score import StrategyRuns, rows
from sureenough.bench.tables import Cell, Field, Kind, Table, columns, field, measure, table
from sureenough.core.options import RunOptions
from sureenough.errors import UsageError
from sureenough.spec import resolve


@dataclass(frozen=True, slots=True)
class LiveLine(Line):
    """A strategy's live runs as a line of a table."""

    live: list[LiveRun]


def comparable_runs(runs: Sequence[LiveRun]) -> dict[tuple[str, str], dict[str, list[LiveRun]]]:
    """By dataset and model, then by strategy: the runs of questions that every strategy has finished."""
    comparable = {}
    for key, together in grouped(runs, lambda run: (run.dataset, run.model)).items():
        strategies = grouped(together, lambda run: run.strategy)
        common = set.intersection(*({run.question for run in own} for own in strategies.values()))
        if common:
            comparable[key] = {
                name: sorted((run for run in own if run.question in common), key=lambda run: (run.question, run.repeat))
                for name, own in strategies.items()
            }
    return comparable


def live_lines(runs: Sequence[LiveRun]) -> Iterator[LiveLine]:
    for names, strategies in comparable_runs(runs).items():
        totals = list(map(_totals, strategies.values()))
        for row, total in zip(rows(list(strategies), totals, 0), totals, strict=True):
            cell = ReplayCell(row.strategy, row.strategy, RunOptions())
            yield LiveLine(Source(*names, Path()), cell, row, total, totals[0], strategies[row.strategy])


def _totals(runs: Sequence[LiveRun]) -> StrategyRuns:
    """The same sums as of replayed outcomes."""
    total = StrategyRuns()
    for run in runs:
        out = run.outcome
        total.reasons[out["reason"]] += 1
        total.sums.update({"width": out["started"], "steps": out["steps"], "pruned": out["pruned"]})
        total.sums.update({"tokens" if name == "total" else f"tokens {name}": n for name, n in run.tokens.items()})
        total.sums.update({f"tier {name}": n for name, n in out["tiers"].items()})
    for own in grouped(runs, lambda run: run.question).values():
        graded = [float(run.right) for run in own if run.right is not None]
        total.right.append(fmean(graded) if graded else nan)
    return total


def live_settings(runs: Sequence[LiveRun]) -> str:
    """The settings of live runs, as far as their outcomes have them."""
    windows, budgets = (_range(run.outcome.get(name) for run in runs) for name in ("window", "paths"))
    if any(run.outcome.get("window_paths") for run in runs) or not windows:
        windows = f"chosen live ({windows})" if windows else "chosen live"
    budget = f"{budgets} paths" if budgets else "of the run"
    by_strategy = grouped(runs, lambda run: run.strategy)
    repeats = _range(1 + max(run.repeat for run in own) for own in by_strategy.values())
    try:
        weights = weight_scales(by_strategy)
    except UsageError:  # a strategy of a package that is not installed here
        weights = "by strategy"
    return settings_note(window=windows, budget=budget, repeats=repeats, weights=weights)


def _range(values: Iterable[object]) -> str:
    """The one number among them, or the least and the largest; empty if there is none."""
    numbers = {value for value in values if isinstance(value, int)}
    return " to ".join(str(number) for number in sorted({min(numbers), max(numbers)})) if numbers else ""


def _mean(title: str, value: Callable[[LiveRun], float], kind: Kind, unit: str | None = None) -> Field[LiveLine]:
    """A mean over the runs."""
    return field(title, lambda line: fmean(map(value, line.live)), kind, unit)


def _difference(line: LiveLine) -> Cell:
    return measure(line.row.difference, line.row.difference_interval)


COMPARED_LIVE: Final[list[Field[LiveLine]]] = [
    *NAMES, QUESTIONS, ACCURACY, Field(DIFFERENCE.column, _difference), WON, LOST,
]  # fmt: skip
"""What the rows of all live tables begin with."""
LIVE_FIELDS: Final[list[Field[LiveLine]]] = [
    *COMPARED_LIVE,
    TOKENS,
    WIDTH,
    _mean("init", lambda run: run.init_seconds, "seconds"),
    _mean("final", lambda run: run.final_seconds, "seconds"),
    _mean("total", lambda run: run.total_seconds, "seconds"),
]
NOTE: Final = (
    "each strategy sampled its own paths on a live engine; seconds are means per question, init up to the end of the "
    "warm-up, final from there to the answer"
)


def live_tables(runs: Sequence[LiveRun], name: str, in_paper: Sequence[Field[LiveLine]] = ()) -> list[Table]:
    """One table of all live runs, and what the paper prints; no table if there are none."""
    lines = list(live_lines(runs))
    printed, explained = with_printed(in_paper, lines)
    fields: list[Field[LiveLine]] = [*LIVE_FIELDS, *printed]
    notes = [NOTE, *explained, live_settings(runs)]
    return [table(f"{name}-live", "Measured live", fields, lines, notes, live=True)] if lines else []


# -- searches

SEARCHES: Final = ("ddc", "sure", "predictive+sc", "phi+sc")
SEARCHED: Final[list[Field[LiveLine]]] = [
    *COMPARED_LIVE,
    field("budget", lambda line: int(line.live[0].outcome.get("paths", 0)), "count", "paths"),
    WIDTH,
    TOKENS,
    _mean("of these, search", lambda run: run.tokens.get("search", 0), "tokens"),
    _mean("prompt tokens", lambda run: run.tokens.get("prompt", 0) + run.tokens.get("reread", 0), "tokens"),
    _mean("seconds", lambda run: run.total_seconds, "seconds"),
]
SEARCH_NOTES: Final = (
    "each strategy sampled its own paths on a live engine; tokens are all that were sampled, rollouts included",
    "a search is one path of its strategy; prompt tokens of all requests, cached or not, are not part of tokens",
)


def _measure_searches(inputs: Inputs) -> Iterator[Found]:
    if not inputs.live_runs:
        raise UsageError(SEARCH.no_questions)
    lines, notes = live_lines(inputs.live_runs), [*SEARCH_NOTES, live_settings(inputs.live_runs)]
    yield table("search", "Searching for paths, measured live", SEARCHED, lines, notes, live=True)
    keys = sorted({(one.model, one.dataset, one.setting) for one in published.printed() if one.table == 2})
    printed = [in_paper(2, "accuracy", "percent").column, in_paper(2, "tokens").column]
    cells: list[list[Cell]] = []
    for key in keys:
        accuracy, tokens = (published.value(2, *key, name) or nan for name in ("accuracy", "tokens"))
        cells.append([*key, 0.01 * accuracy, 1e7 * tokens])
    note = "the paper's own numbers, over all questions of a dataset; it does not say how many searches voted"
    settings = settings_note(window="2048", budget="not given", repeats="not given", weights="not given")
    shown = [*columns("text", "model", "dataset", "strategy"), *printed]
    yield Table("paper", "Table 2 as the paper prints it", shown, cells, [note, settings])


SEARCH: Final = Experiment(
    "search",
    "predictive and φ-decoding beside ddc and sure, live (table 2)",
    _measure_searches,
    "only",
    reads=("strategies",),
    compared=SEARCHES,
)

# -- latency

TIMED: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
PARALLEL: Final = 16
INIT: Final = ", its warm-up"
"""In the label of a cell."""
PRINTED_SECONDS: Final = [in_paper(5, name, "seconds") for name in ("init seconds", "final seconds", "seconds")]
NO_SECONDS: Final = "no live runs were given: seconds need --live; steps are their lower bound"
STEPS_NOTE: Final = (
    "steps: the longest chain of tokens generated one after another, the lower bound of latency on a server that gives "
    "every path one token per step; init: until the last warm-up path has ended"
)


def _measure_latency(inputs: Inputs) -> Iterator[Found]:
    """Seconds of live runs, steps of recorded paths; never in one table."""
    if not inputs.live_runs and not inputs.sources:
        raise UsageError("latency needs live runs (--live with a server or the built-in model), or a pool for steps")
    tables = live_tables(inputs.live_runs, "latency", PRINTED_SECONDS)
    yield from tables
    yield _seconds(inputs.live_runs) if tables else NO_SECONDS
    if inputs.sources:
        yield from replay_experiment(_phase_cells, _steps)(inputs)


def _phase_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """Each strategy, and after them the warm-up alone of those that have one: its steps are those of the init phase."""
    parallel = inputs.options.parallel if inputs.options.parallel > 1 else PARALLEL
    options, names = cell_options(inputs, pool.window, parallel=parallel), inputs.strategies or TIMED
    warmups = [(name, resolve(name).warmup) for name in names if resolve(name).warmup]
    return [ReplayCell(name, name, options) for name in names] + [
        ReplayCell(f"{name}{INIT}", name, replace(options, paths=warmup)) for name, warmup in warmups
    ]


def _steps(results: Results) -> Iterator[Found]:
    every = [line for lines in results for line in lines]
    init = {(line.source, line.cell.label): line.row.steps for line in every}

    def init_steps(line: Line) -> float:
        return init.get((line.source, line.cell.label + INIT), 0.0)

    full = [[line for line in lines if not line.cell.label.endswith(INIT)] for lines in results]
    fields = [
        *NAMES, ACCURACY,
        of_line("init steps", init_steps, "count", "per question"),
        of_line("final steps", lambda line: line.row.steps - init_steps(line), "count", "per question"),
        STEPS, TOKENS,
    ]  # fmt: skip
    title = f"Recorded paths in steps, {every[0].cell.options.parallel} at once"
    lines = [line for of_source in full for line in of_source]
    yield table("steps", title, fields, lines, [STEPS_NOTE, settings_of(lines)])
    yield from cell_figure("steps", title, STEPS)(full)


def _seconds(runs: Sequence[LiveRun]) -> Figure:
    every = [
        Series(", ".join(names), list(own), [fmean(run.total_seconds for run in of_one) for of_one in own.values()])
        for names, own in comparable_runs(runs).items()
    ]
    title = "Measured live: seconds per question"
    return Figure("seconds", title, "bar", CATEGORIES, Axis("seconds per question"), every, live=True)


LATENCY: Final = Experiment(
    "latency",
    "init, final and total seconds, live (table 5)",
    _measure_latency,
    "needed",
    reads=("strategies",),
)
