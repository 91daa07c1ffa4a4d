"""Experiments that replay cells declare cells, tables and figures; `replay_experiment` does the rest."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Final

from sureenough.bench.cells import CellResult, Replayed, reference_cell, replay_cells
from sureenough.bench.experiments.experiment import Findings, Inputs, need_pools
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay_notes import replay_notes
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import Figure, PoolQuestions, StrategyOnQuestion, Table, number
from sureenough.bench.score import agreement
from sureenough.bench.strategy_lists import fitting_pool
from sureenough.core.options import RunOptions

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


def replay_inputs(inputs: Inputs, cells_of: CellsOf) -> list[Replayed]:
    """Replay the inputs' pools under the cells."""
    need_pools(inputs)
    return replay_cells(
        inputs.sources, lambda pool: cells_of(inputs, pool), inputs.settings, window=inputs.options.window,
        progress=inputs.progress,
    )  # fmt: skip


def replay_findings(
    inputs: Inputs, replayed: Sequence[Replayed], tables: Sequence[Table], figures: Sequence[Figure]
) -> Findings:
    """Tables and figures with the notes and pools of their replay."""
    notes = [f"{one.opened.source.dataset}: {note}" for one in replayed for note in replay_notes(one, inputs.settings)]
    return Findings(tables, figures, notes, [one.opened for one in replayed])


def questions_of(replayed: Replayed) -> PoolQuestions:
    """Single questions, those on which the strategies differ most first."""
    lines = replayed.results
    reference = lines[reference_cell([line.cell for line in lines])].runs
    agreed = [agreement(line.runs, reference) for line in lines]
    done = [
        [
            StrategyOnQuestion(number(line.runs.right[k]), float(share[k]), line.runs.mean_tokens(k))
            for line, share in zip(lines, agreed, strict=True)
        ]
        for k in range(len(replayed.questions))
    ]

    def spread(k: int) -> float:
        values = [one.agreed if one.right is None else one.right for one in done[k]]
        return min(values) - max(values)

    kept = sorted(range(len(done)), key=spread)[:MOST_QUESTIONS]
    source, names = lines[0].source, [line.runs.strategy for line in lines]
    questions = [(replayed.questions[k], done[k]) for k in kept]
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
        replayed = replay_inputs(inputs, cells_of)
        results = [one.results for one in replayed]
        drawn = [figure(results) for figure in figures]
        drawn += [figure(number, lines) for number, lines in enumerate(results, 1) for figure in by_source]
        findings = replay_findings(inputs, replayed, [table(results) for table in tables], drawn)
        rows = [(line.source.dataset, note) for one in results for line in one for note in line.row.notes]
        more = [f"{dataset}: {note}" for dataset, note in rows] if row_notes else []
        return replace(findings, notes=[*findings.notes, *more])

    return measure
