"""The paper's figure 5c: Tukey's fence around the init paths' instability, against fixed percentiles."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import ReplayCell, replayed, settings_of
from sureenough.bench.result import ExperimentResult, ResultColumn

PERCENTILES: Final = (80.0, 85.0, 90.0, 95.0, 99.0)


def run(inputs: Inputs) -> ExperimentResult:
    """Differences are to Tukey's fence."""
    clock = Clock()
    fences = ["tukey", *(f"p{q:g}" for q in inputs.settings.sweep or PERCENTILES)]

    names = [(fence, "ddc" if fence == "tukey" else f"ddc:risk={fence}") for fence in fences]
    names.append(("no trend", "ddc-no-trend"))
    lines, seen, notes = replayed(
        inputs,
        lambda pool: [ReplayCell(label, name, settings_of(inputs.settings, pool.window)) for label, name in names],
    )
    flat = [line for one in lines for line in one]
    fields = [f.DATASET, f.MODEL, f.Field(ResultColumn("fence"), lambda line: line.cell.label), f.STRATEGY, f.ACCURACY,
              f.DIFFERENCE, f.WON, f.LOST, f.TOKENS, f.TOTAL, f.WIDTH, f.DROPPED, f.RISKY, f.SETTLED]  # fmt: skip
    table = f.table("fence", "DDC by its fence for the trend", flat, fields)
    figures = [
        drawn.bars("accuracy", "Accuracy by fence", lines, drawn.ACCURACY, drawn.accuracy),
        drawn.bars("tokens", "Tokens by fence", lines, drawn.TOKENS, drawn.tokens),
    ]
    title = "Tukey's fence against static percentiles"
    return finish("fence", title, inputs, clock, tables=[table], figures=figures, notes=notes, seen=seen)


EXPERIMENT: Final = Experiment("fence", "Tukey's fence against static percentages (figure 5c)", run)
