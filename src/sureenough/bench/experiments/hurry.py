"""Tokens against steps: recorded paths under planned width, from the fewest tokens to all paths at once."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import groupby
from typing import Final

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.experiment import Experiment, Inputs
from sureenough.bench.experiments.figures import STEPS, series
from sureenough.bench.experiments.replayed import Results, cell_options, replay_experiment
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import Axis, Figure, ResultColumn, Table

NAMES: Final = ("ac", "ddc", "sure")
PARALLEL: Final = 64
VALUES: Final = (0.0, 0.1, 0.25, 0.5, 1.0, 2.0)
ALL_AT_ONCE: Final = "all at once"

HURRY: Final = c.Column(
    ResultColumn("hurry"),
    lambda line: f"{line.cell.options.hurry:g}" if line.cell.options.planned else ALL_AT_ONCE,
)
DISCARDED: Final = c.Column(
    ResultColumn("discarded", "tokens", "per question"), lambda line: line.row.buckets["discarded"]
)
MEANING: Final = (
    "hurry: with planned width, paths that may run at once per path that has ended, beside twice what could settle the "
    "vote; the answers are the same in every row of a strategy"
)


def _table(results: Results) -> Table:
    title = f"Tokens and steps, at most {results[0][0].cell.options.parallel} paths at once"
    columns = [*c.NAMES, HURRY, c.ACCURACY, c.TOKENS, DISCARDED, c.STEPS, c.WIDTH]
    return c.table("hurry", title, columns, [MEANING])(results)


def _cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    parallel = inputs.options.parallel if inputs.options.parallel > 1 else PARALLEL
    cells = []
    for name in inputs.strategies or NAMES:
        for hurry in inputs.sweep or VALUES:
            options = cell_options(inputs, pool.window, parallel=parallel, planned=True, hurry=hurry)
            cells.append(ReplayCell(f"{name}/{hurry:g}", name, options))
        options = cell_options(inputs, pool.window, parallel=parallel, planned=False)
        cells.append(ReplayCell(f"{name}/{ALL_AT_ONCE}", name, options))
    return cells


def _figure(number: int, lines: Sequence[CellResult]) -> Figure:
    curves = []
    for name, group in groupby(lines, key=c.strategy_name):
        own = list(group)
        labels = [line.cell.label for line in own]
        curves.append(series(name, own, [line.row.tokens for line in own], STEPS, labels))
    title = f"{lines[0].source.label}: steps against tokens"
    return Figure(f"hurry-{number}", title, "line", Axis("tokens per question", "log"), STEPS.axis, curves)


EXPERIMENT: Final = Experiment(
    "hurry",
    "tokens against steps under planned width (not in the paper)",
    "Hurry: tokens against steps",
    replay_experiment(_cells, [_table], by_source=[_figure]),
    reads=("strategies", "sweep"),
)
