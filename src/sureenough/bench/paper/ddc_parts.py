"""The parts and settings of DDC: ablations (table 3), init size (table 6), window (table 7), fence (figure 5c)."""

from __future__ import annotations

from typing import Final

from sureenough.bench.paper import columns as c
from sureenough.bench.paper.columns import compared_table
from sureenough.bench.paper.experiment import (
    Experiment,
    Inputs,
    cell_options,
    replay_experiment,
    strategy_cells,
    whole_numbers,
)
from sureenough.bench.paper.figures import ACCURACY, TOKENS, Measured, bars, sweep
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import CellResult, ReplayCell
from sureenough.bench.result import Axis, ResultColumn

ABLATION: Final = Experiment(
    "ablation",
    "DDC without one of its parts (table 3)",
    "Ablations of DDC",
    replay_experiment(
        strategy_cells(("ddc", "ddc-unweighted", "ddc-no-width", "ddc-no-trend", "ddc-no-depth")),
        [
            c.table("ablation", "DDC without one of its parts", c.all_columns(3)),
            compared_table("DDC without one of its parts, compared with the first, and what each sample could detect"),
        ],
        [
            bars("accuracy", "Accuracy without a part", ACCURACY),
            bars("tokens", "Tokens without a part", TOKENS),
        ],
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


def _init_share(line: CellResult) -> float:
    return line.row.buckets["init"] / line.row.tokens if line.row.tokens else float("nan")


_accuracy, _total = c.paper_pair(6)
INIT_SIZE: Final = Experiment(
    "init-size",
    "8, 16, 32 init paths: init, final and total tokens (table 6)",
    "Sensitivity to the init budget",
    replay_experiment(
        _init_cells,
        [
            c.table(
                "init-size",
                "DDC by the size of its init phase",
                [c.DATASET, c.MODEL, c.Column(ResultColumn("init size", "count"), lambda line: int(line.cell.label)),
                 c.ACCURACY, _accuracy, *c.PAIRED, c.INIT, c.FINAL, c.TOKENS, c.TOTAL,
                 c.from_paper(6, "init tokens in the paper", "tokens7", "init tokens", 1e7),
                 c.from_paper(6, "final tokens in the paper", "tokens7", "final tokens", 1e7), _total, c.WIDTH,
                 c.SETTLED],
                averaged=True,
            )
        ],
        [
            sweep("accuracy", "Accuracy by init size", INIT_AXIS, ACCURACY),
            sweep("tokens", "Tokens by init size", INIT_AXIS, TOKENS),
            sweep("init-share", "Share of tokens spent on the init phase", INIT_AXIS,
                  Measured(Axis("init tokens, % of all", percent=True), _init_share)),
        ],
    ),
    reads=("sweep",),
)  # fmt: skip

# -- the window over which confidence is averaged

PAPER_WINDOWS: Final = (512, 1024, 2048)
WINDOW_AXIS: Final = Axis("tokens per window", "log")


def windows_for(inputs: Inputs, pool: OpenPool) -> list[int]:
    """The caller's, else fractions and multiples of the pool's own; the paper's if that is not smaller."""
    if inputs.sweep:
        return whole_numbers("a window", inputs.sweep)
    if pool.window >= PAPER_WINDOWS[-1]:
        return list(PAPER_WINDOWS)
    return [max(1, pool.window // 4), max(1, pool.window // 2), pool.window, 2 * pool.window]


def _window_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    return [ReplayCell(str(size), "ddc", cell_options(inputs, size)) for size in windows_for(inputs, pool)]


def _window_setting(line: CellResult) -> str:
    return f"window={line.cell.label}"


_accuracy, _total = c.paper_pair(7, _window_setting)
WINDOW: Final = Experiment(
    "window",
    "512, 1024, 2048, or windows scaled to the model (table 7)",
    "Effect of the window",
    replay_experiment(
        _window_cells,
        [
            c.table(
                "window",
                "DDC by the size of its window",
                [c.DATASET, c.MODEL,
                 c.Column(ResultColumn("window", "count", "tokens"), lambda line: int(line.cell.label)), c.ACCURACY,
                 _accuracy, *c.PAIRED, c.INIT, c.FINAL,
                 c.from_paper(7, "final tokens in the paper", "tokens7", "final tokens", 1e7, _window_setting),
                 c.TOKENS, c.TOTAL, _total, c.WIDTH, c.DROPPED, c.RISKY, c.SETTLED],
                averaged=True,
            )
        ],
        [
            sweep("accuracy", "Accuracy by window", WINDOW_AXIS, ACCURACY),
            sweep("tokens", "Tokens by window", WINDOW_AXIS, TOKENS),
        ],
        row_notes=True,
    ),
    reads=("sweep",),
)  # fmt: skip

# -- Tukey's fence around the init paths' instability, against fixed percentiles

PERCENTILES: Final = (80.0, 85.0, 90.0, 95.0, 99.0)


def _fence_cells(inputs: Inputs, pool: OpenPool) -> list[ReplayCell]:
    options = cell_options(inputs, pool.window)
    percentiles = [f"p{q:g}" for q in inputs.sweep or PERCENTILES]
    return [
        ReplayCell("tukey", "ddc", options),
        *(ReplayCell(fence, f"ddc:risk={fence}", options) for fence in percentiles),
        ReplayCell("no trend", "ddc-no-trend", options),
    ]


FENCE: Final = Experiment(
    "fence",
    "Tukey's fence against static percentiles (figure 5c)",
    "Tukey's fence against static percentiles",
    replay_experiment(
        _fence_cells,
        [
            c.table(
                "fence",
                "DDC by its fence for the trend",
                [c.DATASET, c.MODEL, c.Column(ResultColumn("fence"), lambda line: line.cell.label), c.STRATEGY,
                 c.ACCURACY, *c.PAIRED, c.TOKENS, c.TOTAL, c.WIDTH, c.DROPPED, c.RISKY, c.SETTLED],
                averaged=True,
            )
        ],
        [bars("accuracy", "Accuracy by fence", ACCURACY), bars("tokens", "Tokens by fence", TOKENS)],
    ),
    reads=("sweep",),
)  # fmt: skip
