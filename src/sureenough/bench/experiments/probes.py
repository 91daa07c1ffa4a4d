"""What probes know and what they save: how early paths know their answer, and tokens at equal accuracy."""

from __future__ import annotations

from typing import Final

from sureenough.bench.experiments import columns as c
from sureenough.bench.experiments.columns import Column
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.probed_paths import (
    ReadProbes,
    difficulty_figures,
    difficulty_table,
    known_figure,
    length_table,
)
from sureenough.bench.experiments.replayed import cell_options, replay_findings, replay_inputs
from sureenough.bench.pipeline import OpenPool
from sureenough.bench.replay_units import ReplayCell
from sureenough.bench.result import ResultColumn
from sureenough.bench.strategy_lists import fitting_pool
from sureenough.core.probing import ProbeRule
from sureenough.data import PROBES_POOL
from sureenough.errors import TraceError

METHODS: Final = ("sc", "ac", "ddc", "sure")
AGREE: Final = (2, 3)
VOTING: Final = ("ac", "ddc", "sure")
"""Strategies whose stop rule counts the votes of probes; `sc` has none."""

PROBES: Final = Column(ResultColumn("probe tokens", "tokens", "per question"), lambda line: line.row.buckets["probe"])
TABLE: Final = c.table(
    "probes",
    "Strategies with and without probes",
    [*c.NAMES, c.QUESTIONS, c.ACCURACY, *c.PAIRED, c.TOKENS, PROBES, c.SAVING, c.STEPS],
    ["tokens include those of probes; every strategy comes with the accuracy and tokens of its plain form above it"],
)


def probe_distance(opened: OpenPool) -> int:
    """Tokens between two recorded probes."""
    for question in opened.pool:
        places = [probe.at for path in question.paths for probe in path.probes or ()]
        if places:
            return min(places)
    raise TraceError(
        f"{opened.pool.name} has no probes; record a pool with them: `sureenough record … --probes every=64`"
    )


def _cells(inputs: Inputs, opened: OpenPool) -> list[ReplayCell]:
    every = probe_distance(opened)
    options = cell_options(inputs, opened.window)
    names = []
    for name in METHODS:
        probed = [f"{name}+probe:every={every},agree={agree}" for agree in AGREE]
        names += [name, *probed, *([f"{probed[-1]},votes=1"] if name in VOTING else [])]
    chosen = inputs.strategies or fitting_pool(names, opened, options.paths)
    return [ReplayCell(name, name, options) for name in chosen]


def _measure(inputs: Inputs) -> Findings:
    replayed = replay_inputs(inputs, _cells)
    pools = over_pools(inputs, lambda opened: ReadProbes(ProbeRule(probe_distance(opened), AGREE[-1])))
    tables = [TABLE([one.results for one in replayed]), length_table(pools, AGREE[-1]), difficulty_table(pools)]
    return replay_findings(inputs, replayed, tables, [known_figure(pools), *difficulty_figures(pools)])


EXPERIMENT: Final = Experiment(
    "probes",
    "probes: how early paths know their answer, and tokens saved at equal accuracy",
    "Probes: how early the answer is known, and what they save",
    _measure,
    reads=("strategies",),
    pool=PROBES_POOL,
)
