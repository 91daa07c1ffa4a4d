"""Seconds for the init phase, for the rest and in all, live; in steps, on recorded paths."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench.live import LiveRun
from sureenough.bench.paper import shared as s
from sureenough.bench.paper.experiment import (
    Experiment,
    Found,
    Inputs,
    cell_options,
    notes_and_pools,
    replay_inputs,
)
from sureenough.bench.paper.live_tables import comparable_runs, live_tables
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import CellResult, ReplayCell
from sureenough.bench.result import Axis, Figure, Series
from sureenough.bench.tables import Field, field, table
from sureenough.errors import UsageError
from sureenough.spec import resolve

METHODS: Final = ("sc", "ac", "deepconf-low", "ddc", "sure")
PARALLEL: Final = 16
SECONDS: Final = [s.in_paper(5, name, "seconds") for name in ("init seconds", "final seconds", "seconds")]
NO_SECONDS: Final = "no live runs were given: seconds need --live; steps are their lower bound"
STEPS_NOTE: Final = (
    "steps: the longest chain of tokens generated one after another, the lower bound of latency on a server that gives "
    "every path one token per step; init: until the last warm-up path has ended"
)


class Phases(NamedTuple):
    """A strategy, and its warm-up alone if it has one."""

    full: CellResult
    init: CellResult | None

    @property
    def init_steps(self) -> float:
        return self.init.row.steps if self.init else 0.0


def _full(phases: Phases) -> CellResult:
    return phases.full


STEPS: Final[list[Field[Phases]]] = [
    *(one.of(_full) for one in (*s.NAMES, s.ACCURACY)),
    field("init steps", lambda phases: phases.init_steps, "count", "per question"),
    field("final steps", lambda phases: phases.full.row.steps - phases.init_steps, "count", "per question"),
    s.STEPS.of(_full),
    s.TOKENS.of(_full),
]


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Seconds of live runs, steps of recorded paths; never in one table."""
    if not inputs.live_runs and not inputs.sources:
        raise UsageError("latency needs live runs (--live with a server or the built-in model), or a pool for steps")
    tables = live_tables(inputs.live_runs, "latency", SECONDS)
    yield from tables
    yield _seconds(inputs.live_runs) if tables else NO_SECONDS
    if not inputs.sources:
        return
    results = replay_inputs(inputs, _phase_cells)
    by_source = list(map(_phases, results))
    every = [phases for own in by_source for phases in own]
    title = f"Recorded paths in steps, {every[0].full.cell.options.parallel} at once"
    yield table("steps", title, STEPS, every, [STEPS_NOTE, s.settings_of(list(map(_full, every)))])
    yield s.cell_figure("steps", title, s.STEPS)([list(map(_full, own)) for own in by_source])
    yield from notes_and_pools(inputs, results)


def _phase_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """Each strategy, followed by its warm-up alone, if it has one: its steps are those of the init phase."""
    parallel = inputs.options.parallel if inputs.options.parallel > 1 else PARALLEL
    cells = []
    for name in inputs.strategies or METHODS:
        cells.append(ReplayCell(name, name, cell_options(inputs, pool.window, parallel=parallel)))
        if warmup := resolve(name).warmup:
            cells.append(ReplayCell(name, name, cell_options(inputs, pool.window, parallel=parallel, paths=warmup)))
    return cells


def _phases(lines: Sequence[CellResult]) -> list[Phases]:
    rest = iter(lines)
    return [Phases(full, next(rest) if resolve(full.cell.strategy).warmup else None) for full in rest]


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
