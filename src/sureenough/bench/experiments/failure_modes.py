"""The paper's proposition B.2 tested: which hallucinations the gate prunes, how that changes the vote, and how many
right paths it prunes on real pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final

import numpy as np

from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.figures import CATEGORIES
from sureenough.bench.experiments.synthetic import DESCRIPTIONS, KINDS, synthetic_path
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table
from sureenough.bench.summaries import in_order
from sureenough.core.events import Tier
from sureenough.core.options import RunOptions
from sureenough.drivers import replay
from sureenough.pools import Question, RecordedPath
from sureenough.spec import resolve

WINDOW: Final = 64
TRIALS: Final = 40  # synthetic questions
EACH: Final = 20  # paths of each kind per gate
BUDGET: Final = 48
GATES: Final = ("ddc", "ddc-no-trend", "deepconf-low", "deepconf-high")
MODES: Final = ("stochastic", "decaying", "self-reinforcing")
MIXES: Final = {"errors differ": (0.5, 12), "errors agree, fewer": (0.6, 1), "errors agree, more": (0.4, 1)}
"""The share of sound paths, all right, and how many wrong answers the others spread over."""


def _measure(inputs: Inputs) -> Findings:
    """Synthetic paths first; then what the gates do to right paths of the pools."""
    tables, figures = _synthetic(inputs.options.window or WINDOW, inputs.options.seed)
    pools: list[PoolResults[Counter[str]]] = []
    if inputs.sources:
        names = inputs.strategies or GATES
        options, repeats = inputs.options, inputs.settings.repeats
        pools = over_pools(inputs, lambda pool: Prune(names, pool.window, repeats, options.seed, options.paths))
        table, figure = _real(pools, names)
        tables.append(table)
        figures.append(figure)
    return Findings(tables, figures, NOTES, [one.opened for one in pools])


NOTES: Final = (
    *(f"{kind}: {description}" for kind, description in DESCRIPTIONS.items()),
    "the paper expects stochastic paths to be pruned for their instability; R is a function of lag-1 autocorrelation, "
    "largest at 2/3 and small for white noise, so noise without memory looks stable to it",
)


def _synthetic(window: int, seed: int) -> tuple[list[Table], list[Figure]]:
    fates = {kind: Counter[str]() for kind in KINDS}
    for trial in range(TRIALS):
        rng = np.random.default_rng((seed, trial))
        gate = resolve("ddc").calibrate([synthetic_path("sound", "a", rng).windows(window) for _ in range(16)])
        trend = replace(gate, drop=-inf)  # the third tier alone
        for kind, counts in fates.items():
            for _ in range(EACH):
                windows = synthetic_path(kind, "a", rng).windows(window)
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
        ResultColumn("tokens", "count", "per path"),
    ]
    note = f"the gate is calibrated on 16 sound paths, window {window}; {TRIALS} gates, {EACH} paths of each kind"
    table = Table("synthetic", "Paths pruned and kept, by kind", columns, rows, [note])
    series = [
        Series(name, list(KINDS), [fates[kind][key] / n for kind in KINDS])
        for name, key in (("pruned: drop", Tier.DROP), ("pruned: risk", Tier.RISK))
    ]
    y = Axis("paths, %", percent=True)
    figure = Figure("synthetic", "Synthetic paths pruned, by tier", "bar", CATEGORIES, y, series)
    return [table, _votes(window, seed)], [figure]


def _votes(window: int, seed: int) -> Table:
    """How often the vote is right, if sound paths are right and hallucinations are wrong."""
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
            ResultColumn(f"{name}: tokens", "tokens", "per question"),
        ]
    notes = [
        f"{TRIALS} questions of {BUDGET} paths; right: half of the paths if errors differ, 60% if fewer "
        "agree, 40% if more agree, which breaks the paper's assumption 3"
    ]
    return Table("votes", "The vote's outcome, by kind of hallucination", columns, rows, notes)


def _question(mode: str, share: float, answers: int, rng: np.random.Generator) -> list[RecordedPath]:
    paths = []
    for _ in range(BUDGET):
        right = rng.random() < share
        answer = "right" if right else f"wrong {rng.integers(answers)}"
        paths.append(synthetic_path("sound" if right else mode, answer, rng))
    return paths


@dataclass(frozen=True, slots=True)
class Prune:
    """The pipeline's task: warm up each gate on each order, then apply it to all later paths."""

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
            order = in_order(question, repeat, self.seed, self.budget)
            for name in self.names:
                self._count(name, order, judged.right, counts)
        return counts

    def _count(self, name: str, order: list[RecordedPath], right: dict[str, bool], counts: Counter[str]) -> None:
        strategy = resolve(name)
        gate = strategy.calibrate([one.windows(self.window) for one in order[: strategy.warmup]])
        for one in order[strategy.warmup :]:
            side = "right" if one.answer is not None and right[one.answer] else "wrong"
            closed = gate.first_closed(one.windows(self.window))
            counts[f"{name} {side}"] += 1
            if closed is not None:
                counts[f"{name} {side} {closed.tier}"] += 1
                counts[f"{name} saved"] += one.tokens - closed.tokens
            counts[f"{name} tokens"] += one.tokens


def _real(pools: Sequence[PoolResults[Counter[str]]], names: Sequence[str]) -> tuple[Table, Figure]:
    rows: list[list[Cell]] = []
    shares: dict[str, dict[str, float]] = {}
    several = len({one.opened.source.model for one in pools}) > 1
    for one in pools:
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
            rows.append([*cells, counts[f"{name} saved"] / max(1, counts[f"{name} tokens"])])
    columns = [ResultColumn("dataset"), ResultColumn("model"), ResultColumn("gate of")]
    for side in ("right", "wrong"):
        columns += [
            ResultColumn(f"{side} paths", "count"),
            ResultColumn(f"{side}: drop", "percent", "%"),
            ResultColumn(f"{side}: risk", "percent", "%"),
            ResultColumn(f"{side} paths pruned", "percent", "%"),
        ]
    columns.append(ResultColumn("tokens saved", "percent", "%"))
    notes = [
        "every path after the warm-up, all repeats together, as if the run never stopped; wrong: a wrong answer or none"
    ]
    table = Table("real", "Right and wrong paths pruned on recorded pools", columns, rows, notes)
    series = [
        Series(name, list(by), list(by.values())) for name, by in shares.items() if name.startswith(names[0] + ",")
    ]
    title = f"Paths pruned by the gate of {names[0]}"
    return table, Figure("real", title, "bar", CATEGORIES, Axis("paths pruned, %", percent=True), [*series])


EXPERIMENT: Final = Experiment(
    "failure-modes",
    "synthetic hallucinations, and right paths pruned (proposition B.2)",
    "Failure modes: what pruning catches, and what it costs",
    _measure,
    reads=("strategies",),
)
