"""The parts and settings of DDC: ablations, the init size, the window, the fence."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiment import (
    Experiment,
    Inputs,
    cell_options,
    replay_experiment,
    strategy_cells,
    whole_numbers,
)
from sureenough.bench.paper import shared as s
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay import Line, ReplayCell
from sureenough.bench.result import Axis

ABLATION: Final = Experiment(
    "ablation",
    "DDC without one of its parts (table 3)",
    "Ablations of DDC",
    replay_experiment(
        strategy_cells(("ddc", "ddc-unweighted", "ddc-no-width", "ddc-no-trend", "ddc-no-depth")),
        s.cell_table("ablation", "DDC without one of its parts", s.everything(3)),
        s.compared_table("DDC without one of its parts, compared with the first, and what each sample could detect"),
        s.cell_figure("accuracy", "Accuracy without a part", s.ACCURACY),
        s.cell_figure("tokens", "Tokens without a part", s.TOKENS),
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
    "Sensitivity to the init budget",
    replay_experiment(
        _init_cells,
        s.cell_table(
            "init-size",
            "DDC by the size of its init phase",
            [s.DATASET, s.MODEL, s.of_line("init size", lambda line: int(line.cell.label), "count"), s.ACCURACY,
             s.in_paper(6, "accuracy", "percent"), *s.PAIRED, s.INIT, s.FINAL, s.TOKENS, s.TOTAL,
             s.in_paper(6, "init tokens"), s.in_paper(6, "final tokens"), s.in_paper(6, "tokens"), s.WIDTH, s.SETTLED],
            averaged=True,
        ),
        s.cell_figure("accuracy", "Accuracy by init size", s.ACCURACY, INIT_AXIS),
        s.cell_figure("tokens", "Tokens by init size", s.TOKENS, INIT_AXIS),
        s.cell_figure("init-share", "Share of tokens spent on the init phase",
                      s.of_line("init tokens", _init_share, "percent", "% of all"), INIT_AXIS),
    ),
    reads=("sweep",),
)  # fmt: skip

# -- the window over which confidence is averaged

PAPER_WINDOWS: Final = (512, 1024, 2048)
WINDOW_AXIS: Final = Axis("tokens per window", "log")


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
    "Effect of the window",
    replay_experiment(
        _window_cells,
        s.cell_table(
            "window",
            "DDC by the size of its window",
            [s.DATASET, s.MODEL, s.of_line("window", lambda line: int(line.cell.label), "count", "tokens"), s.ACCURACY,
             s.in_paper(7, "accuracy", "percent", setting=_window_setting), *s.PAIRED, s.INIT, s.FINAL,
             s.in_paper(7, "final tokens", setting=_window_setting), s.TOKENS, s.TOTAL,
             s.in_paper(7, "tokens", setting=_window_setting), s.WIDTH, s.DROPPED, s.RISKY, s.SETTLED],
            averaged=True,
        ),
        s.cell_figure("accuracy", "Accuracy by window", s.ACCURACY, WINDOW_AXIS),
        s.cell_figure("tokens", "Tokens by window", s.TOKENS, WINDOW_AXIS),
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
    "Tukey's fence against static percentiles",
    replay_experiment(
        _fence_cells,
        s.cell_table(
            "fence",
            "DDC by its fence for the trend",
            [s.DATASET, s.MODEL, s.of_line("fence", lambda line: line.cell.label), s.STRATEGY, s.ACCURACY, *s.PAIRED,
             s.TOKENS, s.TOTAL, s.WIDTH, s.DROPPED, s.RISKY, s.SETTLED],
            averaged=True,
        ),
        s.cell_figure("accuracy", "Accuracy by fence", s.ACCURACY),
        s.cell_figure("tokens", "Tokens by fence", s.TOKENS),
    ),
    reads=("sweep",),
)  # fmt: skip
