"""The paper's proposition B.2 tried: which hallucinations does the gate prune, what becomes of the vote, and how many
right paths does it prune on real pools?
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final
from zlib import crc32

import numpy as np

from sureenough.bench.experiments.inputs import Experiment, Inputs
from sureenough.bench.experiments.provenance import Clock, finish
from sureenough.bench.experiments.replays import over_pools, refuse_bad_settings
from sureenough.bench.experiments.synthetic import KINDS, SAYS, path
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.parallel import PoolResults
from sureenough.bench.result import Axis, Cell, ExperimentResult, Figure, ResultColumn, Series, Table
from sureenough.core.events import Tier
from sureenough.core.options import RunOptions
from sureenough.drivers import replay
from sureenough.pools import Question, RecordedPath
from sureenough.spec import resolve

WINDOW: Final = 64
TRIALS: Final = 40  # synthetic questions
EACH: Final = 20  # paths of a kind that a question's gate is tried on
BUDGET: Final = 48
GATES: Final = ("ddc", "ddc-no-trend", "deepconf-low", "deepconf-high")
MODES: Final = ("stochastic", "decaying", "self-reinforcing")
MIXES: Final = {"errors differ": (0.5, 12), "errors agree, fewer": (0.6, 1), "errors agree, more": (0.4, 1)}
"""The share of sound paths, all right, and how many wrong answers the others spread over."""


def run(inputs: Inputs) -> ExperimentResult:
    """Synthetic paths first; then what the gates do to right paths of the pools."""
    clock = Clock()
    refuse_bad_settings(inputs.settings)
    window = inputs.settings.window or WINDOW
    tables, figures = _synthetic(window, inputs.settings.seed)
    seen: list[PoolResults[Counter[str]]] = []
    if inputs.sources:
        names = inputs.settings.strategies or GATES
        s = inputs.settings
        seen = over_pools(inputs, lambda pool: Prune(names, pool.window, s.repeats, s.seed, s.paths))
        table, figure = _real(seen, names)
        tables.append(table)
        figures.append(figure)
    title = "Failure modes: what pruning catches, and what it costs"
    return finish("failure-modes", title, inputs, clock, tables=tables, figures=figures, notes=NOTES, seen=seen)


NOTES: Final = (
    *(f"{kind}: {says}" for kind, says in SAYS.items()),
    "the paper expects stochastic paths to be pruned for their instability; R is a function of lag-1 autocorrelation, "
    "largest at 2/3 and small for white noise, so noise without memory looks stable to it",
)


def _synthetic(window: int, seed: int) -> tuple[list[Table], list[Figure]]:
    fates = {kind: Counter[str]() for kind in KINDS}
    for trial in range(TRIALS):
        rng = np.random.default_rng((seed, trial))
        gate = resolve("ddc").calibrate([path("sound", "a", rng).windows(window) for _ in range(16)])
        trend = replace(gate, drop=-inf)  # the third tier alone
        for kind, counts in fates.items():
            for _ in range(EACH):
                windows = path(kind, "a", rng).windows(window)
                closed = gate.first_closed(windows)
                counts["trend"] += trend.first_closed(windows) is not None
                counts["kept" if closed is None else closed.tier] += 1
                counts["tokens"] += windows.tokens if closed is None else closed.tokens
    n = TRIALS * EACH
    rows: list[list[Cell]] = [
        [kind, n, c[Tier.DROP] / n, c[Tier.RISK] / n, c["kept"] / n, c["trend"] / n, c["tokens"] / n]
        for kind, c in fates.items()
    ]
    columns = [
        ResultColumn("path"),
        ResultColumn("paths", "count"),
        ResultColumn("pruned: drop", "percent", "%"),
        ResultColumn("pruned: risk", "percent", "%"),
        ResultColumn("kept", "percent", "%"),
        ResultColumn("the trend alone would prune", "percent", "%"),
        ResultColumn("tokens", "count", "a path"),
    ]
    note = f"the gate is calibrated on 16 sound paths, window {window}; {TRIALS} gates, {EACH} paths of each kind"
    table = Table("synthetic", "What becomes of a path, by kind", columns, rows, [note])
    series = [
        Series(name, list(KINDS), [fates[kind][key] / n for kind in KINDS])
        for name, key in (("pruned: drop", Tier.DROP), ("pruned: risk", Tier.RISK))
    ]
    y = Axis("paths, %", percent=True)
    figure = Figure("synthetic", "Synthetic paths pruned, by tier", "bar", Axis("", "category"), y, series)
    return [table, _votes(window, seed)], [figure]


def _votes(window: int, seed: int) -> Table:
    """Whole questions: sound paths that are right, hallucinations that are wrong, and who wins."""
    names = ("sc", "ddc", "ddc-no-depth")
    rows: list[list[Cell]] = []
    for mode in MODES:
        for mix, (share, answers) in MIXES.items():
            won: Counter[str] = Counter()
            tokens: Counter[str] = Counter()
            for trial in range(TRIALS):
                paths = _question(mode, share, answers, np.random.default_rng((seed, 7, trial)))
                for name in names:
                    out = replay(paths, resolve(name), RunOptions(paths=BUDGET, window=window))
                    won[name] += out.answer == "right"
                    tokens[name] += out.tokens.total
            cells: list[Cell] = [mode, mix]
            for name in names:
                cells += [won[name] / TRIALS, tokens[name] / TRIALS]
            rows.append(cells)
    columns = [ResultColumn("hallucination"), ResultColumn("assumption 3")]
    for name in names:
        columns += [
            ResultColumn(f"{name}: right", "percent", "%"),
            ResultColumn(f"{name}: tokens", "tokens", "a question"),
        ]
    notes = [
        f"{TRIALS} questions of {BUDGET} paths; right: half of the paths where errors differ, 60% where fewer "
        "agree, 40% where more agree, which breaks the paper's assumption 3"
    ]
    return Table("votes", "The vote's outcome, by kind of hallucination", columns, rows, notes)


def _question(mode: str, share: float, answers: int, rng: np.random.Generator) -> list[RecordedPath]:
    paths = []
    for _ in range(BUDGET):
        right = rng.random() < share
        answer = "right" if right else f"wrong {rng.integers(answers)}"
        paths.append(path("sound" if right else mode, answer, rng))
    return paths


@dataclass(frozen=True, slots=True)
class Prune:
    """The task: warm up each gate on each order, then try it on all later paths."""

    names: Sequence[str]
    window: int
    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> Counter[str]:
        """Paths by gate, rightness and tier."""
        counts: Counter[str] = Counter()
        if judged.right is None:
            return counts
        for repeat in range(self.repeats):
            rng = np.random.default_rng((self.seed, repeat, crc32(question.id.encode())))
            order = [question.paths[i] for i in rng.permutation(len(question.paths))[: self.budget]]
            for name in self.names:
                self._try(name, order, judged.right, counts)
        return counts

    def _try(self, name: str, order: list[RecordedPath], right: dict[str, bool], counts: Counter[str]) -> None:
        strategy = resolve(name)
        gate = strategy.calibrate([one.windows(self.window) for one in order[: strategy.warmup]])
        for one in order[strategy.warmup :]:
            side = "right" if one.answer is not None and right[one.answer] else "wrong"
            closed = gate.first_closed(one.windows(self.window))
            counts[f"{name} {side}"] += 1
            if closed is not None:
                counts[f"{name} {side} {closed.tier}"] += 1
                counts[f"{name} spared"] += one.tokens - closed.tokens
            counts[f"{name} tokens"] += one.tokens


def _real(seen: Sequence[PoolResults[Counter[str]]], names: Sequence[str]) -> tuple[Table, Figure]:
    rows: list[list[Cell]] = []
    shares: dict[str, dict[str, float]] = {}
    several = len({one.opened.source.model for one in seen}) > 1
    for one in seen:
        place = one.opened.source.label if several else one.opened.source.dataset
        counts = sum(one.values, Counter[str]())
        for name in names:
            cells: list[Cell] = [one.opened.source.dataset, one.opened.source.model, name]
            for side in ("right", "wrong"):
                n = counts[f"{name} {side}"]
                tiers = [counts[f"{name} {side} {tier}"] / n if n else None for tier in Tier]
                pruned = sum(tier or 0.0 for tier in tiers)
                cells += [n, *tiers, pruned]
                shares.setdefault(f"{name}, {side}", {})[place] = pruned
            rows.append([*cells, counts[f"{name} spared"] / max(1, counts[f"{name} tokens"])])
    columns = [ResultColumn("dataset"), ResultColumn("model"), ResultColumn("gate of")]
    for side in ("right", "wrong"):
        columns += [
            ResultColumn(f"{side} paths", "count"),
            ResultColumn(f"{side}: drop", "percent", "%"),
            ResultColumn(f"{side}: risk", "percent", "%"),
            ResultColumn(f"{side} paths pruned", "percent", "%"),
        ]
    columns.append(ResultColumn("tokens spared", "percent", "%"))
    notes = [
        "every path after the warm-up, all repeats together, as if the run never stopped; wrong: a wrong answer or none"
    ]
    table = Table("real", "Right and wrong paths pruned on recorded pools", columns, rows, notes)
    series = [
        Series(name, list(by), list(by.values())) for name, by in shares.items() if name.startswith(names[0] + ",")
    ]
    title = f"Paths pruned by the gate of {names[0]}"
    return table, Figure("real", title, "bar", Axis("", "category"), Axis("paths pruned, %", percent=True), [*series])


EXPERIMENT: Final = Experiment(
    "failure-modes", "synthetic hallucinations, and right paths pruned (proposition B.2)", run
)
