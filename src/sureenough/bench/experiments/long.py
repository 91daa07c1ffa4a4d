"""What depth is worth on long chains: when a path is known to be lost, what gates prune, and what that saves.

Over the same windows: what single paths show (long_paths.py), and tokens and accuracy of strategies with and without
pruning, compared with sc.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from sureenough.bench.cells import CellResult, Replayed
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.depth import ReadDepths
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools, whole_numbers
from sureenough.bench.experiments.figures import differences
from sureenough.bench.experiments.frontier import SAVING, best_lines, frontier_figure
from sureenough.bench.experiments.gate_fates import ReadGates
from sureenough.bench.experiments.held_out import held_out_tables
from sureenough.bench.experiments.long_paths import ReadLongPaths, Windowing, path_findings
from sureenough.bench.experiments.probes import PROBES, probe_distance
from sureenough.bench.experiments.replayed import cell_options, replay_findings, replay_inputs
from sureenough.bench.experiments.signs import ReadSigns
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.recommendation import recommend, with_margin
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import Cell, Figure, ResultColumn, Table
from sureenough.bench.strategy_lists import LEAST_WARMUP, fitting_pool, recorded_paths
from sureenough.core.options import fitting_warmup
from sureenough.core.strategy import Strategy
from sureenough.spec import resolve

WINDOWS: Final = (64, 128, 256, 512, 1024)
GATES: Final = ("ddc", "ddc:per=path", "deepconf-low", "deepconf-high")
METHODS: Final = (
    "sc", "ac", "sure", "sure:weigh=count", "ddc", "ddc:per=path", "ddc-unweighted",
    "ddc-no-width", "ddc-no-width:per=path", "ddc-no-trend", "ddc-no-trend:per=path", "ddc-no-depth",
    "deepconf-low", "deepconf-high",
)  # fmt: skip
SURE_GATES: Final = ("ddc", "ddc:per=path", "ddc-no-trend", "ddc-no-trend:per=path", "deepconf-low", "deepconf-high")
SURE_WARMUP: Final = 8
"""Paths that calibrate a gate for `sure`, which often stops before ddc's 16."""
PROBED: Final = ("sc", "ac", "ddc", "sure")
AGREE: Final = (3, 8)
"""Probes in a row that end a path. A search keeps its best answer for long, so that three are soon alike."""
MARGIN: Final = 1.0
"""Points of accuracy that the recommendation may lose."""


def windows_of(inputs: Inputs, opened: OpenPool) -> Windowing:
    """The caller's, else those that at least a quarter of the paths fill; the pool's own if that is none."""
    if inputs.sweep:
        sizes = whole_numbers("a window", inputs.sweep)
    elif inputs.options.window is not None:
        sizes = [inputs.options.window]
    else:
        longest = float(np.percentile(opened.pool.lengths() or [0], 75))
        sizes = [size for size in WINDOWS if size <= longest] or [opened.window]
        left_out = [str(size) for size in WINDOWS if size > longest]
        if left_out:
            opened.notes.append(
                f"windows of {', '.join(left_out)} tokens are left out: three quarters of the paths have fewer tokens"
            )
    return Windowing(tuple(sorted(sizes)), min(sizes, key=lambda size: abs(np.log2(size / opened.window))))


def _measure(inputs: Inputs) -> Findings:
    windows: dict[str, Windowing] = {}

    def cells(inputs: Inputs, opened: OpenPool) -> list[ReplayCell]:
        windows[str(opened.source.pool)] = chosen = windows_of(inputs, opened)
        return _cells(inputs, opened, chosen)

    def task(opened: OpenPool) -> ReadLongPaths:
        (sizes, own), options = windows[str(opened.source.pool)], inputs.options
        gates = fitting_pool(GATES, opened, options.paths)
        return ReadLongPaths(
            ReadDepths(sizes),
            ReadGates(gates, sizes, inputs.settings.repeats, options.seed, options.paths),
            ReadSigns(own, inputs.settings.repeats, options.seed, options.paths),
        )

    replayed = replay_inputs(inputs, cells)
    pools = over_pools(inputs, task)
    used = [windows[str(pool.opened.source.pool)] for pool in pools]
    tables, figures = path_findings(inputs, pools, used)
    results = [one.results for one in replayed]
    table, more = _compared(results, [own for _, own in used])
    noted = [_without_repetitions(one, own) for one, (_, own) in zip(replayed, used, strict=True)]
    tables += [table, *held_out_tables(results, MARGIN)]
    findings = replay_findings(inputs, noted, tables, [*figures, *more])
    # Of several pools the first is the one to choose on; a choice made on the others would not be held out.
    advised = [with_margin(one, MARGIN) for lines in results[:1] if (one := recommend(lines)) is not None]
    return replace(findings, recommendations=advised, notes=[*findings.notes, *_caution(results)])


def _cells(inputs: Inputs, opened: OpenPool, windows: Windowing) -> list[ReplayCell]:
    """Sc first, to which differences are taken; strategies that read no confidence once, the others per window."""
    if inputs.strategies:
        chosen: list[str | Strategy] = ["sc", *(name for name in inputs.strategies if name != "sc")]
    else:
        specs = [*METHODS, *_probed(opened)]
        chosen = [*fitting_pool(specs, opened, inputs.options.paths), *_sure_with_gates(opened, inputs.options.paths)]
    cells = []
    for strategy in chosen:
        name = strategy if isinstance(strategy, str) else strategy.name
        for size in windows.sizes if resolve(strategy).reads_confidence else (windows.own,):
            varied = resolve(strategy).reads_confidence and len(windows.sizes) > 1
            label = f"{name}, window {size}" if varied else name
            cells.append(ReplayCell(label, strategy, cell_options(inputs, size)))
    return cells


def _probed(opened: OpenPool) -> list[str]:
    if not opened.pool.has_probes:
        opened.notes.append("the paths were recorded without probes: strategies with +probe are left out")
        return []
    every = probe_distance(opened)
    return [f"{name}+probe:every={every},agree={agree}" for name in PROBED for agree in AGREE]


def _sure_with_gates(opened: OpenPool, budget: int | None) -> list[Strategy]:
    """`sure` that prunes by the gates of others, and the same without a gate: what the warm-up alone costs."""
    paths = recorded_paths(opened.pool)
    warmup = min(SURE_WARMUP, fitting_warmup(min(paths, budget or paths)))
    if warmup < LEAST_WARMUP:
        return []
    sure = replace(resolve("sure"), warmup=warmup)
    gates = [(gate, resolve(gate).calibrate) for gate in SURE_GATES]
    return [
        replace(sure, name=f"sure after {warmup} paths"),
        *(replace(sure, name=f"sure with the gate of {gate}", calibrate=calibrate) for gate, calibrate in gates),
    ]


def _name(line: CellResult) -> str:
    strategy = line.cell.strategy
    return strategy if isinstance(strategy, str) else strategy.name


def _window(line: CellResult) -> Cell:
    return line.cell.options.window if resolve(line.cell.strategy).reads_confidence else None


def _compared(results: Sequence[list[CellResult]], windows: Sequence[int]) -> tuple[Table, list[Figure]]:
    best = [best_lines(lines) for lines in results]
    unbeaten = {id(line) for lines in best for line in lines}
    figures = []
    for i, (lines, few, window) in enumerate(zip(results, best, windows, strict=True), 1):
        own = [line for line in lines if line.cell.options.window == window]
        figures.append(frontier_figure(f"frontier-{i}", own, best_lines(own), _name, f"window {window}"))
        shown = recommend([lines[0], *(line for line in few if line is not lines[0])])
        if shown is not None:
            figures.append(differences(f"differences-{i}", with_margin(shown, MARGIN)))
    mark = c.Column(ResultColumn("not beaten"), lambda line: "●" if id(line) in unbeaten else "")
    names = [c.DATASET, c.MODEL, c.Column(ResultColumn("strategy"), _name)]
    build = c.table(
        "strategies",
        "Tokens and accuracy with and without pruning, compared with sc",
        [*names, c.Column(ResultColumn("window", "count", "tokens"), _window), mark, c.QUESTIONS, c.ACCURACY, *c.PAIRED,
         c.TOKENS, PROBES, SAVING, c.WIDTH, c.DROPPED, c.RISKY, c.SETTLED],
        [
            "differences are paired, to sc on the same orders of the same paths; tokens include those of probes",
            f"sure with a gate warms up with {SURE_WARMUP} paths (fewer if the budget is small); so does sure after as "
            "many paths, which has no gate: the difference between these two is what pruning does",
            "not beaten: no other row is at least as good with fewer tokens, or better with as many",
        ],
    )  # fmt: skip
    return build(results), figures


def _without_repetitions(replayed: Replayed, window: int) -> Replayed:
    """For the notes: dozens of rows learn about the same, so those of `sure` at one window are enough."""
    lines = [line for line in replayed.results if line.row.learned is None
             or (_name(line), line.cell.options.window) == ("sure", window)]  # fmt: skip
    return replayed._replace(results=lines)


def _caution(results: Sequence[list[CellResult]]) -> list[str]:
    """The best of many on the data that it was chosen on looks better than it is."""
    return [
        f"{lines[0].source.dataset}: the recommendation is the cheapest of {len(lines) - 1} rows whose paired interval "
        f"stays above -{MARGIN:g} point, chosen on these questions; its numbers count once they hold on questions that "
        "were not used for the choice"
        for lines in results
        if len(lines) > 2
    ]


EXPERIMENT: Final = Experiment(
    "long",
    "long chains: when a path is known to be lost, and what pruning it saves",
    "What depth is worth: early signs of lost paths, and pruning by them",
    _measure,
    reads=("strategies", "sweep"),
)
