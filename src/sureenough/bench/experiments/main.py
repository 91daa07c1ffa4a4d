"""The paper's table 1: accuracy and tokens of every method on every dataset and model."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Final

from sureenough.bench.experiments import fields as f
from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.live import live_tables
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import CellResult, named
from sureenough.bench.paper import AVERAGE
from sureenough.bench.result import Axis, ExperimentResult, Figure, ResultColumn, Series, Table
from sureenough.bench.result import Cell as Value

METHODS: Final = (
    "sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc:weight=unit", "sure",
    "sure:delta=0.02",
)  # fmt: skip


def run(inputs: Inputs) -> ExperimentResult:
    """Methods × datasets × models, on identical samples."""
    clock = Clock()
    names = inputs.settings.strategies or METHODS
    live = live_tables(inputs.live_runs, "main")
    if not inputs.sources and live:
        return finish("main", TITLE, inputs, clock, tables=live)
    lines, seen, notes = named(inputs, names)
    flat = [line for one in lines for line in one]
    fields = [*f.ALL[:10], *f.paper_pair(1), *f.ALL[10:]]
    tables = [
        f.table("main", "Accuracy and cost of every method", flat, fields, READING),
        *(paper_layout(f"paper-layout-{i + 1}", group) for i, group in enumerate(by_model(lines))),
        *live,
    ]
    figures = [_tradeoff(i, one) for i, one in enumerate(lines)]
    return finish("main", TITLE, inputs, clock, tables=tables, figures=figures, notes=notes, seen=seen)


TITLE: Final = "Accuracy and tokens: methods × datasets × models"
READING: Final = (
    "accuracy with its 95% interval, resampling questions; differences are paired, to the first method of the dataset",
    "won, lost: questions that changed sides, right in most repeats and not so with the first method, or the reverse",
    "saving: tokens of plain voting on the same paths, over these",
)


def by_model(lines: Sequence[list[CellResult]]) -> list[list[list[CellResult]]]:
    """The sources of each model together."""
    models: dict[str, list[list[CellResult]]] = {}
    for one in lines:
        models.setdefault(one[0].source.model, []).append(one)
    return list(models.values())


def paper_layout(name: str, lines: Sequence[list[CellResult]]) -> Table:
    """A row a method, two columns a dataset and the plain average over datasets, as the paper prints it."""
    columns = [ResultColumn("method")]
    for one in lines:
        dataset = one[0].source.dataset
        columns += [
            ResultColumn(f"{dataset} acc.", "percent", "%"),
            ResultColumn(f"{dataset} tokens", "tokens7", "10^7"),
        ]
    columns += [ResultColumn(f"{AVERAGE} acc.", "percent", "%"), ResultColumn(f"{AVERAGE} tokens", "tokens7", "10^7")]
    rows: list[list[Value]] = []
    for same in zip(*lines, strict=True):
        accuracy = [line.row.accuracy for line in same]
        tokens = [line.row.tokens * line.row.questions for line in same]
        row: list[Value] = [same[0].cell.label]
        for a, t in zip(accuracy, tokens, strict=True):
            row += [f.number(a), t]
        graded = [a for a in accuracy if not isnan(a)]
        row += [sum(graded) / len(graded) if graded else None, sum(tokens) / len(tokens)]
        rows.append(row)
    model = lines[0][0].source.model
    note = "tokens of all questions of a dataset, mean of the repeats; Avg. is the plain mean of datasets"
    return Table(name, f"{model}, in the paper's layout", columns, rows, [note])


def _tradeoff(number: int, lines: Sequence[CellResult]) -> Figure:
    source = lines[0].source
    series = [
        Series(
            line.cell.label,
            [line.row.tokens],
            [f.number(line.row.accuracy)],
            [f.number(line.row.interval.low)],
            [f.number(line.row.interval.high)],
        )
        for line in lines
    ]
    return Figure(
        f"tradeoff-{number + 1}",
        f"{source.dataset}, {source.model}: accuracy against tokens",
        "points",
        Axis("tokens a question", "log"),
        Axis("accuracy, %", percent=True),
        series,
        ["bars are 95% intervals over questions; methods are paired, so differences are surer than bars suggest"],
    )


EXPERIMENT: Final = Experiment("main", "accuracy and tokens: methods × datasets × models (table 1)", run, "optional")
