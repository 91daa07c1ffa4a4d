"""What was chosen on the first pool, on the others: numbers that the choice has not made better than they are."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final

from sureenough.bench.cells import CellResult
from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.frontier import SAVING
from sureenough.bench.recommendation import judge, recommend, with_margin
from sureenough.bench.result import ResultColumn, Table

KINDS: Final[dict[str, Callable[[CellResult], bool]]] = {
    "all": lambda line: True,
    "those that prune": lambda line: line.row.pruned > 0,
    "those with probes": lambda line: line.row.buckets["probe"] > 0,
    "those without either": lambda line: not line.row.pruned and not line.row.buckets["probe"],
}
"""A strategy is chosen of each kind."""


def chosen_lines(lines: Sequence[CellResult], points: float) -> Iterator[tuple[str, str]]:
    """The kind and the label of each choice: the cheapest that is shown to lose at most so much, or is likely to."""
    for kind, belongs in KINDS.items():
        compared = recommend([lines[0], *(line for line in lines[1:] if belongs(line))])
        best = judge(with_margin(compared, points)).best if compared is not None else None
        if best is not None:
            yield kind, best.strategy


def held_out_tables(results: Sequence[list[CellResult]], points: float) -> list[Table]:
    """One table if there are several pools; the first is the one to choose on."""
    if len(results) < 2:
        return []
    kinds: dict[str, list[str]] = {results[0][0].cell.label: ["compared with"]}
    for kind, label in chosen_lines(results[0], points):
        kinds.setdefault(label, []).append(f"best of {kind}")
    build = c.table(
        "held-out",
        "What was chosen on the first pool, on all of them",
        [c.DATASET, c.MODEL, c.Column(ResultColumn("strategy"), lambda line: line.cell.label),
         c.Column(ResultColumn("chosen as"), lambda line: ", ".join(kinds[line.cell.label])),
         c.QUESTIONS, c.ACCURACY, *c.PAIRED, c.TOKENS, SAVING],
        [
            f"chosen on {results[0][0].source.dataset}: the cheapest whose paired interval stays above -{points:g} "
            "point, else the cheapest whose difference does, else the closest; other pools had no part in the choice",
            "best of those that prune against best of those without either: what depth is worth here",
        ],
    )  # fmt: skip
    return [build([[line for line in lines if line.cell.label in kinds] for lines in results])]
