"""The paper's table 5: seconds for the init phase, for the rest and in all, live; in steps, on recorded paths."""

from __future__ import annotations

from statistics import fmean
from typing import Final

from sureenough.bench import paper
from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.live import live_sheets, live_tables
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import CellResult, ReplayCell, replayed, settings_of
from sureenough.bench.result import Axis, ExperimentResult, Figure, ResultColumn, Series, Table
from sureenough.bench.result import Cell as Value
from sureenough.errors import UsageError
from sureenough.spec import resolve

NAMES: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
AT_ONCE: Final = 16
TITLE: Final = "Latency: init, final and total"


def run(inputs: Inputs) -> ExperimentResult:
    """Live runs where there are any, recorded paths in steps where there are pools; never in one table."""
    clock = Clock()
    if not inputs.live_runs and not inputs.sources:
        raise UsageError("latency needs live runs (--live with a server or the built-in model), or a pool for steps")
    tables = [_beside_theirs(table) for table in live_tables(inputs.live_runs, "latency")]
    figures = [_live_figure(inputs)] if tables else []
    notes: list[str] = [] if tables else ["no live runs were given: seconds need --live; steps are their floor"]
    if not inputs.sources:
        return finish("latency", TITLE, inputs, clock, tables=tables, figures=figures, notes=notes)
    lines, seen, more = replayed(inputs, lambda pool: _cells(inputs, pool.window))
    both = [list(zip(one[::2], one[1::2], strict=True)) for one in lines]
    rows: list[list[Value]] = [_row(whole, init) for one in both for whole, init in one]
    at_once = lines[0][0].cell.settings.options.parallel
    title = f"Recorded paths in steps, {at_once} at once"
    tables.append(Table("steps", title, COLUMNS, rows, STEPS))
    wholes = [[whole for whole, _ in one] for one in both]
    figures.append(drawn.bars("steps", title, wholes, Axis("steps a question"), lambda line: line.row.steps))
    return finish("latency", TITLE, inputs, clock, tables=tables, figures=figures, notes=[*notes, *more], seen=seen)


COLUMNS: Final = [
    ResultColumn("dataset"),
    ResultColumn("model"),
    ResultColumn("strategy"),
    ResultColumn("accuracy", "percent", "%"),
    ResultColumn("init steps", "count", "a question"),
    ResultColumn("final steps", "count", "a question"),
    ResultColumn("steps", "count", "a question"),
    ResultColumn("tokens", "tokens", "a question"),
]
STEPS: Final = [
    "steps: the longest chain of tokens made one after another, the floor of latency on a server that gives every path "
    "a token a step; init: until the last warm-up path has ended"
]


def _cells(inputs: Inputs, window: int) -> list[ReplayCell]:
    """Each strategy, and beside it its warm-up alone, whose steps are those of the init phase."""
    at_once = inputs.settings.parallel if inputs.settings.parallel > 1 else AT_ONCE
    cells = []
    for name in inputs.settings.strategies or NAMES:
        warmup = resolve(name).warmup or 1
        cells += [
            ReplayCell(name, name, settings_of(inputs.settings, window, parallel=at_once)),
            ReplayCell(name, name, settings_of(inputs.settings, window, parallel=at_once, paths=warmup)),
        ]
    return cells


def _row(whole: CellResult, init: CellResult) -> list[Value]:
    steps = whole.row.steps
    first = init.row.steps if resolve(whole.cell.strategy).warmup else 0.0
    names: list[Value] = [whole.source.dataset, whole.source.model, whole.cell.strategy]
    return [*names, f.measure(whole.row.accuracy, whole.row.interval), first, steps - first, steps, whole.row.tokens]


def _beside_theirs(table: Table) -> Table:
    """The paper's seconds for the same model, dataset and method, on its own hardware."""
    names = ("init seconds", "final seconds", "seconds")
    found = [[paper.value(5, str(row[1]), str(row[0]), str(row[2]), name) for name in names] for row in table.rows]
    if not any(value is not None for values in found for value in values):
        return table
    columns = [
        *table.columns,
        *(ResultColumn(f"{name} in the paper", "seconds", "s", theirs="table 5") for name in names),
    ]
    rows = [[*row, *values] for row, values in zip(table.rows, found, strict=True)]
    return Table(table.name, table.title, columns, rows, table.notes, live=True)


def _live_figure(inputs: Inputs) -> Figure:
    series = []
    for (dataset, model), strategies in live_sheets(inputs.live_runs).items():
        seconds = [fmean(run.total_seconds for run in mine) for mine in strategies.values()]
        series.append(Series(f"{dataset}, {model}", list(strategies), [*seconds]))
    x, y = Axis("", "category"), Axis("seconds a question")
    return Figure("seconds", "Measured live: seconds a question", "bar", x, y, series, live=True)


EXPERIMENT: Final = Experiment("latency", "init, final and total seconds, live (table 5)", run, "needed")
