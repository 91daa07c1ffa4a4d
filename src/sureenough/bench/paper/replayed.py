"""Experiments that replay strategies on recorded paths: each is its cells, and tables and figures of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import fmean
from typing import Final

import msgspec

from sureenough.bench.experiment import (
    PAPER_BUDGET,
    Experiment,
    Found,
    Inputs,
    Results,
    cell_options,
    replay_experiment,
    strategy_cells,
    whole_numbers,
)
from sureenough.bench.paper.live import live_tables
from sureenough.bench.paper.shared import (
    ACCURACY,
    CATEGORIES,
    DATASET,
    DROPPED,
    FINAL,
    INIT,
    MODEL,
    NAMES,
    PAIRED,
    QUESTIONS,
    RISKY,
    SETTLED,
    STEPS,
    STRATEGY,
    TOKENS,
    TOTAL,
    WIDTH,
    accuracy_and_tokens,
    axis,
    cell_figure,
    cell_table,
    compared_table,
    everything,
    in_paper,
    mean,
    of_line,
    series,
    settings_of,
    strategy_name,
)
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.recommendation import MARGIN, recommend
from sureenough.bench.replay import Line, ReplayCell, recorded_paths, reference_cell
from sureenough.bench.result import Axis, Figure, Recommendation, Series, grouped
from sureenough.bench.score import CONFIDENT, agreement
from sureenough.bench.tables import Cell, Table, columns, known, one_line
from sureenough.errors import UsageError
from sureenough.pools import Pool
from sureenough.spec import resolve
from sureenough.strategies import COMPARED

METHODS: Final = (
    "sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc:weight=unit", "sure",
    "sure:delta=0.02",
)  # fmt: skip
MAIN_NOTES: Final = (
    "accuracy with its 95% interval, resampling questions; differences are paired, to the first method of the dataset",
    "won: questions right in most repeats, and wrong in most with the first method; lost: the reverse; a question that "
    "is right in exactly half of its repeats is on neither side",
    "saving: tokens of plain voting on the same paths, divided by these",
)
TABLE: Final = cell_table("main", "Accuracy and cost of every method", everything(1), MAIN_NOTES, averaged=True)
POOLED: Final = compared_table("Accuracy compared with the first method, and what each sample could detect")


def _recommendations(results: Results) -> Iterator[Recommendation | Figure]:
    """Which strategy to use, and how much each differs from the reference on the same questions, the cheapest first."""
    advised = [one for one in map(recommend, results) if one is not None]
    yield from advised
    for number, one in enumerate(advised, 1):
        labels = [f"{own.strategy}, {one.tokens / own.tokens if own.tokens else 1.0:.1f}x" for own in one.candidates]
        values, lows, highs = zip(*(msgspec.structs.astuple(own.difference) for own in one.candidates), strict=True)
        marked = [(low or 0.0) >= -MARGIN for low in lows]
        yield Figure(
            f"differences-{number}",
            f"{one.dataset}, {one.model}: {one.basis} compared with {one.reference}",
            "intervals",
            CATEGORIES,
            Axis(f"difference of {one.basis}, points", percent=True),
            [Series("difference", [*labels], [*values], [*lows], [*highs], marked)],
            ["cautious 95% intervals; behind each name how many times fewer tokens it spends; dashed: a loss of "
             f"{100 * MARGIN:g} points, which coloured intervals exclude"],
            limits=[0.0, -MARGIN],
        )  # fmt: skip


def _tradeoffs(results: Results) -> Iterator[Figure]:
    for number, lines in enumerate(results, 1):
        title = f"{lines[0].source.label}: accuracy against tokens"
        points = [series(line.cell.label, [line], [line.row.tokens], ACCURACY) for line in lines]
        note = "bars are 95% intervals over questions; methods are paired, so differences are more certain"
        yield Figure(f"tradeoff-{number}", title, "points", axis(TOKENS, "log"), axis(ACCURACY), points, [note])


MOST_QUESTIONS: Final = 10
"""Single questions that are listed per pool."""


def _questions(results: Results) -> Iterator[Table]:
    """The questions on which strategies differ most, with the share of repeats in which each is right."""
    for number, lines in enumerate(results, 1):
        graded, reference = lines[0].row.graded, lines[reference_cell([line.cell for line in lines])].runs
        shares = [line.runs.right if graded else agreement(line.runs, reference).tolist() for line in lines]
        every = zip(lines[0].opened.questions, *shares, strict=True)
        rows = sorted(
            (one for one in every if max(one[1:]) > min(one[1:])), key=lambda one: min(one[1:]) - max(one[1:])
        )
        shown = columns("text", "question", "gold") + columns("percent", *(line.cell.label for line in lines))
        cells: list[list[Cell]] = [
            [*(one_line(text or "")[:60] for text in question), *map(known, own)] for question, *own in rows
        ]
        what = "is right" if graded else "agrees with sc"
        note = f"the share of repeats in which each {what}; `sureenough replay POOL -q QUESTION` explains one"
        title = f"{lines[0].source.label}: the questions on which strategies differ most"
        if rows:
            yield Table(f"questions-{number}", title, shown, cells[:MOST_QUESTIONS], [note, settings_of(lines)])


REPLAYED: Final = replay_experiment(strategy_cells(METHODS), TABLE, POOLED, _recommendations, _tradeoffs, _questions)


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Methods × datasets × models, on identical samples; live runs in a table of their own."""
    live = live_tables(inputs.live_runs, "main")
    if inputs.sources or not live:
        yield from REPLAYED(inputs)
    yield from live


MAIN: Final = Experiment(
    "main",
    "accuracy and tokens: methods × datasets × models (table 1)",
    _measure,
    "optional",
    reads=("strategies",),
)

# -- width

SPENT: Final = "tokens confident wrong"


def _per_error(line: Line) -> Cell:
    errors = line.runs.sums["confident wrong"]
    return line.runs.sums[SPENT] / errors if errors else None


CONFIDENTLY_WRONG: Final = (
    of_line("wrong", lambda line: line.runs.mean("wrong"), "percent", "% of runs"),
    of_line("confidently wrong", lambda line: line.runs.mean("confident wrong"), "percent", "% of runs"),
    of_line("tokens per confident error", _per_error, "tokens", ""),
    of_line("tokens of all confident errors", lambda line: line.runs.sums[SPENT] / line.row.repeats, "tokens7"),
    of_line(
        "share of all tokens", lambda line: line.runs.sums[SPENT] / (line.row.tokens * line.runs.runs or 1.0), "percent"
    ),
)
MEANING: Final = (
    f"a wrong answer is confident if its posterior is above {CONFIDENT:g}: the chance, by the votes and weights of its "
    "own method, that it holds more than half (the paper states neither how it chose them nor the unit of its tokens)"
)

WIDTHS: Final = Experiment(
    "width",
    "average paths, and tokens spent on confident wrong answers (table 4)",
    replay_experiment(
        strategy_cells(COMPARED),
        cell_table(
            "width",
            "Paths started, and tokens spent on confident wrong answers",
            [*NAMES, QUESTIONS, ACCURACY, WIDTH, in_paper(4, "width", "number", "paths"), *CONFIDENTLY_WRONG,
             in_paper(4, "confident wrong", "scientific", title="tokens in the paper (unit not given)"), TOKENS],
            [MEANING],
        ),
        cell_figure("width", "Paths started",
                      of_line("paths", lambda line: line.row.width, "number", "per question")),
        cell_figure("confident-wrong", "Tokens spent on confident wrong answers",
                      of_line("tokens", lambda line: line.runs.mean(SPENT), "tokens")),
    ),
    reads=("strategies",),
)  # fmt: skip

# -- DDC without one of its parts

ABLATION: Final = Experiment(
    "ablation",
    "DDC without one of its parts (table 3)",
    replay_experiment(
        strategy_cells(("ddc", "ddc-unweighted", "ddc-no-width", "ddc-no-trend", "ddc-no-depth")),
        cell_table("ablation", "DDC without one of its parts", everything(3)),
        compared_table("DDC without one of its parts, compared with the first, and what each sample could detect"),
        accuracy_and_tokens("without a part"),
    ),
    reads=("strategies",),
)

# -- the number of paths in the init phase

INIT_SIZES: Final = (8.0, 16.0, 32.0)
INIT_AXIS: Final = Axis("paths in the init phase", "log")


def _init_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    options = cell_options(inputs, pool.window)
    sizes = whole_numbers("an init size", inputs.sweep or INIT_SIZES)
    return [ReplayCell(str(size), f"ddc:warmup={size}", options) for size in sizes]


def _init_share(line: Line) -> float:
    return line.row.buckets["init"] / line.row.tokens if line.row.tokens else float("nan")


INIT_SIZE: Final = Experiment(
    "init-size",
    "8, 16, 32 init paths: init, final and total tokens (table 6)",
    replay_experiment(
        _init_cells,
        cell_table(
            "init-size",
            "DDC by the size of its init phase",
            [DATASET, MODEL, of_line("init size", lambda line: int(line.cell.label), "count"), ACCURACY,
             in_paper(6, "accuracy", "percent"), *PAIRED, INIT, FINAL, TOKENS, TOTAL,
             in_paper(6, "init tokens"), in_paper(6, "final tokens"), in_paper(6, "tokens"), WIDTH, SETTLED],
            averaged=True,
        ),
        accuracy_and_tokens("by init size", INIT_AXIS),
        cell_figure("init-share", "Share of tokens spent on the init phase",
                      of_line("init tokens", _init_share, "percent", "% of all"), INIT_AXIS),
    ),
    reads=("sweep",),
)  # fmt: skip

# -- the window over which confidence is averaged

PAPER_WINDOWS: Final = (512, 1024, 2048)


def _window_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    """The caller's, else fractions and multiples of the pool's own; the paper's if that is not smaller."""
    sizes = [max(1, pool.window // 4), max(1, pool.window // 2), pool.window, 2 * pool.window]
    if inputs.sweep:
        sizes = whole_numbers("a window", inputs.sweep)
    elif pool.window >= PAPER_WINDOWS[-1]:
        sizes = list(PAPER_WINDOWS)
    return [ReplayCell(str(size), "ddc", cell_options(inputs, size)) for size in sizes]


def _window_setting(line: Line) -> str:
    return f"window={line.cell.label}"


WINDOW: Final = Experiment(
    "window",
    "512, 1024, 2048, or windows scaled to the model (table 7)",
    replay_experiment(
        _window_cells,
        cell_table(
            "window",
            "DDC by the size of its window",
            [DATASET, MODEL, of_line("window", lambda line: int(line.cell.label), "count", "tokens"), ACCURACY,
             in_paper(7, "accuracy", "percent", setting=_window_setting), *PAIRED, INIT, FINAL,
             in_paper(7, "final tokens", setting=_window_setting), TOKENS, TOTAL,
             in_paper(7, "tokens", setting=_window_setting), WIDTH, DROPPED, RISKY, SETTLED],
            averaged=True,
        ),
        accuracy_and_tokens("by window", Axis("tokens per window", "log")),
        row_notes=True,
    ),
    reads=("sweep",),
)  # fmt: skip

# -- Tukey's fence around the init paths' instability, against fixed percentiles

PERCENTILES: Final = (80.0, 85.0, 90.0, 95.0, 99.0)


def _fence_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    options = cell_options(inputs, pool.window)
    fences = [f"p{q:g}" for q in inputs.sweep or PERCENTILES]
    strategies = {"tukey": "ddc", **{fence: f"ddc:risk={fence}" for fence in fences}, "no trend": "ddc-no-trend"}
    return [ReplayCell(label, strategy, options) for label, strategy in strategies.items()]


FENCE: Final = Experiment(
    "fence",
    "Tukey's fence against static percentiles (figure 5c)",
    replay_experiment(
        _fence_cells,
        cell_table(
            "fence",
            "DDC by its fence for the trend",
            [DATASET, MODEL, of_line("fence", lambda line: line.cell.label), STRATEGY, ACCURACY, *PAIRED,
             TOKENS, TOTAL, WIDTH, DROPPED, RISKY, SETTLED],
            averaged=True,
        ),
        accuracy_and_tokens("by fence"),
    ),
    reads=("sweep",),
)  # fmt: skip

# -- budgets of paths, and caps on tokens

BUDGET: Final = of_line("budget", lambda line: line.cell.options.paths, "count", "paths")
CAP: Final = of_line("cap", lambda line: line.cell.options.max_tokens, "count", "tokens per question")
FIELDS: Final = (ACCURACY, TOKENS, STEPS, WIDTH, SETTLED)
BUDGETS_TABLE: Final = cell_table("budgets", "Accuracy and tokens by voting size", [*NAMES, BUDGET, *FIELDS])
CAPS_TABLE: Final = cell_table("caps", "Accuracy at equal caps on tokens", [*NAMES, CAP, *FIELDS])


VOTING: Final = Axis("voting size (budget of paths)", "log")
VIEWS: Final = {
    "tokens": ("accuracy against tokens", axis(TOKENS, "log"), TOKENS, ACCURACY),
    "voting": ("accuracy against voting size", VOTING, BUDGET, ACCURACY),
    "voting-tokens": ("tokens against voting size", VOTING, BUDGET, TOKENS),
    "caps": ("accuracy at equal caps on tokens", Axis("cap on tokens per question", "log"), CAP, ACCURACY),
}
"""By the name of a figure: its title, the horizontal axis, and the fields of both axes."""


def _scaling_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
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


def _by_budget_and_cap(results: Results) -> Iterator[Found]:
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
    for key, (title, x_axis, of_x, of_y) in VIEWS.items():
        sources = [grouped(lines, strategy_name) for lines in (capped if key == "caps" else free)]
        curves = []
        for name, lines in sources[0].items():
            if len(sources) == 1:
                curves.append(series(name, lines, [*map(of_x.number, lines)], of_y))
                continue
            points = list(zip(*(of_source[name] for of_source in sources), strict=True))
            x, y = ([mean(map(of.number, same)) for same in points] for of in (of_x, of_y))
            curves.append(Series(name, [*x], y))
        y_axis = axis(of_y, "log" if of_y is TOKENS else "linear")
        yield Figure(f"{key}-{suffix}", f"{label}: {title}", "line", x_axis, y_axis, curves)


SCALING: Final = Experiment(
    "scaling",
    "accuracy against tokens, voting size and caps (figures 4 and 8)",
    replay_experiment(_scaling_cells, _by_budget_and_cap),
    reads=("strategies", "sweep"),
)
