"""The paper's figures 4 and 8: accuracy against tokens, accuracy and tokens against voting size, and equal caps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench.paper import columns as c
from sureenough.bench.paper.experiment import (
    PAPER_BUDGET,
    Experiment,
    Findings,
    Inputs,
    Results,
    cell_options,
    replay_findings,
    replay_inputs,
    whole_numbers,
)
from sureenough.bench.paper.figures import ACCURACY, Measured, series
from sureenough.bench.pipeline import OpenPool, Source
from sureenough.bench.replay import CellResult, ReplayCell, recorded_paths
from sureenough.bench.result import Axis, Figure, ResultColumn, Series, grouped, number
from sureenough.errors import UsageError
from sureenough.pools import Pool
from sureenough.spec import resolve
from sureenough.strategies import COMPARED

BUDGET: Final = c.Column(ResultColumn("budget", "count", "paths"), lambda line: line.cell.options.paths)
CAP: Final = c.Column(ResultColumn("cap", "count", "tokens per question"), lambda line: line.cell.options.max_tokens)
MEASURES: Final = (c.ACCURACY, c.TOKENS, c.STEPS, c.WIDTH, c.SETTLED)
BUDGETS_TABLE: Final = c.table("budgets", "Accuracy and tokens by voting size", [*c.NAMES, BUDGET, *MEASURES])
CAPS_TABLE: Final = c.table("caps", "Accuracy at equal caps on tokens", [*c.NAMES, CAP, *MEASURES])


class View(NamedTuple):
    """One way to look at the same runs."""

    title: str
    axis: Axis
    x: Callable[[CellResult], float | None]
    y: Measured = ACCURACY


VIEWS: Final = {
    "tokens": View("accuracy against tokens", Axis("tokens per question", "log"), lambda line: line.row.tokens),
    "voting": View(
        "accuracy against voting size",
        Axis("voting size (budget of paths)", "log"),
        lambda line: line.cell.options.paths,
    ),
    "voting-tokens": View(
        "tokens against voting size",
        Axis("voting size (budget of paths)", "log"),
        lambda line: line.cell.options.paths,
        Measured(Axis("tokens per question", "log"), lambda line: line.row.tokens),
    ),
    "caps": View(
        "accuracy at equal caps on tokens",
        Axis("cap on tokens per question", "log"),
        lambda line: line.cell.options.max_tokens,
    ),
}


def _measure(inputs: Inputs) -> Findings:
    """Every method under every budget of paths, then under every cap on tokens."""
    if inputs.options.max_tokens is not None:
        raise UsageError("scaling has caps of its own; leave max_tokens out")
    pools = [Pool(source.pool, skip_damaged=inputs.settings.skip_damaged) for source in inputs.sources]
    budgets = whole_numbers("a budget", inputs.sweep) if inputs.sweep else _budgets(inputs, pools)
    caps = _caps(pools, budgets)
    results = replay_inputs(inputs, lambda inputs, pool: _cells(inputs, pool, budgets, caps))
    free = [[line for line in lines if line.cell.options.max_tokens is None] for lines in results]
    capped = [[line for line in lines if line.cell.options.max_tokens is not None] for lines in results]
    figures = _averages(free, capped) if len(results) > 1 else []
    for place, (by_paths, by_tokens) in enumerate(zip(free, capped, strict=True), 1):
        figures += _figures(place, by_paths[0].source, by_paths, by_tokens)
    findings = replay_findings(inputs, results, [BUDGETS_TABLE(free), CAPS_TABLE(capped)], figures)
    above = max(budgets) > min(map(recorded_paths, pools), default=0)
    notes = [
        *(note for note in findings.notes if above or "recorded paths" not in note),
        f"budgets: {', '.join(map(str, budgets))} paths; a method with an init phase starts at budgets that hold it",
        "a cap ends the run with the vote so far; a method that is cut in its init phase votes uncalibrated",
    ]
    return Findings(findings.tables, findings.figures, notes, findings.pools)


def _cells(inputs: Inputs, pool: OpenPool, budgets: Sequence[int], caps: Sequence[int]) -> list[ReplayCell]:
    names, largest = inputs.strategies or COMPARED, max(budgets)
    by_paths = [
        ReplayCell(f"{name}/{n}", name, cell_options(inputs, pool.window, paths=n, max_tokens=None))
        for name in names
        for n in budgets
        if n >= resolve(name).warmup
    ]
    by_tokens = [
        ReplayCell(f"{name}/cap {cap}", name, cell_options(inputs, pool.window, paths=largest, max_tokens=cap))
        for name in names
        if largest >= resolve(name).warmup
        for cap in caps
    ]
    return [*by_paths, *by_tokens]


def _budgets(inputs: Inputs, pools: Sequence[Pool]) -> list[int]:
    """Powers of two up to the most that all pools have."""
    recorded = min((recorded_paths(pool) for pool in pools), default=1)
    most = min(inputs.options.paths or PAPER_BUDGET, recorded)
    return [*(1 << i for i in range(most.bit_length()) if 1 << i < most), most]


def _caps(pools: Sequence[Pool], budgets: Sequence[int]) -> list[int]:
    """The tokens of that many mean paths, to two digits; the same for all pools, so that they can be averaged."""
    mean = fmean(pool.tokens / pool.rows for pool in pools) if pools else 1.0
    return sorted({int(float(f"{mean * n:.2g}")) for n in budgets})


def _figures(number: int, source: Source, free: Sequence[CellResult], capped: Sequence[CellResult]) -> list[Figure]:
    figures = []
    for key, view in VIEWS.items():
        curves = [
            series(name, lines, [view.x(line) for line in lines], view.y)
            for name, lines in grouped(capped if key == "caps" else free, c.strategy_name).items()
        ]
        title = f"{source.label}: {view.title}"
        figures.append(Figure(f"{key}-{number}", title, "line", view.axis, view.y.axis, curves))
    return figures


def _averages(free: Results, capped: Results) -> list[Figure]:
    """The same curves, each point the plain mean over datasets."""
    figures = []
    for key, view in VIEWS.items():
        sources = [grouped(lines, c.strategy_name) for lines in (capped if key == "caps" else free)]
        curves = []
        for name in sources[0]:
            points = list(zip(*(lines[name] for lines in sources), strict=True))
            x = [fmean(view.x(line) or 0.0 for line in same) for same in points]
            y = [number(fmean(view.y.value(line) for line in same)) for same in points]
            curves.append(Series(name, [*x], [*y]))
        title = f"Mean of {len(sources)} datasets: {view.title}"
        figures.append(Figure(f"{key}-mean", title, "line", view.axis, view.y.axis, curves))
    return figures


EXPERIMENT: Final = Experiment(
    "scaling",
    "accuracy against tokens, voting size and caps (figures 4 and 8)",
    "Scaling: accuracy against tokens",
    _measure,
    reads=("strategies", "sweep"),
)
