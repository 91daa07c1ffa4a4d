"""Live runs as tables of their own: real seconds on a real engine, never mixed with replayed numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from math import nan
from statistics import fmean

from sureenough.bench.experiments.fields import changed, measure
from sureenough.bench.experiments.inputs import LiveRow
from sureenough.bench.result import Cell, ResultColumn, Table
from sureenough.bench.score import StrategyRuns, rows

Key = tuple[str, str]


def live_sheets(runs: Sequence[LiveRow]) -> dict[Key, dict[str, list[LiveRow]]]:
    """By dataset and model, then by strategy: the runs of questions that every strategy has finished."""
    found: dict[Key, dict[str, list[LiveRow]]] = {}
    for run in runs:
        found.setdefault((run.dataset, run.model), {}).setdefault(run.strategy, []).append(run)
    for strategies in found.values():
        common = set.intersection(*({run.question for run in mine} for mine in strategies.values()))
        for name, mine in strategies.items():
            kept = [run for run in mine if run.question in common]
            strategies[name] = sorted(kept, key=lambda run: (run.question, run.repeat))
    return {key: strategies for key, strategies in found.items() if all(strategies.values())}


COLUMNS = [
    ResultColumn("dataset"),
    ResultColumn("model"),
    ResultColumn("strategy"),
    ResultColumn("questions", "count"),
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("vs first", "points", "points"),
    ResultColumn("won", "count", "questions"),
    ResultColumn("lost", "count", "questions"),
    ResultColumn("tokens", "tokens", "a question"),
    ResultColumn("width", "number", "paths", 1),
    ResultColumn("init", "seconds", "s"),
    ResultColumn("final", "seconds", "s"),
    ResultColumn("total", "seconds", "s"),
]


def live_tables(runs: Sequence[LiveRow], name: str) -> list[Table]:
    """One table of all live runs; none where there are none."""
    lines: list[list[Cell]] = []
    for (dataset, model), strategies in live_sheets(runs).items():
        sheets = [_sheet(strategy, mine) for strategy, mine in strategies.items()]
        for sheet, row, mine in zip(sheets, rows(sheets, 1, 0), strategies.values(), strict=True):
            lines.append(
                [dataset, model, sheet.strategy, sheet.questions, measure(row.accuracy, row.interval),
                 measure(row.difference, row.difference_interval), *changed(sheet, sheets[0]), row.tokens, row.width,
                 fmean(run.init_seconds for run in mine), fmean(run.final_seconds for run in mine),
                 fmean(run.total_seconds for run in mine)]
            )  # fmt: skip
    if not lines:
        return []
    notes = ["each strategy sampled its own paths on a live engine; seconds are means a question, init to the end of "
             "the warm-up, final from there to the answer"]  # fmt: skip
    return [Table(f"{name}-live", "Measured live", COLUMNS, lines, notes, live=True)]


def _sheet(strategy: str, runs: Sequence[LiveRow]) -> StrategyRuns:
    """The same sums that replayed outcomes leave."""
    sheet = StrategyRuns(strategy)
    questions: dict[str, list[float]] = {}
    for run in runs:
        graded = questions.setdefault(run.question, [])
        if run.right is not None:
            graded.append(float(run.right))
        sheet.runs += 1
        sheet.reasons[run.reason] += 1
        sheet.sums.update(_sums(run))
    sheet.questions = len(questions)
    sheet.right = [fmean(graded) if graded else nan for graded in questions.values()]
    return sheet


def _sums(run: LiveRow) -> Counter[str]:
    total = run.tokens["total"]
    sums = Counter({"tokens": total, "plain": total, "steps": run.steps, "width": run.started, "pruned": run.pruned})
    sums.update({f"tokens {name}": n for name, n in run.tokens.items() if name != "total"})
    sums.update({f"tier {name}": n for name, n in run.tiers.items()})
    return sums
