"""Differences to the first method over the questions of all datasets together, and what each sample could detect."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.replayed import Results
from sureenough.bench.experiments.table_settings import settings_of
from sureenough.bench.recommendation import DETECT, IMAGINED, paired
from sureenough.bench.result import Cell, ResultColumn, Table, grouped
from sureenough.bench.score import intervals
from sureenough.core.confidence.instability import Floats

ALL: Final = "all together"
COLUMNS: Final = [
    *map(ResultColumn, ("model", "dataset", "strategy", "compared with")),
    ResultColumn("questions", "count"),
    ResultColumn("difference", "points", "points"),
    ResultColumn("gained", "count", "questions"),
    ResultColumn("lost", "count", "questions"),
    ResultColumn("could detect", "number", "points", 1),
]
READING: Final = (
    "difference of accuracy on the same questions, with a 95% interval that resamples questions; gained and lost: "
    "questions that are right in more, and in fewer, repeats",
    "could detect: the true difference that a sample of these questions would show at the 5% level in 80% of cases, "
    f"{DETECT:g} (1.96 + 0.84) standard errors of the paired difference; the standard error includes one imagined "
    "question gained and one lost, since a sample in which none changed has none of its own",
    "a question that occurs in several pools counts once, where it occurs first",
)


class Gains(NamedTuple):
    """Differences by question."""

    keys: list[tuple[str, str | None]]  # id and gold answer: files of different questions may use the same ids
    values: Floats  # NaN without a gold answer


def compared_table(title: str) -> Callable[[Results], Table]:
    """Every method against the first of its model, dataset by dataset and over all of them."""

    def build(results: Results) -> Table:
        rows: list[list[Cell]] = []
        for group in by_model(results):
            for same in list(zip(*group, strict=True))[1:]:
                every = [_gains(line) for line in same]
                samples = [(line.source.dataset, gains.values) for line, gains in zip(same, every, strict=True)]
                if len(same) > 1:
                    samples.append((ALL, _joined(every)))
                rows += [_row(name, same[0], group[0][0], values) for name, values in samples]
        lines = [line for one in results for line in one]
        return Table("pooled", title, COLUMNS, rows, [*READING, settings_of(lines)])

    return build


def by_model(results: Results) -> list[list[list[CellResult]]]:
    """The sources of each model together, if their methods are the same."""
    models = grouped(results, lambda lines: (lines[0].source.model, *(line.cell.label for line in lines)))
    return list(models.values())


def _gains(line: CellResult) -> Gains:
    return Gains([(one.id, one.gold) for one in line.questions], np.array(line.runs.right) - np.array(line.first.right))


def _joined(every: Sequence[Gains]) -> Floats:
    by_question: dict[tuple[str, str | None], float] = {}
    for gains in every:
        for key, value in zip(gains.keys, gains.values.tolist(), strict=True):
            by_question.setdefault(key, value)
    return np.array(list(by_question.values()))


def _row(dataset: str, line: CellResult, first: CellResult, values: Floats) -> list[Cell]:
    known = values[np.isfinite(values)]
    names: list[Cell] = [line.source.model, dataset, line.cell.label, first.cell.label, len(known)]
    if not known.size:
        return [*names, None, None, None, None]
    bounds = intervals(known.reshape(-1, 1), line.cell.options.seed)[0]
    error = paired(known, IMAGINED["accuracy"])[1]
    gained, lost = int((known > 0).sum()), int((known < 0).sum())
    return [*names, measure(float(known.mean()), bounds), gained, lost, 100 * DETECT * error]
