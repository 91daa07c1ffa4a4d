"""The paper's table 4: how many paths a method starts, and what it spends on answers that are confident and wrong."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments import figures as drawn
from sureenough.bench.experiments.fields import Field
from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import CellResult, named
from sureenough.bench.result import Axis, ExperimentResult, ResultColumn
from sureenough.bench.result import Cell as Value
from sureenough.bench.score import CONFIDENT

NAMES: Final = ("sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "sure")


def _each(line: CellResult) -> Value:
    sums = line.sheet.sums
    return sums["tokens confident wrong"] / sums["confident wrong"] if sums["confident wrong"] else None


def _total(line: CellResult) -> Value:
    return line.sheet.sums["tokens confident wrong"] / line.row.repeats


def _share(line: CellResult) -> Value:
    return line.sheet.sums["tokens confident wrong"] / (line.row.tokens * line.sheet.runs or 1.0)


CONFIDENTLY_WRONG: Final = (
    Field(ResultColumn("wrong", "percent", "% of runs"), lambda line: line.sheet.mean("wrong")),
    Field(ResultColumn("confidently wrong", "percent", "% of runs"), lambda line: line.sheet.mean("confident wrong")),
    Field(ResultColumn("tokens on it", "tokens", "each"), _each),
    Field(ResultColumn("tokens on all of it", "tokens7", "10^7"), _total),
    Field(ResultColumn("its share of tokens", "percent", "%"), _share),
)
THEIRS: Final = (
    f.theirs(4, "width in the paper", "number", "width", lambda line: line.cell.strategy, 1.0),
    f.theirs(
        4, "tokens in the paper (unit not given)", "scientific", "confident wrong", lambda line: line.cell.strategy, 1.0
    ),
)
MEANING: Final = (
    f"a wrong answer is confident when its posterior passed {CONFIDENT:g}: the chance, by the votes and weights of its "
    "own method, that it holds more than half (the paper does not say how it chose them, nor the unit of its tokens)"
)


def run(inputs: Inputs) -> ExperimentResult:
    """Average paths, and tokens spent on confident wrong answers."""
    clock = Clock()
    names = inputs.settings.strategies or NAMES
    lines, seen, notes = named(inputs, names)
    flat = [line for one in lines for line in one]
    fields = [*f.ALL[:5], f.WIDTH, THEIRS[0], *CONFIDENTLY_WRONG, THEIRS[1], f.TOKENS]
    table = f.table("width", "Paths started, and tokens spent on confident wrong answers", flat, fields, [MEANING])
    figures = [
        drawn.bars("width", "Paths started", lines, Axis("paths a question"), lambda line: line.row.width),
        drawn.bars("confident-wrong", "Tokens spent on confident wrong answers", lines, Axis("tokens a question"),
                   lambda line: line.sheet.mean("tokens confident wrong")),
    ]  # fmt: skip
    title = "Width, and the cost of confident errors"
    return finish("width", title, inputs, clock, tables=[table], figures=figures, notes=notes, seen=seen)


EXPERIMENT: Final = Experiment("width", "average paths, and tokens spent on confident wrong answers (table 4)", run)
