"""Accuracy against tokens along the main option of every strategy, and the points that no other point beats."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import isnan, nan
from typing import Final

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs
from sureenough.bench.experiments.figures import ACCURACY, differences
from sureenough.bench.experiments.replayed import cell_options, replay_findings, replay_inputs
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.recommendation import recommend
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import Axis, Figure, ResultColumn, Series, grouped, number
from sureenough.bench.score import agreement
from sureenough.bench.strategy_lists import fitting_pool, recorded_paths
from sureenough.spec import options, parse
from sureenough.strategies import COMPARED

VALUES: Final[dict[str, tuple[float, ...]]] = {
    "delta": (0.002, 0.005, 0.01, 0.02, 0.05),
    "tau": (0.7, 0.8, 0.9, 0.95, 0.99),
    "batch": (3, 4, 5, 8, 12),
}
"""The main option of strategies that have it, from these; the others are run with smaller budgets."""
SAVING: Final = c.Column(
    ResultColumn("saving", "ratio", "against the first"),
    lambda line: number(line.first.mean("tokens") / (line.row.tokens or nan)),
)
CURVES: Final = "one curve per strategy over its main option"
READING: Final = (
    "one curve per strategy: delta, tau or batch, and for the others the budget of paths",
    "marked points are not beaten: no other point is at least as good with fewer tokens, or better with as many",
    "differences are paired, to sc with the whole budget",
)


def _measure(inputs: Inputs) -> Findings:
    """Every strategy at every value of its main option."""
    replayed = replay_inputs(inputs, _cells)
    results = [one.results for one in replayed]
    best = [best_lines(lines) for lines in results]
    unbeaten = {id(line) for lines in best for line in lines}
    mark = c.Column(ResultColumn("not beaten"), lambda line: "●" if id(line) in unbeaten else "")
    names = (c.DATASET, c.MODEL, c.Column(ResultColumn("strategy"), lambda line: line.cell.label))
    table = c.table(
        "frontier", "Accuracy and tokens along the main options",
        [*names, mark, c.ACCURACY, c.DIFFERENCE, c.TOKENS, SAVING, c.WIDTH, c.SETTLED], READING,
    )  # fmt: skip
    pairs = zip(results, best, strict=True)
    compared = [recommend([lines[0], *(line for line in few if line is not lines[0])]) for lines, few in pairs]
    advised = [one for one in compared if one is not None]
    figures = [
        frontier_figure(f"frontier-{i}", lines, few, lambda line: parse(line.runs.strategy).name, CURVES)
        for i, (lines, few) in enumerate(zip(results, best, strict=True), 1)
    ]
    figures += [differences(f"differences-{i}", one) for i, one in enumerate(advised, 1)]
    return replace(replay_findings(inputs, replayed, [table(results)], figures), recommendations=advised)


def _cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """The whole budget of sc first: differences are to it."""
    base = cell_options(inputs, pool.window)
    most = min(recorded_paths(pool.pool), base.paths or 1)
    base = replace(base, paths=most)
    chosen = list(inputs.strategies or fitting_pool(COMPARED, pool, most))
    cells = []
    for name in ["sc", *(name for name in chosen if name != "sc")]:
        known, typed = options(parse(name)), parse(name).explicit_options
        main = next((option for option in VALUES if option in known), None)
        if main is None:
            budgets = [n for n in (most >> k for k in range(most.bit_length())) if n >= max(1, parse(name).warmup)]
            labels = [f"{name}, {n} path{'s' * (n > 1)}" if n < most else name for n in budgets]
            cells += [ReplayCell(label, name, replace(base, paths=n)) for label, n in zip(labels, budgets, strict=True)]
        else:
            join = "," if ":" in name else ":"
            specs = [name] if main in typed else [f"{name}{join}{main}={value:g}" for value in VALUES[main]]
            cells += [ReplayCell(spec, spec, base) for spec in specs]
    return cells


def quality(line: CellResult) -> float:
    """Accuracy; without gold answers, agreement with sc, which is the first line."""
    return float(agreement(line.runs, line.first).mean()) if isnan(line.row.accuracy) else line.row.accuracy


def best_lines(lines: Sequence[CellResult]) -> list[CellResult]:
    """The points that no other point beats."""
    best: list[CellResult] = []
    for line in sorted(lines, key=lambda line: (line.row.tokens, -quality(line))):
        if not best or quality(line) > quality(best[-1]):
            best.append(line)
    return best


def frontier_figure(
    name: str, lines: Sequence[CellResult], best: Sequence[CellResult], curve_of: Callable[[CellResult], str], note: str
) -> Figure:
    """One curve per strategy, the points that no other beats marked."""
    unbeaten = {id(line) for line in best}
    series = []
    for strategy, own in grouped(lines, curve_of).items():
        own.sort(key=lambda line: line.row.tokens)
        series.append(
            Series(
                strategy, [line.row.tokens for line in own], [number(quality(line)) for line in own],
                labels=[line.cell.label for line in own], marked=[id(line) in unbeaten for line in own],
            )
        )  # fmt: skip
    graded = not isnan(lines[0].row.accuracy)
    axis = ACCURACY.axis if graded else Axis("agreement with sc, %", percent=True)
    noun = "accuracy" if graded else "agreement with sc"
    title = f"{lines[0].source.dataset}, {lines[0].source.model}: {noun} against tokens"
    note = f"{note}; no other point beats those that are circled"
    return Figure(name, title, "line", Axis("tokens per question", "log"), axis, series, [note])


EXPERIMENT: Final = Experiment(
    "frontier",
    "accuracy against tokens along delta, tau, batch and budget; what nothing beats",
    "The frontier of accuracy and tokens",
    _measure,
    reads=("strategies",),
)
