"""The paper's table 5: seconds for the init phase, for the rest and in all, live; in steps, on recorded paths."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean
from typing import Final

from sureenough.bench.paper import columns as c
from sureenough.bench.paper import published
from sureenough.bench.paper.columns import settings_of
from sureenough.bench.paper.experiment import (
    Experiment,
    Findings,
    Inputs,
    cell_options,
    replay_findings,
    replay_inputs,
)
from sureenough.bench.paper.figures import CATEGORIES, STEPS, bars
from sureenough.bench.paper.live_tables import comparable_runs, live_tables
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import CellResult, ReplayCell
from sureenough.bench.result import NAMES, Axis, Cell, Figure, ResultColumn, Series, Table
from sureenough.errors import UsageError
from sureenough.spec import resolve

METHODS: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
PARALLEL: Final = 16
COLUMNS: Final = [
    *NAMES,
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("init steps", "count", "per question"),
    ResultColumn("final steps", "count", "per question"),
    ResultColumn("steps", "count", "per question"),
    ResultColumn("tokens", "tokens", "per question"),
]
STEPS_NOTE: Final = (
    "steps: the longest chain of tokens generated one after another, the lower bound of latency on a server that gives "
    "every path one token per step; init: until the last warm-up path has ended"
)


def _measure(inputs: Inputs) -> Findings:
    """Seconds of live runs, steps of recorded paths; never in one table."""
    if not inputs.live_runs and not inputs.sources:
        raise UsageError("latency needs live runs (--live with a server or the built-in model), or a pool for steps")
    tables = [_with_paper(table) for table in live_tables(inputs.live_runs, "latency")]
    figures = [_live_figure(inputs)] if tables else []
    notes = [] if tables else ["no live runs were given: seconds need --live; steps are their lower bound"]
    if not inputs.sources:
        return Findings(tables, figures, notes)
    results = replay_inputs(inputs, _cells)
    pairs = [_pairs(lines) for lines in results]
    title = f"Recorded paths in steps, {pairs[0][0][0].cell.options.parallel} at once"
    rows = [_row(full, init) for one in pairs for full, init in one]
    settings = settings_of([full for one in pairs for full, _ in one])
    tables.append(Table("steps", title, COLUMNS, rows, [STEPS_NOTE, settings]))
    figures.append(bars("steps", title, STEPS)([[full for full, _ in one] for one in pairs]))
    findings = replay_findings(inputs, results, tables, figures)
    return Findings(findings.tables, findings.figures, [*notes, *findings.notes], findings.pools)


def _cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """Each strategy, followed by its warm-up alone, if it has one: its steps are those of the init phase."""
    parallel = inputs.options.parallel if inputs.options.parallel > 1 else PARALLEL
    cells = []
    for name in inputs.strategies or METHODS:
        cells.append(ReplayCell(name, name, cell_options(inputs, pool.window, parallel=parallel)))
        if warmup := resolve(name).warmup:
            cells.append(ReplayCell(name, name, cell_options(inputs, pool.window, parallel=parallel, paths=warmup)))
    return cells


def _pairs(results: Sequence[CellResult]) -> list[tuple[CellResult, CellResult | None]]:
    """Each strategy with its warm-up alone, if it has one."""
    rest = iter(results)
    return [(full, next(rest) if resolve(full.cell.strategy).warmup else None) for full in rest]


def _row(full: CellResult, init: CellResult | None) -> list[Cell]:
    steps = full.row.steps
    init_steps = init.row.steps if init is not None else 0.0
    names: list[Cell] = [full.source.dataset, full.source.model, full.cell.label]
    accuracy = c.measure(full.row.accuracy, full.row.interval)
    return [*names, accuracy, init_steps, steps - init_steps, steps, full.row.tokens]


def _with_paper(table: Table) -> Table:
    """With the paper's seconds for the same model, dataset and method, on its own hardware."""
    names = ("init seconds", "final seconds", "seconds")
    printed = [
        [published.value(5, str(row[1]), str(row[0]), str(row[2]), name) for name in names] for row in table.rows
    ]
    if not any(value is not None for values in printed for value in values):
        return table
    columns = [ResultColumn(f"{name} in the paper", "seconds", "s", paper="table 5") for name in names]
    rows = [[*row, *values] for row, values in zip(table.rows, printed, strict=True)]
    return Table(table.name, table.title, [*table.columns, *columns], rows, table.notes, live=True)


def _live_figure(inputs: Inputs) -> Figure:
    series = []
    for (dataset, model), strategies in comparable_runs(inputs.live_runs).items():
        seconds = [fmean(run.total_seconds for run in own) for own in strategies.values()]
        series.append(Series(f"{dataset}, {model}", list(strategies), [*seconds]))
    title = "Measured live: seconds per question"
    return Figure("seconds", title, "bar", CATEGORIES, Axis("seconds per question"), series, live=True)


EXPERIMENT: Final = Experiment(
    "latency",
    "init, final and total seconds, live (table 5)",
    "Latency: init, final and total",
    _measure,
    "needed",
    reads=("strategies",),
)
