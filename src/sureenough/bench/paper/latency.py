"""Seconds for the init phase, for the rest and in all, live; in steps, on recorded paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Final

from sureenough.bench.experiment import Experiment, Found, Inputs, Results, cell_options, replay_experiment
from sureenough.bench.live import LiveRun
from sureenough.bench.paper import shared as s
from sureenough.bench.paper.live_tables import comparable_runs, live_tables
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import Line, ReplayCell
from sureenough.bench.result import Axis, Figure, Series
from sureenough.bench.tables import table
from sureenough.errors import UsageError
from sureenough.spec import resolve

METHODS: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
PARALLEL: Final = 16
INIT: Final = ", its warm-up"
"""In the label of a cell."""
SECONDS: Final = [s.in_paper(5, name, "seconds") for name in ("init seconds", "final seconds", "seconds")]
NO_SECONDS: Final = "no live runs were given: seconds need --live; steps are their lower bound"
STEPS_NOTE: Final = (
    "steps: the longest chain of tokens generated one after another, the lower bound of latency on a server that gives "
    "every path one token per step; init: until the last warm-up path has ended"
)


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Seconds of live runs, steps of recorded paths; never in one table."""
    if not inputs.live_runs and not inputs.sources:
        raise UsageError("latency needs live runs (--live with a server or the built-in model), or a pool for steps")
    tables = live_tables(inputs.live_runs, "latency", SECONDS)
    yield from tables
    yield _seconds(inputs.live_runs) if tables else NO_SECONDS
    if inputs.sources:
        yield from replay_experiment(_phase_cells, _steps)(inputs)


def _phase_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """Each strategy, and after them the warm-up alone of those that have one: its steps are those of the init phase."""
    parallel = inputs.options.parallel if inputs.options.parallel > 1 else PARALLEL
    options, names = cell_options(inputs, pool.window, parallel=parallel), inputs.strategies or METHODS
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
        *s.NAMES, s.ACCURACY,
        s.of_line("init steps", init_steps, "count", "per question"),
        s.of_line("final steps", lambda line: line.row.steps - init_steps(line), "count", "per question"),
        s.STEPS, s.TOKENS,
    ]  # fmt: skip
    title = f"Recorded paths in steps, {every[0].cell.options.parallel} at once"
    lines = [line for of_source in full for line in of_source]
    yield table("steps", title, fields, lines, [STEPS_NOTE, s.settings_of(lines)])
    yield from s.cell_figure("steps", title, s.STEPS)(full)


def _seconds(runs: Sequence[LiveRun]) -> Figure:
    every = [
        Series(", ".join(names), list(own), [fmean(run.total_seconds for run in of_one) for of_one in own.values()])
        for names, own in comparable_runs(runs).items()
    ]
    title = "Measured live: seconds per question"
    return Figure("seconds", title, "bar", s.CATEGORIES, Axis("seconds per question"), every, live=True)


EXPERIMENT: Final = Experiment(
    "latency",
    "init, final and total seconds, live (table 5)",
    "Latency: init, final and total",
    _measure,
    "needed",
    reads=("strategies",),
)
