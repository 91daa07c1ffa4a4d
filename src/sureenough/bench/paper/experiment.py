"""An experiment: a name, what it measures, and which inputs it reads. Running one adds the provenance.

Experiments that replay cells declare cells, tables and figures; `replay_experiment` does the rest.
"""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from math import inf
from typing import Any, Final, Literal, TypeVar

import numpy as np
import scipy

from sureenough import __version__
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.live import LiveRun
from sureenough.bench.pipeline import (
    OpenPool,
    PoolResults,
    Progress,
    ReplaySettings,
    Source,
    changed_settings,
    map_questions,
)
from sureenough.bench.replay import CellResult, ReplayCell, fitting_pool, reference_cell, replay_cells, replay_notes
from sureenough.bench.result import (
    ExperimentResult,
    Figure,
    PoolQuestions,
    PoolUsed,
    Provenance,
    Recommendation,
    StrategyOnQuestion,
    Table,
    number,
)
from sureenough.bench.score import agreement
from sureenough.core.options import RunOptions
from sureenough.errors import UsageError
from sureenough.pools import Question
from sureenough.spec import resolve
from sureenough.strategies import COMPARED

T = TypeVar("T")
Live = Literal["no", "optional", "needed"]


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

    def chosen(self) -> dict[str, Any]:
        """The inputs that differ from their defaults, for the provenance."""
        own = {name: getattr(self, name) for name in READS}
        return {name: value for name, value in own.items() if value is not None} | changed_settings(
            self.options, self.settings
        )


@dataclass(frozen=True, slots=True)
class Findings:
    """What an experiment measured."""

    tables: Sequence[Table] = ()
    figures: Sequence[Figure] = ()
    notes: Sequence[str] = ()
    pools: Sequence[OpenPool] = ()
    recommendations: Sequence[Recommendation] = ()
    questions: Sequence[PoolQuestions] = ()


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
    title: str
    measure: Callable[[Inputs], Findings]
    live: Live = "no"
    reads: tuple[str, ...] = ()  # of READS
    compared: tuple[str, ...] = COMPARED  # what runs live by default

    def check(self, **inputs: object) -> None:
        """Refuse inputs that would have no effect."""
        for name, refusal in READS.items():
            if inputs.get(name) is not None and name not in self.reads:
                raise UsageError(f"{self.name} {refusal}")

    def run(self, inputs: Inputs) -> ExperimentResult:
        """Measure, and say how it was done."""
        started = time.monotonic()
        self.check(strategies=inputs.strategies, sweep=inputs.sweep)
        for name in inputs.strategies or ():
            resolve(name)
        findings = self.measure(inputs)
        provenance = Provenance(
            command=inputs.command or _command(self.name, inputs),
            versions={
                "sureenough": __version__,
                "python": platform.python_version(),
                "numpy": np.__version__,
                "scipy": scipy.__version__,
            },
            pools=[_pool_used(opened) for opened in findings.pools],
            settings=inputs.chosen(),
            seconds=round(time.monotonic() - started, 3),
            date=datetime.now(UTC).isoformat(timespec="seconds"),
        )
        notes = list(dict.fromkeys(findings.notes))
        return ExperimentResult(
            self.name, self.title, list(findings.tables), list(findings.figures), notes, provenance,
            recommendations=list(findings.recommendations), questions=list(findings.questions),
        )  # fmt: skip


def _pool_used(opened: OpenPool) -> PoolUsed:
    source, pool = opened.source, opened.pool
    return PoolUsed(
        source.dataset, source.model, pool.file.name, opened.judge.sha256, len(opened.judge.judged), pool.rows
    )


def _command(name: str, inputs: Inputs) -> str:
    """What a user would type for these inputs; pools by their file names."""
    words = ["sureenough", "bench", name]
    for source in inputs.sources:
        words += ["--pool", source.pool.name]
    return shlex.join(words)


def need_pools(inputs: Inputs) -> None:
    if not inputs.sources:
        raise UsageError("this experiment replays recorded paths: name a pool, or record one with `sureenough record`")


def over_pools(
    inputs: Inputs, function_for: Callable[[OpenPool], Callable[[Question, JudgedAnswers], T]]
) -> list[PoolResults[T]]:
    """Apply a function to every question of the inputs' pools."""
    need_pools(inputs)
    window = inputs.options.window
    return map_questions(inputs.sources, function_for, inputs.settings, window=window, progress=inputs.progress)


def whole_numbers(noun: str, values: Sequence[float]) -> list[int]:
    """A sweep's values as whole numbers of at least 1; others are refused."""
    bad = [value for value in values if not 1 <= value < inf or value != int(value)]
    if bad:
        raise UsageError(f"{noun} of {bad[0]:g} is not possible: it must be a whole number of at least 1")
    return [int(value) for value in values]


PAPER_BUDGET: Final = 512
MOST_QUESTIONS: Final = 100
"""Single questions that a result keeps per pool."""

Results = Sequence[list[CellResult]]
"""The cells of every source."""
CellsOf = Callable[[Inputs, OpenPool], list[ReplayCell]]
TableOf = Callable[[Results], Table]
FigureOf = Callable[[Results], Figure]


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


def replay_inputs(inputs: Inputs, cells_of: CellsOf) -> Results:
    """Replay the inputs' pools under the cells."""
    need_pools(inputs)
    return replay_cells(
        inputs.sources, lambda pool: cells_of(inputs, pool), inputs.settings, window=inputs.options.window,
        progress=inputs.progress,
    )  # fmt: skip


def replay_findings(inputs: Inputs, results: Results, tables: Sequence[Table], figures: Sequence[Figure]) -> Findings:
    """Tables and figures with the notes and pools of their replay."""
    notes = [f"{one[0].source.dataset}: {note}" for one in results for note in replay_notes(one, inputs.settings)]
    return Findings(tables, figures, notes, [one[0].opened for one in results])


def questions_of(lines: Sequence[CellResult]) -> PoolQuestions:
    """Single questions, those on which the strategies differ most first."""
    reference = lines[reference_cell([line.cell for line in lines])].runs
    agreed = [agreement(line.runs, reference) for line in lines]
    done = [
        [
            StrategyOnQuestion(number(line.runs.right[k]), float(share[k]), line.runs.tokens[k])
            for line, share in zip(lines, agreed, strict=True)
        ]
        for k in range(len(lines[0].questions))
    ]

    def spread(k: int) -> float:
        values = [one.agreed if one.right is None else one.right for one in done[k]]
        return min(values) - max(values)

    kept = sorted(range(len(done)), key=spread)[:MOST_QUESTIONS]
    source, names = lines[0].source, [line.runs.strategy for line in lines]
    questions = [(lines[0].questions[k], done[k]) for k in kept]
    return PoolQuestions(source.dataset, source.model, source.pool.name, names, len(done), questions)


def replay_experiment(
    cells_of: CellsOf,
    tables: Sequence[TableOf],
    figures: Sequence[FigureOf] = (),
    *,
    by_source: Sequence[Callable[[int, list[CellResult]], Figure]] = (),
    row_notes: bool = False,
) -> Callable[[Inputs], Findings]:
    """How to measure an experiment that is nothing but cells.

    `by_source` are figures of each source, which receive its number and its cells; `row_notes` adds the notes of runs.
    """

    def measure(inputs: Inputs) -> Findings:
        results = replay_inputs(inputs, cells_of)
        drawn = [figure(results) for figure in figures]
        drawn += [figure(number, lines) for number, lines in enumerate(results, 1) for figure in by_source]
        findings = replay_findings(inputs, results, [table(results) for table in tables], drawn)
        rows = [(line.source.dataset, note) for one in results for line in one for note in line.row.notes]
        more = [f"{dataset}: {note}" for dataset, note in rows] if row_notes else []
        return replace(findings, notes=[*findings.notes, *more])

    return measure
