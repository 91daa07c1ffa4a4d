"""The paper's table 7: the window over which confidence is averaged, at the paper's sizes or scaled to the model's."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.inputs import Experiment, Inputs, whole
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import ReplayCell, replayed, settings_of
from sureenough.bench.parallel import OpenPool
from sureenough.bench.result import Axis, ExperimentResult, ResultColumn

PAPER: Final = (512, 1024, 2048)


def sizes_for(pool: OpenPool, inputs: Inputs) -> list[int]:
    """The caller's, else fractions of what the pool suggests; the paper's where it suggests nothing smaller."""
    if inputs.settings.sweep:
        return whole("a window", inputs.settings.sweep)
    suggested = pool.pool.info.window if inputs.settings.window is None else inputs.settings.window
    if suggested is None or suggested >= PAPER[-1]:
        return list(PAPER)
    return [max(1, suggested // 4), max(1, suggested // 2), suggested, 2 * suggested]


def run(inputs: Inputs) -> ExperimentResult:
    """DDC under every window."""
    clock = Clock()
    lines, seen, notes = replayed(
        inputs,
        lambda pool: [ReplayCell(str(n), "ddc", settings_of(inputs.settings, n)) for n in sizes_for(pool, inputs)],
    )
    flat = [line for one in lines for line in one]
    accuracy, total = f.paper_pair(7, lambda line: f"window={line.cell.label}")
    final = f.theirs(7, "final tokens in the paper", "tokens7", "final tokens",
                     lambda line: f"window={line.cell.label}", 1e7)  # fmt: skip
    fields = [f.DATASET, f.MODEL, f.Field(ResultColumn("window", "count", "tokens"), lambda line: int(line.cell.label)),
              f.ACCURACY, accuracy, f.DIFFERENCE, f.WON, f.LOST, f.INIT, f.FINAL, final, f.TOKENS, f.TOTAL, total,
              f.WIDTH, f.DROPPED, f.RISKY, f.SETTLED]  # fmt: skip
    table = f.table("window", "DDC by the size of its window", flat, fields)
    x = Axis("tokens in a window", "log")
    figures = [
        drawn.sweep("accuracy", "Accuracy by window", lines, x, drawn.ACCURACY, drawn.accuracy),
        drawn.sweep("tokens", "Tokens by window", lines, x, drawn.TOKENS, drawn.tokens),
    ]
    notes += [f"{line.source.dataset}: {note}" for line in flat for note in line.row.notes]
    title = "Effect of the window"
    return finish("window", title, inputs, clock, tables=[table], figures=figures, notes=notes, seen=seen)


EXPERIMENT: Final = Experiment("window", "512, 1024, 2048, or windows scaled to the model (table 7)", run)
