"""Live runs as tables of their own, never mixed with replayed numbers; and searches for paths, which are all live."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import nan
from pathlib import Path
from statistics import fmean
from typing import Final

from sureenough.bench.experiment import Experiment, Found, Inputs
from sureenough.bench.live import LiveRun
from sureenough.bench.paper import published
from sureenough.bench.paper import shared as s
from sureenough.bench.pipeline import Source
from sureenough.bench.replay import Line, ReplayCell
from sureenough.bench.result import grouped
from sureenough.bench.score import StrategyRuns, rows
from sureenough.bench.tables import Cell, Field, Kind, Table, columns, field, measure, table
from sureenough.core.options import RunOptions
from sureenough.errors import UsageError


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
        in_all = sorted((run for run in together if run.question in common), key=lambda run: (run.question, run.repeat))
        if common:
            comparable[key] = {name: [run for run in in_all if run.strategy == name] for name in strategies}
    return comparable


def live_lines(runs: Sequence[LiveRun]) -> Iterator[LiveLine]:
    for names, strategies in comparable_runs(runs).items():
        source = Source(*names, Path())
        totals = list(map(_totals, strategies.values()))
        for row, total in zip(rows(list(strategies), totals, 0), totals, strict=True):
            cell = ReplayCell(row.strategy, row.strategy, RunOptions())
            yield LiveLine(source, cell, row, total, totals[0], strategies[row.strategy])


def _totals(runs: Sequence[LiveRun]) -> StrategyRuns:
    """The same sums as of replayed outcomes."""
    total = StrategyRuns()
    for run in runs:
        spent, out = run.tokens["total"], run.outcome
        total.reasons[out["reason"]] += 1
        total.sums.update({"tokens": spent, "all tokens": spent, "width": out["started"]})
        total.sums.update({"steps": out["steps"], "pruned": out["pruned"]})
        total.sums.update({f"tokens {name}": n for name, n in run.tokens.items() if name != "total"})
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
        weights = s.weight_scales(by_strategy)
    except UsageError:  # a strategy of a package that is not installed here
        weights = "by strategy"
    return s.settings_note(window=windows, budget=budget, repeats=repeats, weights=weights)


def _range(values: Iterable[object]) -> str:
    """The one number among them, or the least and the largest; empty if there is none."""
    numbers = {value for value in values if isinstance(value, int)}
    return " to ".join(str(number) for number in sorted({min(numbers), max(numbers)})) if numbers else ""


def _mean(title: str, value: Callable[[LiveRun], float], kind: Kind, unit: str | None = None) -> Field[LiveLine]:
    """A mean over the runs."""
    return field(title, lambda line: fmean(map(value, line.live)), kind, unit)


def _difference(line: LiveLine) -> Cell:
    return measure(line.row.difference, line.row.difference_interval)


COMPARED: Final[list[Field[LiveLine]]] = [
    *s.NAMES, s.QUESTIONS, s.ACCURACY, Field(s.DIFFERENCE.column, _difference), s.WON, s.LOST,
]  # fmt: skip
"""What the rows of all live tables begin with."""
FIELDS: Final[list[Field[LiveLine]]] = [
    *COMPARED,
    s.TOKENS,
    s.WIDTH,
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
    printed, explained = s.with_printed(in_paper, lines)
    fields: list[Field[LiveLine]] = [*FIELDS, *printed]
    notes = [NOTE, *explained, live_settings(runs)]
    return [table(f"{name}-live", "Measured live", fields, lines, notes, live=True)] if lines else []


# -- searches

SEARCHES: Final = ("ddc", "sure", "predictive+sc", "phi+sc")
SEARCHED: Final[list[Field[LiveLine]]] = [
    *COMPARED,
    field("budget", lambda line: int(line.live[0].outcome.get("paths", 0)), "count", "paths"),
    s.WIDTH,
    s.TOKENS,
    _mean("of these, search", lambda run: run.tokens.get("search", 0), "tokens"),
    _mean("prompt tokens", lambda run: run.tokens.get("prompt", 0) + run.tokens.get("reread", 0), "tokens"),
    _mean("seconds", lambda run: run.total_seconds, "seconds"),
]
SEARCH_NOTES: Final = (
    "each strategy sampled its own paths on a live engine; tokens are all that were sampled, rollouts included",
    "a search is one path of its strategy; prompt tokens of all requests, cached or not, are not part of tokens",
)


def _measure_searches(inputs: Inputs) -> Iterator[Found]:
    runs = inputs.live_runs
    if not runs:
        raise UsageError(SEARCH.no_questions)
    notes = [*SEARCH_NOTES, live_settings(runs)]
    yield table("search", "Searching for paths, measured live", SEARCHED, live_lines(runs), notes, live=True)
    yield _paper_table()


def _paper_table() -> Table:
    """The paper's own numbers, whatever was measured here."""
    keys = sorted({(one.model, one.dataset, one.setting) for one in published.printed() if one.table == 2})
    rows: list[list[Cell]] = [
        [
            *key,
            *(scale * (published.value(2, *key, name) or nan) for name, scale in (("accuracy", 0.01), ("tokens", 1e7))),
        ]
        for key in keys
    ]
    note = "the paper's own numbers, over all questions of a dataset; it does not say how many searches voted"
    settings = s.settings_note(window="2048", budget="not given", repeats="not given", weights="not given")
    shown = [*columns("text", "model", "dataset", "strategy"), s.in_paper(2, "accuracy", "percent").column,
               s.in_paper(2, "tokens").column]  # fmt: skip
    return Table("paper", "Table 2 as the paper prints it", shown, rows, [note, settings])


SEARCH: Final = Experiment(
    "search",
    "predictive and φ-decoding beside ddc and sure, live (table 2)",
    "Searching for paths",
    _measure_searches,
    "only",
    reads=("strategies",),
    compared=SEARCHES,
)
