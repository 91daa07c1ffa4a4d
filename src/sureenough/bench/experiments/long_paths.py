"""Single paths in `bench long`: when one is known to be lost, what gates do to it, and what it would take to pay."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from sureenough.bench.experiments.depth import QuestionDepths, ReadDepths, depth_figures, depth_table, joined_areas
from sureenough.bench.experiments.experiment import Inputs
from sureenough.bench.experiments.gate_fates import GateCounts, ReadGates, fate_figures, fates_table, joined_counts
from sureenough.bench.experiments.signs import ReadSigns, SignScores, sign_tables
from sureenough.bench.experiments.table_settings import VARIED, settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.result import Figure, Table
from sureenough.pools import Question


class Windowing(NamedTuple):
    """The windows of a pool."""

    sizes: tuple[int, ...]
    own: int  # the pool's, or the closest of these: for figures, and for strategies that read no confidence


class LongPaths(NamedTuple):
    """What single paths of one question show."""

    depths: QuestionDepths
    gates: GateCounts
    signs: SignScores | None


@dataclass(frozen=True, slots=True)
class ReadLongPaths:
    """The pipeline's task: all in one pass, since they need the same windows and answers."""

    depths: ReadDepths
    gates: ReadGates
    signs: ReadSigns

    def __call__(self, question: Question, judged: JudgedAnswers) -> LongPaths:
        return LongPaths(self.depths(question, judged), self.gates(question, judged), self.signs(question, judged))


def path_findings(
    inputs: Inputs, pools: Sequence[PoolResults[LongPaths]], used: Sequence[Windowing]
) -> tuple[list[Table], list[Figure]]:
    """Tables and figures of single paths."""
    tables, figures = list[Table](), list[Figure]()
    repeats = f"{inputs.settings.repeats}, seed {inputs.options.seed}"
    settings = settings_note(window=VARIED, budget="all recorded paths")
    for variant, name, title in (
        ("wrong", "areas", "When a path is known to be lost; paths without an answer count as wrong"),
        ("left out", "areas-answered", "When a path is known to be lost; paths without an answer are left out"),
    ):
        areas = [
            joined_areas(pool.opened.source, sizes, [one.depths for one in pool.values], variant, inputs.options.seed)
            for pool, (sizes, _) in zip(pools, used, strict=True)
        ]
        table = depth_table(name, title, areas, [settings])
        if not tables or [row[4:] for row in table.rows] != [row[4:] for row in tables[0].rows]:
            tables.append(table)
        if variant == "wrong":
            for i, (one, (_, own)) in enumerate(zip(areas, used, strict=True), 1):
                figures += depth_figures(i, one, own)
    counts = [joined_counts(one.gates for one in pool.values) for pool in pools]
    sources = [pool.opened.source for pool in pools]
    tables.append(fates_table(sources, counts, f"{inputs.options.paths or 'all recorded'} paths", repeats))
    signs = [[one.signs for one in pool.values] for pool in pools]
    tables += sign_tables(sources, signs, [own for _, own in used], inputs)
    for i, (pool, count, (_, own)) in enumerate(zip(pools, counts, used, strict=True), 1):
        figures += fate_figures(i, pool.opened.source, count, own)
    return tables, figures
