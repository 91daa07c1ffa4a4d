"""Live runs as tables of their own, never mixed with replayed numbers; the paper's table 2 is all live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import nan
from statistics import fmean
from typing import Final

from sureenough.bench.live import LiveRun
from sureenough.bench.paper import published
from sureenough.bench.paper.columns import changed, measure, settings_note, weight_scales
from sureenough.bench.paper.experiment import Experiment, Findings, Inputs
from sureenough.bench.result import NAMES, Cell, ResultColumn, Table, grouped
from sureenough.bench.score import Row, StrategyRuns, rows
from sureenough.errors import UsageError

COMPARED: Final = [
    *NAMES,
    ResultColumn("questions", "count"),
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("vs first", "points", "points"),
    ResultColumn("won", "count", "questions"),
    ResultColumn("lost", "count", "questions"),
]
"""What the rows of all live tables begin with."""
COLUMNS: Final = [
    *COMPARED,
    ResultColumn("tokens", "tokens", "per question"),
    ResultColumn("width", "number", "paths", 1),
    ResultColumn("init", "seconds", "s"),
    ResultColumn("final", "seconds", "s"),
    ResultColumn("total", "seconds", "s"),
]
NOTE: Final = (
    "each strategy sampled its own paths on a live engine; seconds are means per question, init up to the end of the "
    "warm-up, final from there to the answer"
)


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


def live_settings(runs: Sequence[LiveRun]) -> str:
    """The settings of live runs, as far as their outcomes have them."""
    windows, budgets = (_range(run.outcome.get(name) for run in runs) for name in ("window", "paths"))
    if any(run.outcome.get("window_paths") for run in runs) or not windows:
        windows = f"chosen live ({windows})" if windows else "chosen live"
    budget = f"{budgets} paths" if budgets else "of the run"
    by_strategy = grouped(runs, lambda run: run.strategy).values()
    repeats = _range(1 + max(run.repeat for run in own) for own in by_strategy)
    return settings_note(window=windows, budget=budget, repeats=repeats, weights=_weights(runs))


def _range(values: Iterable[object]) -> str:
    """The one number among them, or the least and the largest; empty if there is none."""
    numbers = {value for value in values if isinstance(value, int)}
    return " to ".join(str(number) for number in sorted({min(numbers), max(numbers)})) if numbers else ""


def _weights(runs: Sequence[LiveRun]) -> str:
    try:
        return weight_scales(dict.fromkeys(run.strategy for run in runs))
    except UsageError:  # a strategy of a package that is not installed here
        return "by strategy"


def compared_lines(runs: Sequence[LiveRun]) -> Iterator[tuple[list[Cell], Row, list[LiveRun]]]:
    """The cells of COMPARED for every dataset, model and strategy, with the row and the runs they are from."""
    for names, strategies in comparable_runs(runs).items():
        totals = [live_totals(strategy, own) for strategy, own in strategies.items()]
        for total, row, own in zip(totals, rows(totals, 1, 0), strategies.values(), strict=True):
            accuracy, difference = measure(row.accuracy, row.interval), measure(row.difference, row.difference_interval)
            won_and_lost = changed(total, totals[0])
            yield [*names, total.strategy, total.questions, accuracy, difference, *won_and_lost], row, own


def live_tables(runs: Sequence[LiveRun], name: str) -> list[Table]:
    """One table of all live runs; no table if there are none."""
    lines: list[list[Cell]] = [
        [*compared, row.tokens, row.width,
         *(fmean(getattr(run, f"{part}_seconds") for run in own) for part in ("init", "final", "total"))]
        for compared, row, own in compared_lines(runs)
    ]  # fmt: skip
    notes = [NOTE, live_settings(runs)]
    return [Table(f"{name}-live", "Measured live", COLUMNS, lines, notes, live=True)] if lines else []


def live_totals(strategy: str, runs: Sequence[LiveRun]) -> StrategyRuns:
    """The same sums as of replayed outcomes."""
    total = StrategyRuns(strategy)
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


SEARCHES: Final = ("ddc", "sure", "predictive+sc", "phi+sc")
NO_QUESTIONS: Final = "search samples as it goes: give --dataset, and --url and --model for a server"
SEARCHED: Final = [
    *COMPARED,
    ResultColumn("budget", "count", "paths"),
    ResultColumn("width", "number", "paths", 1),
    ResultColumn("tokens", "tokens", "per question"),
    ResultColumn("of these, search", "tokens", "per question"),
    ResultColumn("prompt tokens", "tokens", "per question"),
    ResultColumn("seconds", "seconds", "s"),
]
SEARCH_NOTES: Final = (
    "each strategy sampled its own paths on a live engine; tokens are all that were sampled, rollouts included",
    "a search is one path of its strategy; prompt tokens of all requests, cached or not, are not part of tokens",
)
PRINTED: Final = [
    *map(ResultColumn, ("model", "dataset", "strategy")),
    ResultColumn("accuracy in the paper", "percent", "%", paper="table 2"),
    ResultColumn("tokens in the paper", "tokens7", "10^7", paper="table 2"),
]


def _measure_searches(inputs: Inputs) -> Findings:
    if not inputs.live_runs:
        raise UsageError(NO_QUESTIONS)
    return Findings([_live_table(inputs.live_runs), _paper_table()])


def _live_table(runs: Sequence[LiveRun]) -> Table:
    lines: list[list[Cell]] = []
    for compared, row, own in compared_lines(runs):
        prompts = fmean(run.tokens.get("prompt", 0) + run.tokens.get("reread", 0) for run in own)
        searched = fmean(run.tokens.get("search", 0) for run in own)
        budget, seconds = int(own[0].outcome.get("paths", 0)), fmean(run.total_seconds for run in own)
        lines.append([*compared, budget, row.width, row.tokens, searched, prompts, seconds])
    return Table(
        "search", "Searching for paths, measured live", SEARCHED, lines, [*SEARCH_NOTES, live_settings(runs)], live=True
    )


def _paper_table() -> Table:
    """The paper's own numbers, whatever was measured here."""
    printed: dict[tuple[str, str, str], dict[str, float]] = {}
    for one in published.printed():
        if one.table == 2:
            printed.setdefault((one.model, one.dataset, one.setting), {})[one.measure] = one.value
    lines: list[list[Cell]] = [
        [*names, values["accuracy"] * 0.01, values["tokens"] * 1e7] for names, values in sorted(printed.items())
    ]
    note = "the paper's own numbers, over all questions of a dataset; it does not say how many searches voted"
    settings = settings_note(window="2048", budget="not given", repeats="not given", weights="not given")
    return Table("paper", "Table 2 as the paper prints it", PRINTED, lines, [note, settings])


SEARCH: Final = Experiment(
    "search",
    "predictive and φ-decoding beside ddc and sure, live (table 2)",
    "Searching for paths",
    _measure_searches,
    "needed",
    reads=("strategies",),
    compared=SEARCHES,
)
