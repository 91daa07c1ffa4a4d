"""Live runs as tables of their own: seconds on a real engine, never mixed with replayed numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import nan
from statistics import fmean
from typing import Final

from sureenough.bench.experiments.columns import changed, measure
from sureenough.bench.experiments.table_settings import settings_note
from sureenough.bench.live import LiveRun
from sureenough.bench.result import Cell, ResultColumn, Table
from sureenough.bench.score import StrategyRuns, rows

COMPARED: Final = [
    ResultColumn("dataset"),
    ResultColumn("model"),
    ResultColumn("strategy"),
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
    grouped: dict[tuple[str, str], dict[str, list[LiveRun]]] = {}
    for run in runs:
        grouped.setdefault((run.dataset, run.model), {}).setdefault(run.strategy, []).append(run)
    for strategies in grouped.values():
        common = set.intersection(*({run.question for run in own} for own in strategies.values()))
        for name, own in strategies.items():
            in_all = [run for run in own if run.question in common]
            strategies[name] = sorted(in_all, key=lambda run: (run.question, run.repeat))
    return {key: strategies for key, strategies in grouped.items() if all(strategies.values())}


def live_settings(runs: Sequence[LiveRun]) -> str:
    """The settings that live runs share; their window and budget are in the run's log."""
    repeats = 1 + max((run.repeat for run in runs), default=0)
    return settings_note(window="chosen live", budget="of the run", repeats=repeats, weights="by strategy")


def live_tables(runs: Sequence[LiveRun], name: str) -> list[Table]:
    """One table of all live runs; no table if there are none."""
    lines: list[list[Cell]] = []
    for (dataset, model), strategies in comparable_runs(runs).items():
        totals = [live_totals(strategy, own) for strategy, own in strategies.items()]
        for total, row, own in zip(totals, rows(totals, 1, 0), strategies.values(), strict=True):
            lines.append(
                [dataset, model, total.strategy, total.questions, measure(row.accuracy, row.interval),
                 measure(row.difference, row.difference_interval), *changed(total, totals[0]), row.tokens, row.width,
                 fmean(run.init_seconds for run in own), fmean(run.final_seconds for run in own),
                 fmean(run.total_seconds for run in own)]
            )  # fmt: skip
    return (
        [Table(f"{name}-live", "Measured live", COLUMNS, lines, [NOTE, live_settings(runs)], live=True)]
        if lines
        else []
    )


def live_totals(strategy: str, runs: Sequence[LiveRun]) -> StrategyRuns:
    """The same sums as of replayed outcomes."""
    total = StrategyRuns(strategy)
    questions: dict[str, list[float]] = {}
    for run in runs:
        graded = questions.setdefault(run.question, [])
        if run.right is not None:
            graded.append(float(run.right))
        total.runs += 1
        total.reasons[run.reason] += 1
        total.sums.update(_sums(run))
    total.questions = len(questions)
    total.right = [fmean(graded) if graded else nan for graded in questions.values()]
    return total


def _sums(run: LiveRun) -> Counter[str]:
    spent = run.tokens["total"]
    sums = Counter({"tokens": spent, "all tokens": spent, "steps": run.steps, "width": run.started})
    sums["pruned"] = run.pruned
    sums.update({f"tokens {name}": n for name, n in run.tokens.items() if name != "total"})
    sums.update({f"tier {name}": n for name, n in run.tiers.items()})
    return sums
