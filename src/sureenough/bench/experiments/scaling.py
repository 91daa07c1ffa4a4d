"""The paper's figures 4 and 8: accuracy against tokens and against voting size, and at equal caps on tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from statistics import fmean
from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments.inputs import Experiment, Inputs, whole
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import PAPER_BUDGET, CellResult, ReplayCell, replayed, settings_of
from sureenough.bench.result import Axis, ExperimentResult, Figure, ResultColumn, Series
from sureenough.bench.source import Source
from sureenough.pools import Pool
from sureenough.spec import resolve

NAMES: Final = ("sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "sure")
ACCURACY: Final = Axis("accuracy, %", percent=True)
SPENT: Final = Axis("tokens a question", "log")
SIZE: Final = Axis("voting size (budget of paths)", "log")
CAP: Final = Axis("cap on tokens a question", "log")


def run(inputs: Inputs) -> ExperimentResult:
    """Every method under every budget of paths, then under every cap on tokens."""
    clock = Clock()
    names = inputs.settings.strategies or NAMES
    pools = [Pool(source.pool, skip_damaged=inputs.settings.skip_damaged) for source in inputs.sources]
    budgets = whole("a budget", inputs.settings.sweep) if inputs.settings.sweep else _budgets(inputs, pools)
    caps = _caps(pools, budgets)

    def cells(window: int) -> list[ReplayCell]:
        by_paths = [
            ReplayCell(f"{name}/{n}", name, settings_of(inputs.settings, window, paths=n))
            for name in names
            for n in budgets
            if n >= resolve(name).warmup
        ]
        whole_budget = max(budgets)
        by_tokens = [
            ReplayCell(
                f"{name}/cap {cap}", name, settings_of(inputs.settings, window, paths=whole_budget, max_tokens=cap)
            )
            for name in names
            if whole_budget >= resolve(name).warmup
            for cap in caps
        ]
        return [*by_paths, *by_tokens]

    lines, seen, notes = replayed(inputs, lambda pool: cells(pool.window))
    free = [[line for line in one if line.cell.settings.options.max_tokens is None] for one in lines]
    capped = [[line for line in one if line.cell.settings.options.max_tokens is not None] for one in lines]
    tables = [
        f.table("budgets", "Accuracy and tokens by voting size", _flat(free), [*_FIRST, _BUDGET, *_REST]),
        f.table("caps", "Accuracy at equal caps on tokens", _flat(capped), [*_FIRST, _CAP, *_REST]),
    ]
    figures = _averages(free, capped) if len(lines) > 1 else []
    for number, (one, two) in enumerate(zip(free, capped, strict=True), 1):
        figures += _figures(number, one[0].source, one, two)
    above = max(budgets) > min(map(_recorded, pools), default=0)
    notes = [note for note in notes if above or "recorded paths" not in note] + _said(budgets)
    title = "Scaling: accuracy against tokens"
    return finish("scaling", title, inputs, clock, tables=tables, figures=figures, notes=notes, seen=seen)


_FIRST: Final = (f.DATASET, f.MODEL, f.STRATEGY)
_BUDGET: Final = f.Field(ResultColumn("budget", "count", "paths"), lambda line: line.cell.settings.options.paths)
_CAP: Final = f.Field(
    ResultColumn("cap", "count", "tokens a question"), lambda line: line.cell.settings.options.max_tokens
)
_REST: Final = (f.ACCURACY, f.TOKENS, f.STEPS, f.WIDTH, f.SETTLED)


def _said(budgets: Sequence[int]) -> list[str]:
    return [
        f"budgets: {', '.join(map(str, budgets))} paths; methods with an init phase start where the budget holds it",
        "a cap ends the run with the vote so far; a method that is cut in its init phase votes uncalibrated",
    ]


def _budgets(inputs: Inputs, pools: Sequence[Pool]) -> list[int]:
    """Powers of two up to what all pools can give."""
    recorded = min((_recorded(pool) for pool in pools), default=1)
    most = min(inputs.settings.paths or PAPER_BUDGET, recorded)
    powers = [1 << i for i in range(most.bit_length()) if 1 << i < most]
    return [*powers, most]


def _recorded(pool: Pool) -> int:
    """Most paths of any question."""
    starts = [*pool.starts(), pool.rows]
    return max(b - a for a, b in pairwise(starts))


def _caps(pools: Sequence[Pool], budgets: Sequence[int]) -> list[int]:
    """As many tokens as so many mean paths have, to two digits; the same for all pools, so that they average."""
    mean = fmean(pool.tokens / pool.rows for pool in pools) if pools else 1.0
    return sorted({int(float(f"{mean * n:.2g}")) for n in budgets})


def _flat(lines: Sequence[list[CellResult]]) -> list[CellResult]:
    return [line for one in lines for line in one]


Place = Callable[[CellResult], float | None]
PLACES: Final[dict[str, tuple[str, Axis, Place]]] = {
    "tokens": ("accuracy against tokens", SPENT, lambda line: line.row.tokens),
    "voting": ("accuracy against voting size", SIZE, lambda line: line.cell.settings.options.paths),
    "caps": ("accuracy at equal caps on tokens", CAP, lambda line: line.cell.settings.options.max_tokens),
}


def _figures(number: int, source: Source, free: Sequence[CellResult], capped: Sequence[CellResult]) -> list[Figure]:
    figures = []
    for key, (says, x, place) in PLACES.items():
        lines = capped if key == "caps" else free
        series = [
            Series(
                name,
                [place(line) for line in mine],
                [f.number(line.row.accuracy) for line in mine],
                [f.number(line.row.interval.low) for line in mine],
                [f.number(line.row.interval.high) for line in mine],
                [line.cell.label for line in mine],
            )
            for name, mine in _by_strategy(lines).items()
        ]
        title = f"{source.dataset}, {source.model}: {says}"
        figures.append(Figure(f"{key}-{number}", title, "line", x, ACCURACY, series))
    return figures


def _averages(free: Sequence[list[CellResult]], capped: Sequence[list[CellResult]]) -> list[Figure]:
    """The same curves, each point the plain mean over datasets."""
    figures = []
    for key, (says, x, place) in PLACES.items():
        together = [_by_strategy(one) for one in (capped if key == "caps" else free)]
        series = []
        for name in together[0]:
            points = list(zip(*(mine[name] for mine in together), strict=True))
            places = [fmean(place(line) or 0.0 for line in same) for same in points]
            means = [f.number(fmean(line.row.accuracy for line in same)) for same in points]
            series.append(Series(name, [*places], [*means], labels=[same[0].cell.label for same in points]))
        title = f"Mean of {len(together)} datasets: {says}"
        figures.append(Figure(f"{key}-mean", title, "line", x, ACCURACY, series))
    return figures


def _by_strategy(lines: Sequence[CellResult]) -> dict[str, list[CellResult]]:
    found: dict[str, list[CellResult]] = {}
    for line in lines:
        found.setdefault(line.cell.strategy, []).append(line)
    return found


EXPERIMENT: Final = Experiment("scaling", "accuracy against tokens, voting size and caps (figures 4 and 8)", run)
