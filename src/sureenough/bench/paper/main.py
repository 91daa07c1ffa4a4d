"""The paper's tables 1 and 4: accuracy and tokens of every method, paths started, and the cost of confident errors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import Final

from sureenough.bench.paper import columns as c
from sureenough.bench.paper.columns import Column, by_model, compared_table, settings_of
from sureenough.bench.paper.experiment import (
    Experiment,
    Findings,
    Inputs,
    Results,
    questions_of,
    replay_experiment,
    replay_findings,
    replay_inputs,
    strategy_cells,
)
from sureenough.bench.paper.figures import ACCURACY, Measured, bars, differences, series
from sureenough.bench.paper.live_tables import live_tables
from sureenough.bench.paper.published import AVERAGE
from sureenough.bench.recommendation import recommend
from sureenough.bench.replay import CellResult
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Table, number
from sureenough.bench.score import CONFIDENT
from sureenough.strategies import COMPARED

METHODS: Final = (
    "sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc:weight=unit", "sure",
    "sure:delta=0.02",
)  # fmt: skip
READING: Final = (
    "accuracy with its 95% interval, resampling questions; differences are paired, to the first method of the dataset",
    "won: questions right in most repeats, and wrong in most with the first method; lost: the reverse; a question that "
    "is right in exactly half of its repeats is on neither side",
    "saving: tokens of plain voting on the same paths, divided by these",
)
TABLE: Final = c.table("main", "Accuracy and cost of every method", c.all_columns(1), READING)
POOLED: Final = compared_table("Accuracy compared with the first method, and what each sample could detect")


def _measure(inputs: Inputs) -> Findings:
    """Methods × datasets × models, on identical samples; live runs in a table of their own."""
    live = live_tables(inputs.live_runs, "main")
    if not inputs.sources and live:
        return Findings(live)
    results = replay_inputs(inputs, strategy_cells(METHODS))
    layouts = [_paper_layout(f"paper-layout-{i}", group) for i, group in enumerate(by_model(results), 1)]
    advised = [one for one in map(recommend, results) if one is not None]
    figures = [differences(f"differences-{i}", one) for i, one in enumerate(advised, 1)]
    figures += [_tradeoff(f"tradeoff-{i}", lines) for i, lines in enumerate(results, 1)]
    tables = [TABLE(results), POOLED(results), *layouts, *live]
    findings = replay_findings(inputs, results, tables, figures)
    return replace(findings, recommendations=advised, questions=[questions_of(lines) for lines in results])


def _paper_layout(name: str, results: Results) -> Table:
    """One row per method, two columns per dataset and for the plain average over datasets, as the paper prints it."""
    columns = [ResultColumn("method")]
    for dataset in [*(lines[0].source.dataset for lines in results), AVERAGE]:
        columns.append(ResultColumn(f"{dataset} acc.", "percent", "%"))
        columns.append(ResultColumn(f"{dataset} tokens", "tokens7", "10^7"))
    rows: list[list[Cell]] = []
    for same in zip(*results, strict=True):
        accuracy = [line.row.accuracy for line in same]
        tokens = [line.row.tokens * line.row.questions for line in same]
        row: list[Cell] = [same[0].cell.label]
        for a, t in zip(accuracy, tokens, strict=True):
            row += [number(a), t]
        graded = [a for a in accuracy if not isnan(a)]
        row += [sum(graded) / len(graded) if graded else None, sum(tokens) / len(tokens)]
        rows.append(row)
    note = "tokens of all questions of a dataset, mean of the repeats; Avg. is the plain mean of the datasets"
    notes = [note, settings_of([line for one in results for line in one])]
    return Table(name, f"{results[0][0].source.model}, in the paper's layout", columns, rows, notes)


def _tradeoff(name: str, lines: Sequence[CellResult]) -> Figure:
    source = lines[0].source
    return Figure(
        name,
        f"{source.label}: accuracy against tokens",
        "points",
        Axis("tokens per question", "log"),
        ACCURACY.axis,
        [series(line.cell.label, [line], [line.row.tokens], ACCURACY) for line in lines],
        ["bars are 95% intervals over questions; methods are paired, so differences are more certain"],
    )


EXPERIMENT: Final = Experiment(
    "main",
    "accuracy and tokens: methods × datasets × models (table 1)",
    "Accuracy and tokens: methods × datasets × models",
    _measure,
    "optional",
    reads=("strategies",),
)


SPENT: Final = "tokens confident wrong"


def _per_error(line: CellResult) -> Cell:
    errors = line.runs.sums["confident wrong"]
    return line.runs.sums[SPENT] / errors if errors else None


CONFIDENTLY_WRONG: Final = (
    Column(ResultColumn("wrong", "percent", "% of runs"), lambda line: line.runs.mean("wrong")),
    Column(ResultColumn("confidently wrong", "percent", "% of runs"), lambda line: line.runs.mean("confident wrong")),
    Column(ResultColumn("tokens per confident error", "tokens"), _per_error),
    Column(
        ResultColumn("tokens of all confident errors", "tokens7", "10^7"),
        lambda line: line.runs.sums[SPENT] / line.row.repeats,
    ),
    Column(
        ResultColumn("share of all tokens", "percent", "%"),
        lambda line: line.runs.sums[SPENT] / (line.row.tokens * line.runs.runs or 1.0),
    ),
)
MEANING: Final = (
    f"a wrong answer is confident if its posterior is above {CONFIDENT:g}: the chance, by the votes and weights of its "
    "own method, that it holds more than half (the paper states neither how it chose them nor the unit of its tokens)"
)
IN_PAPER: Final = c.from_paper(4, "tokens in the paper (unit not given)", "scientific", "confident wrong", 1.0)

WIDTH: Final = Experiment(
    "width",
    "average paths, and tokens spent on confident wrong answers (table 4)",
    "Width, and the cost of confident errors",
    replay_experiment(
        strategy_cells(COMPARED),
        [
            c.table(
                "width",
                "Paths started, and tokens spent on confident wrong answers",
                [*c.NAMES, c.QUESTIONS, c.ACCURACY, c.WIDTH,
                 c.from_paper(4, "width in the paper", "number", "width", 1.0), *CONFIDENTLY_WRONG, IN_PAPER, c.TOKENS],
                [MEANING],
            )
        ],
        [
            bars("width", "Paths started", Measured(Axis("paths per question"), lambda line: line.row.width)),
            bars("confident-wrong", "Tokens spent on confident wrong answers",
                 Measured(Axis("tokens per question"), lambda line: line.runs.mean(SPENT))),
        ],
    ),
    reads=("strategies",),
)  # fmt: skip
