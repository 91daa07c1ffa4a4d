"""The paper's proposition B.2 tested: which hallucinations the gate prunes, how that changes the vote, and how many
right paths it prunes on real pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from sureenough.bench.experiments import synthetic_runs
from sureenough.bench.experiments.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.experiments.figures import CATEGORIES
from sureenough.bench.experiments.synthetic import DESCRIPTIONS
from sureenough.bench.experiments.table_settings import pool_windows, settings_note
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.result import Axis, Cell, Figure, ResultColumn, Series, Table
from sureenough.bench.summaries import in_order
from sureenough.core.events import Tier
from sureenough.pools import Question, scan_together
from sureenough.spec import resolve

WINDOW: Final = 64
GATES: Final = ("ddc", "ddc-no-trend", "deepconf-low", "deepconf-high")


def _measure(inputs: Inputs) -> Findings:
    """Synthetic paths first; then what the gates do to right paths of the pools."""
    window, seed = inputs.options.window or WINDOW, inputs.options.seed
    table, figure = synthetic_runs.fates(window, seed)
    tables, figures = [table, *synthetic_runs.votes(window, seed)], [figure]
    pools: list[PoolResults[GateCounts]] = []
    if inputs.sources:
        names = inputs.strategies or GATES
        options, repeats = inputs.options, inputs.settings.repeats
        pools = over_pools(inputs, lambda pool: ReadGates(names, pool.window, repeats, options.seed, options.paths))
        table, figure = _real(pools, names, inputs)
        tables.append(table)
        figures.append(figure)
    return Findings(tables, figures, NOTES, [one.opened for one in pools])


NOTES: Final = (
    *(f"{kind}: {description}" for kind, description in DESCRIPTIONS.items()),
    "the paper expects stochastic paths to be pruned for their instability; R is a function of lag-1 autocorrelation, "
    "largest at 2/3 and small for white noise, so noise without memory looks stable to it",
)


class PathGroup(NamedTuple):
    """Paths that a gate treated alike."""

    gate: str
    right: bool  # not if its answer is wrong, or if it has none
    tier: Tier | None  # that closed; None: none did


class GateCounts(NamedTuple):
    """Sums over paths, repeats and questions."""

    paths: Counter[PathGroup]
    tokens: Counter[str]  # by gate
    saved: Counter[str]

    def share(self, gate: str, right: bool, tiers: Iterable[Tier] = tuple(Tier)) -> float | None:
        """Of the right paths, or of the others, how many these tiers prune."""
        every = self.number(gate, right)
        pruned = sum(self.paths[PathGroup(gate, right, tier)] for tier in tiers)
        return pruned / every if every else None

    def number(self, gate: str, right: bool) -> int:
        return sum(self.paths[PathGroup(gate, right, tier)] for tier in (None, *Tier))

    def saving(self, gate: str) -> float:
        """The share of tokens that are not generated."""
        return self.saved[gate] / max(1, self.tokens[gate])


@dataclass(frozen=True, slots=True)
class ReadGates:
    """The pipeline's task: calibrate each gate on each order, then show it all later paths."""

    gates: Sequence[str]  # strategies
    window: int
    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> GateCounts:
        counts = GateCounts(Counter(), Counter(), Counter())
        if judged.right is None:
            return counts
        scan_together(question.paths, self.window)
        for repeat in range(self.repeats):
            order = in_order(question, repeat, self.seed, self.budget)
            for name in self.gates:
                strategy = resolve(name)
                gate = strategy.calibrate([path.windows(self.window) for path in order[: strategy.warmup]])
                for path in order[strategy.warmup :]:
                    closed = gate.first_closed(path.windows(self.window))
                    right = path.answer is not None and judged.right[path.answer]
                    counts.paths[PathGroup(name, right, closed and closed.tier)] += 1
                    counts.tokens[name] += path.tokens
                    counts.saved[name] += path.tokens - closed.tokens if closed else 0
        return counts


def joined_counts(values: Iterable[GateCounts]) -> GateCounts:
    """Of all questions."""
    total = GateCounts(Counter(), Counter(), Counter())
    for value in values:
        total.paths.update(value.paths)
        total.tokens.update(value.tokens)
        total.saved.update(value.saved)
    return total


def _real(pools: Sequence[PoolResults[GateCounts]], names: Sequence[str], inputs: Inputs) -> tuple[Table, Figure]:
    rows: list[list[Cell]] = []
    shares: dict[str, dict[str, float]] = {}
    several = len({one.opened.source.model for one in pools}) > 1
    for one in pools:
        place = one.opened.source.label if several else one.opened.source.dataset
        counts = joined_counts(one.values)
        for name in names:
            cells: list[Cell] = [one.opened.source.dataset, one.opened.source.model, name]
            for side, right in (("right", True), ("wrong", False)):
                pruned = counts.share(name, right) or 0.0
                cells += [counts.number(name, right), *(counts.share(name, right, [tier]) for tier in Tier), pruned]
                shares.setdefault(f"{name}, {side}", {})[place] = pruned
            rows.append([*cells, counts.saving(name)])
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
        "every path after the warm-up, in all repeats, as if the run never stopped; wrong: a wrong answer or none",
        settings_note(
            window=pool_windows(one.opened for one in pools),
            budget=f"{inputs.options.paths or 'all recorded'} paths",
            repeats=f"{inputs.settings.repeats}, seed {inputs.options.seed}",
        ),
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
