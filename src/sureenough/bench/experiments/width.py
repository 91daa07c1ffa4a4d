"""The paper's table 4: how many paths a method starts, and what it spends on answers that are confident and wrong."""

from __future__ import annotations

from typing import Final

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.columns import Column
from sureenough.bench.experiments.experiment import Experiment
from sureenough.bench.experiments.figures import Measured, bars
from sureenough.bench.experiments.replayed import replay_experiment, strategy_cells
from sureenough.bench.result import Axis, Cell, ResultColumn
from sureenough.bench.score import CONFIDENT
from sureenough.strategies import COMPARED

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

EXPERIMENT: Final = Experiment(
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
