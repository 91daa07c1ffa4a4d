"""What `sure` learns over the questions of a pool: weights and accuracy against the number of questions seen."""

from __future__ import annotations

from statistics import fmean
from typing import Final

import numpy as np

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.columns import Column
from sureenough.bench.experiments.experiment import Experiment
from sureenough.bench.experiments.replayed import replay_experiment, strategy_cells
from sureenough.bench.result import Axis, Figure, ResultColumn, Series
from sureenough.bench.score import mean_state
from sureenough.core.learning import SIGNALS
from sureenough.spec import resolve

METHODS: Final = ("sc", "sure:weigh=count", "sure:weigh=tail,beta=0.6", "sure")
SEEN: Final = Axis("questions seen")


def _learned(signal: str, quantity: str) -> Column:
    name = f"{quantity} of {signal.replace('_', ' ')}"
    return Column(
        ResultColumn(name, "number", digits=3),
        lambda line: None if line.row.learned is None else line.row.learned[signal][quantity],
    )


TABLE: Final = c.table(
    "learning",
    "Fixed weights, learned weights and none",
    [*c.NAMES, c.QUESTIONS, c.ACCURACY, *c.PAIRED, c.TOKENS, c.SAVING,
     *(_learned(signal, quantity) for signal in SIGNALS for quantity in ("r", "beta"))],
    ["r: mean correlation of a signal with leave-one-out agreement, the prior included; beta: its weight in the vote; "
     "both after the last question, mean over repeats"],
)  # fmt: skip


def _differences(number: int, lines: list[CellResult]) -> Figure:
    """The mean difference to the first strategy over all questions so far."""
    source, first = lines[0].source, np.array(lines[0].runs.right)
    series = []
    for line in lines[1:]:
        gained = np.array(line.runs.right) - first
        graded = np.flatnonzero(np.isfinite(gained))
        means = np.cumsum(gained[graded]) / np.arange(1, len(graded) + 1)
        series.append(Series(line.cell.label, [float(seen) for seen in graded + 1], means.tolist()))
    title = f"{source.label}: difference to {lines[0].cell.label} over the questions so far"
    return Figure(f"difference-{number}", title, "line", SEEN, Axis("difference, points", percent=True), series)


def _weights(number: int, lines: list[CellResult]) -> Figure:
    """Beta of each signal after each question, and the trust in the best one, as means over repeats."""
    source, series = lines[0].source, []
    for line in lines:
        states = [mean_state(resolve(line.cell.strategy), of_question) for of_question in line.states]
        seen: list[float | str | None] = [float(n) for n in range(1, len(states) + 1)]
        for signal in SIGNALS:
            betas = [None if one is None else one[signal]["beta"] for one in states]
            if any(beta is not None for beta in betas):
                series.append(Series(f"{line.cell.label}: {signal.replace('_', ' ')}", seen, [*betas]))
        if line.states and line.states[0]:
            trust = [fmean(state.trust for state in of_question) for of_question in line.states]
            series.append(Series(f"{line.cell.label}: trust", seen, [*trust]))
    title = f"{source.label}: weight of each signal"
    return Figure(f"weights-{number}", title, "line", SEEN, Axis("beta; trust"), series)


EXPERIMENT: Final = Experiment(
    "learning",
    "what sure learns: accuracy difference and weights against the questions seen",
    "Learning which confidence to trust",
    replay_experiment(strategy_cells(METHODS), [TABLE], by_source=[_differences, _weights]),
    reads=("strategies",),
)
