"""The paper's table 3: DDC with one part taken away at a time."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import named
from sureenough.bench.result import ExperimentResult

NAMES: Final = ("ddc", "ddc-unweighted", "ddc-no-width", "ddc-no-trend", "ddc-no-depth")


def run(inputs: Inputs) -> ExperimentResult:
    """Differences are to the whole of DDC."""
    clock = Clock()
    names = inputs.settings.strategies or NAMES
    lines, seen, notes = named(inputs, names)
    flat = [line for one in lines for line in one]
    table = f.table("ablation", "DDC without one of its parts", flat, [*f.ALL[:10], *f.paper_pair(3), *f.ALL[10:]])
    figures = [
        drawn.bars("accuracy", "Accuracy without a part", lines, drawn.ACCURACY, drawn.accuracy),
        drawn.bars("tokens", "Tokens without a part", lines, drawn.TOKENS, drawn.tokens),
    ]
    title = "Ablations of DDC"
    return finish("ablation", title, inputs, clock, tables=[table], figures=figures, notes=notes, seen=seen)


EXPERIMENT: Final = Experiment("ablation", "DDC without one of its parts (table 3)", run)
