"""The paper's table 6: how long DDC looks before it decides anything."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.inputs import Experiment, Inputs, whole
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import CellResult, ReplayCell, replayed, settings_of
from sureenough.bench.result import Axis, ExperimentResult, ResultColumn

SIZES: Final = (8.0, 16.0, 32.0)


def _theirs(name: str, title: str) -> f.Field:
    return f.theirs(6, title, "tokens7", name, lambda line: line.cell.strategy, 1e7)


def run(inputs: Inputs) -> ExperimentResult:
    """Init, final and total tokens for every size."""
    clock = Clock()
    sizes = whole("an init size", inputs.settings.sweep or SIZES)
    lines, seen, notes = replayed(
        inputs,
        lambda pool: [ReplayCell(str(n), f"ddc:warmup={n}", settings_of(inputs.settings, pool.window)) for n in sizes],
    )
    flat = [line for one in lines for line in one]
    accuracy, total = f.paper_pair(6)
    fields = [f.DATASET, f.MODEL, f.Field(ResultColumn("init size", "count"), lambda line: int(line.cell.label)),
              f.ACCURACY, accuracy, f.DIFFERENCE, f.WON, f.LOST, f.INIT, f.FINAL, f.TOKENS, f.TOTAL,
              _theirs("init tokens", "init tokens in the paper"), _theirs("final tokens", "final tokens in the paper"),
              total, f.WIDTH, f.SETTLED]  # fmt: skip
    table = f.table("init-size", "DDC by the size of its init phase", flat, fields)
    x = Axis("paths in the init phase", "log")
    figures = [
        drawn.sweep("accuracy", "Accuracy by init size", lines, x, drawn.ACCURACY, drawn.accuracy),
        drawn.sweep("tokens", "Tokens by init size", lines, x, drawn.TOKENS, drawn.tokens),
        drawn.sweep("init-share", "Share of tokens spent on the init phase", lines, x,
                    Axis("init tokens, % of all", percent=True), _init_share),
    ]  # fmt: skip
    title = "Sensitivity to the init budget"
    return finish("init-size", title, inputs, clock, tables=[table], figures=figures, notes=notes, seen=seen)


def _init_share(line: CellResult) -> float:
    return line.row.buckets["init"] / line.row.tokens if line.row.tokens else float("nan")


EXPERIMENT: Final = Experiment("init-size", "8, 16, 32 init paths: init, final and total tokens (table 6)", run)
