"""An experiment: a name, what it measures, and which inputs it reads. Running one adds the provenance.

To measure is to yield what was found, in any order: tables, figures, notes, and the pools that they are from.
"""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Generic, Literal, NamedTuple, TypeVar

import numpy as np
import scipy

from sureenough import __version__
from sureenough.bench.live import LiveRun
from sureenough.bench.pipeline import (
    OpenPool,
    Progress,
    ReplaySettings,
    Source,
    Work,
    changed_settings,
    map_questions,
    open_pools,
)
from sureenough.bench.replay import CellResult, ReplayCell, fitting_pool, replay_cells, replay_notes
from sureenough.bench.result import ExperimentResult, Figure, PoolUsed, Provenance, Recommendation
from sureenough.bench.tables import Table
from sureenough.core.options import RunOptions
from sureenough.errors import UsageError
from sureenough.strategies import COMPARED

T = TypeVar("T")
Live = Literal["no", "optional", "needed", "only"]
"""Whether live runs are read; with `needed`, recorded paths will do as well, and none are recorded."""


@dataclass(frozen=True, slots=True)
class Inputs:
    """Everything an experiment may read; None means the experiment's, or the paper's, own choice."""

    sources: Sequence[Source] = ()
    options: RunOptions = field(default_factory=RunOptions)
    settings: ReplaySettings = field(default_factory=ReplaySettings)
    strategies: tuple[str, ...] | None = None
    sweep: tuple[float, ...] | None = None
    live_runs: Sequence[LiveRun] = ()
    progress: Progress = lambda done, total: None
    command: str = ""  # as typed, without secrets, for the provenance


Found = Table | Figure | str | OpenPool | Recommendation
"""A text is a note, and a pool one that was read."""


READS: Final = {
    "strategies": "has strategies of its own; leave -s out",
    "sweep": "has no sweep of its own; to sweep an option of the strategies, give its name: --sweep warmup=8,16",
}
"""Inputs that only some experiments read, and how the others refuse them."""


@dataclass(frozen=True, slots=True)
class Experiment:
    """A table or figure of the paper."""

    name: str
    about: str  # one line
    measure: Callable[[Inputs], Iterator[Found]]
    live: Live = "no"
    reads: tuple[str, ...] = ()  # of READS
    compared: tuple[str, ...] = COMPARED  # what runs live by default

    @property
    def no_questions(self) -> str:
        return f"{self.name} samples as it goes: give --dataset, and --url and --model for a server"

    def check(self, **inputs: object) -> None:
        """Refuse inputs that would have no effect."""
        for name, refusal in READS.items():
            if inputs.get(name) is not None and name not in self.reads:
                raise UsageError(f"{self.name} {refusal}")

    def run(self, inputs: Inputs) -> ExperimentResult:
        """Measure, and say how it was done."""
        started = time.monotonic()
        own = {name: getattr(inputs, name) for name in READS}
        self.check(**own)
        found = list(self.measure(inputs))

        def every(kind: type[T]) -> list[T]:
            return [one for one in found if isinstance(one, kind)]

        provenance = Provenance(
            command=inputs.command or f"sureenough bench {self.name}",
            versions={
                "sureenough": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scipy": scipy.__version__,
            },
            pools=[
                PoolUsed(
                    one.source.dataset,
                    one.source.model,
                    one.pool.file.name,
                    one.pool.digest(),
                    one.judged,
                    one.pool.rows,
                )
                for one in every(OpenPool)
            ],
            settings={name: value for name, value in own.items() if value is not None}
            | changed_settings(inputs.options, inputs.settings),
            seconds=round(time.monotonic() - started, 3),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        title = self.about[0].upper() + self.about[1:]
        return ExperimentResult(
            self.name, title, every(Table), every(Figure), list(dict.fromkeys(every(str))), provenance,
            recommendations=every(Recommendation),
        )  # fmt: skip


def need_pools(inputs: Inputs) -> None:
    if not inputs.sources:
        raise UsageError("this experiment replays recorded paths: name a pool, or record one with `sureenough record`")


# -- what experiments make of the questions of a pool


class PoolResults(NamedTuple, Generic[T]):
    """What was made of the questions of a source."""

    opened: OpenPool
    values: list[T]


def over_pools(inputs: Inputs, work_for: Callable[[OpenPool], Work[T]]) -> list[PoolResults[T]]:
    """Make something of every question of the inputs' pools, in their order."""
    need_pools(inputs)
    opened = open_pools(inputs.sources, inputs.settings, inputs.options.window)
    results: list[PoolResults[T]] = [PoolResults(pool, []) for pool in opened]
    work = [(pool, work_for(pool)) for pool in opened]
    for number, value in map_questions(work, inputs.settings.jobs, inputs.progress):
        results[number].values.append(value)
    return results


def whole_numbers(noun: str, values: Sequence[float]) -> list[int]:
    """A sweep's values as whole numbers of at least 1; others are refused."""
    bad = [value for value in values if not 1 <= value < inf or value != int(value)]
    if bad:
        raise UsageError(f"{noun} of {bad[0]:g} is not possible: it must be a whole number of at least 1")
    return [int(value) for value in values]


# -- experiments that replay strategies

PAPER_BUDGET: Final = 512

Results = Sequence[list[CellResult]]
"""The cells of every source."""
CellsOf = Callable[[Inputs, OpenPool], list[ReplayCell]]
Part = Callable[[Results], Iterator[Found]]


def cell_options(inputs: Inputs, window: int, **changes: Any) -> RunOptions:
    """A cell's options: the caller's with the paper's budget, and what a sweep changes."""
    options = inputs.options
    return replace(options, **({"paths": options.paths or PAPER_BUDGET, "window": window} | changes))


def strategy_cells(names: Sequence[str]) -> CellsOf:
    """One cell per strategy: the caller's strategies, else those of these that fit."""

    def cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
        options = cell_options(inputs, pool.window)
        chosen = inputs.strategies or fitting_pool(names, pool, options.paths)
        return [ReplayCell(name, name, options) for name in chosen]

    return cells


def replay_experiment(cells_of: CellsOf, *parts: Part, row_notes: bool = False) -> Callable[[Inputs], Iterator[Found]]:
    """How to measure an experiment that is nothing but cells, and tables and figures of them."""

    def measure(inputs: Inputs) -> Iterator[Found]:
        need_pools(inputs)
        results = replay_cells(
            inputs.sources, lambda pool: cells_of(inputs, pool), inputs.settings, window=inputs.options.window,
            progress=inputs.progress,
        )  # fmt: skip
        for part in parts:
            yield from part(results)
        for lines in results:
            yield lines[0].opened
            notes = replay_notes(lines, inputs.settings)
            notes += [note for line in lines for note in line.row.notes] if row_notes else []
            yield from (f"{lines[0].source.dataset}: {note}" for note in notes)

    return measure
