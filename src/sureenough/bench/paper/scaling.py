"""Accuracy against tokens, accuracy and tokens against voting size, and equal caps."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from sureenough.bench.experiment import (
    PAPER_BUDGET,
    Experiment,
    Found,
    Inputs,
    Results,
    cell_options,
    replay_experiment,
    whole_numbers,
)
from sureenough.bench.paper import shared as s
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import Line, ReplayCell, recorded_paths
from sureenough.bench.result import Axis, Figure, Series, grouped
from sureenough.bench.tables import Field
from sureenough.errors import UsageError
from sureenough.pools import Pool
from sureenough.spec import resolve
from sureenough.strategies import COMPARED

BUDGET: Final = s.of_line("budget", lambda line: line.cell.options.paths, "count", "paths")
CAP: Final = s.of_line("cap", lambda line: line.cell.options.max_tokens, "count", "tokens per question")
FIELDS: Final = (s.ACCURACY, s.TOKENS, s.STEPS, s.WIDTH, s.SETTLED)
BUDGETS_TABLE: Final = s.cell_table("budgets", "Accuracy and tokens by voting size", [*s.NAMES, BUDGET, *FIELDS])
CAPS_TABLE: Final = s.cell_table("caps", "Accuracy at equal caps on tokens", [*s.NAMES, CAP, *FIELDS])


class View(NamedTuple):
    """One way to look at the same runs."""

    title: str
    axis: Axis
    x: Field[Line]
    y: Field[Line] = s.ACCURACY
    y_axis: Axis = s.axis(s.ACCURACY)


VOTING: Final = Axis("voting size (budget of paths)", "log")
VIEWS: Final = {
    "tokens": View("accuracy against tokens", s.axis(s.TOKENS, "log"), s.TOKENS),
    "voting": View("accuracy against voting size", VOTING, BUDGET),
    "voting-tokens": View("tokens against voting size", VOTING, BUDGET, s.TOKENS, s.axis(s.TOKENS, "log")),
    "caps": View("accuracy at equal caps on tokens", Axis("cap on tokens per question", "log"), CAP),
}


def _cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """Every method under every budget of paths, then under every cap on tokens; the same for all pools."""
    if inputs.options.max_tokens is not None:
        raise UsageError("scaling has caps of its own; leave max_tokens out")
    pools = [Pool(source.pool, skip_damaged=inputs.settings.skip_damaged) for source in inputs.sources]
    budgets = whole_numbers("a budget", inputs.sweep) if inputs.sweep else _budgets(inputs, pools)
    names, largest = inputs.strategies or COMPARED, max(budgets)
    by_paths = [
        ReplayCell(f"{name}/{n}", name, cell_options(inputs, pool.window, paths=n))
        for name in names
        for n in budgets
        if n >= resolve(name).warmup
    ]
    by_tokens = [
        ReplayCell(f"{name}/cap {cap}", name, cell_options(inputs, pool.window, paths=largest, max_tokens=cap))
        for name in names
        if largest >= resolve(name).warmup
        for cap in _caps(pools, budgets)
    ]
    return [*by_paths, *by_tokens]


def _budgets(inputs: Inputs, pools: Sequence[Pool]) -> list[int]:
    """Powers of two up to the most that all pools have."""
    most = min(inputs.options.paths or PAPER_BUDGET, *map(recorded_paths, pools))
    return [*(1 << i for i in range(most.bit_length()) if 1 << i < most), most]


def _caps(pools: Sequence[Pool], budgets: Sequence[int]) -> list[int]:
    """The tokens of that many mean paths, to two digits; the same for all pools, so that they can be averaged."""
    mean = fmean(pool.tokens / pool.rows for pool in pools)
    return sorted({int(float(f"{mean * n:.2g}")) for n in budgets})


def _found(results: Results) -> Iterator[Found]:
    free = [[line for line in lines if line.cell.options.max_tokens is None] for lines in results]
    capped = [[line for line in lines if line.cell.options.max_tokens is not None] for lines in results]
    yield from BUDGETS_TABLE(free)
    yield from CAPS_TABLE(capped)
    if len(results) > 1:
        yield from _figures(f"Mean of {len(results)} datasets", "mean", free, capped)
    for place, (by_paths, by_tokens) in enumerate(zip(free, capped, strict=True), 1):
        yield from _figures(by_paths[0].source.label, str(place), [by_paths], [by_tokens])
    yield "a method with an init phase starts at budgets that hold it"
    yield "a cap ends the run with the vote so far; a method that is cut in its init phase votes uncalibrated"


def _figures(label: str, suffix: str, free: Results, capped: Results) -> Iterator[Figure]:
    """A curve per strategy, each point the plain mean over the sources."""
    for key, view in VIEWS.items():
        sources = [grouped(lines, s.strategy_name) for lines in (capped if key == "caps" else free)]
        curves = []
        for name, lines in sources[0].items():
            if len(sources) == 1:
                curves.append(s.series(name, lines, [*map(view.x.number, lines)], view.y))
                continue
            points = list(zip(*(of_source[name] for of_source in sources), strict=True))
            x, y = ([s.mean(map(one.number, same)) for same in points] for one in (view.x, view.y))
            curves.append(Series(name, [*x], y))
        yield Figure(f"{key}-{suffix}", f"{label}: {view.title}", "line", view.axis, view.y_axis, curves)


EXPERIMENT: Final = Experiment(
    "scaling",
    "accuracy against tokens, voting size and caps (figures 4 and 8)",
    "Scaling: accuracy against tokens",
    replay_experiment(_cells, _found),
    reads=("strategies", "sweep"),
)
