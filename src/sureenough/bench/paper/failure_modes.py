"""The paper's proposition B.2 tested: which hallucinations the gate prunes, how that changes the vote, and how many
right paths it prunes on real pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.columns import VARIED, measure, pool_windows, settings_note
from sureenough.bench.paper.experiment import Experiment, Findings, Inputs, over_pools
from sureenough.bench.paper.figures import CATEGORIES
from sureenough.bench.pipeline import PoolResults
from sureenough.bench.replay import in_order
from sureenough.bench.result import Axis, Cell, Figure, Measure, ResultColumn, Series, Table
from sureenough.bench.score import intervals
from sureenough.core.confidence import Floats
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Tier, no_gate
from sureenough.core.stop_rules import never
from sureenough.core.strategy import Strategy
from sureenough.core.weights import by_count
from sureenough.drivers import replay
from sureenough.pools import Question, RecordedPath, scan_together
from sureenough.spec import resolve

TOKENS: Final = 400
LEVEL: Final = 12.0
SPREAD: Final = 4.0
MEMORY: Final = 0.35
"""Mean, spread and lag-1 autocorrelation of conf, close to those of real paths."""

Shape = Callable[[np.random.Generator, int], Floats]
"""So many paths, one per row."""


def _autocorrelated(rng: np.random.Generator, paths: int, memory: float = MEMORY, spread: float = SPREAD) -> Floats:
    values = rng.normal(0.0, spread * np.sqrt(1.0 - memory * memory), (paths, TOKENS))
    last = rng.normal(0.0, spread, paths)
    for i in range(TOKENS):
        last = values[:, i] = memory * last + values[:, i]
    return values


_ALONG: Final = np.linspace(0.0, 1.0, TOKENS)

KINDS: Final[dict[str, Shape]] = {
    "sound": lambda rng, n: LEVEL + _autocorrelated(rng, n),
    "sound, with a dip": lambda rng, n: LEVEL - 5.0 * np.exp(-(((_ALONG - 0.5) / 0.12) ** 2)) + _autocorrelated(rng, n),
    "stochastic": lambda rng, n: LEVEL + rng.normal(0.0, SPREAD, (n, TOKENS)),
    "decaying": lambda rng, n: LEVEL - 6.0 * _ALONG + _autocorrelated(rng, n),
    "self-reinforcing": lambda rng, n: LEVEL + 4.0 * _ALONG + _autocorrelated(rng, n, spread=SPREAD / 2),
}
"""Sound paths vary around a level; hallucinations are noise without memory, fall, or become ever more confident."""

DESCRIPTIONS: Final = {
    "sound": "varies around a level",
    "sound, with a dip": "confidence dips in the middle and recovers: the paper means to keep it",
    "stochastic": "same level and spread, no memory from token to token",
    "decaying": "falls steadily by half",
    "self-reinforcing": "becomes ever more confident, with less noise",
}


def synthetic_paths(kind: str, answers: Sequence[str], rng: np.random.Generator) -> list[RecordedPath]:
    """Paths of a kind, one per answer; their peak is a function of their conf."""
    conf = np.maximum(0.0, KINDS[kind](rng, len(answers)))
    peak = 1.0 / (1.0 + np.exp(-(conf - 6.0) / 3.0))
    return [RecordedPath(*path) for path in zip(answers, peak, conf, strict=True)]


GATES: Final = 100
EACH: Final = 20  # paths of each kind per gate
QUESTIONS: Final = 400
BUDGET: Final = 48
MODES: Final = ("stochastic", "decaying", "self-reinforcing")
MIXES: Final = {"errors differ": (0.5, 12), "errors agree, fewer": (0.6, 1), "errors agree, more": (0.4, 1)}
"""The share of sound paths, all right, and how many wrong answers the others spread over."""
MAJORITY: Final = "errors agree, fewer"


class Scheme(NamedTuple):
    """A way to vote: which of DDC's parts are in it."""

    label: str
    pruned: str
    stop: str
    weights: str
    strategy: Strategy
    budget: int = BUDGET


def schemes() -> list[Scheme]:
    """From 16 counted votes to the whole of DDC, one part at a time."""
    ddc = resolve("ddc")
    free = replace(ddc, calibrate=no_gate, stop=never)
    unstopped = replace(ddc, stop=never)
    return [
        Scheme("16 votes", "no", "no", "1 per path", resolve("sc"), ddc.warmup),
        Scheme("16 votes, weighted", "no", "no", "C_path raw", free, ddc.warmup),
        Scheme("sc", "no", "no", "1 per path", resolve("sc")),
        Scheme("weighted", "no", "no", "C_path raw", free),
        Scheme("pruned", "yes", "no", "1 per path", replace(unstopped, weigh=by_count)),
        Scheme("ddc-no-width", "yes", "no", "C_path raw", unstopped),
        Scheme("ddc-no-depth", "no", "yes", "C_path raw", resolve("ddc-no-depth")),
        Scheme("ddc", "yes", "yes", "C_path raw", ddc),
        Scheme("ddc:weight=mean", "yes", "yes", "C_path mean", resolve("ddc:weight=mean")),
    ]


IN_VOTES: Final = ("sc", "ddc", "ddc-no-depth")


def share(values: Floats, seed: int) -> Measure:
    """The mean of values by gate or question, with its 95% interval."""
    return measure(float(values.mean()), intervals(values.reshape(-1, 1), seed)[0])


def fates(window: int, seed: int) -> tuple[Table, Figure]:
    """What a gate that was calibrated on sound paths does to paths of each kind."""
    shares: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for trial in range(GATES):
        rng = np.random.default_rng((seed, trial))
        warmup = synthetic_paths("sound", ["a"] * 16, rng)
        scan_together(warmup, window)
        gate = resolve("ddc").calibrate([path.windows(window) for path in warmup])
        trend = replace(gate, drop=-inf)  # the third tier alone
        for kind, of_kind in shares.items():
            paths = synthetic_paths(kind, ["a"] * EACH, rng)
            scan_together(paths, window)
            windows = [path.windows(window) for path in paths]
            closed = [gate.first_closed(one) for one in windows]
            tiers = [None if one is None else one.tier for one in closed]
            tokens = [p.tokens if one is None else one.tokens for p, one in zip(windows, closed, strict=True)]
            by_trend = sum(trend.first_closed(one) is not None for one in windows)
            counts = [*(tiers.count(tier) for tier in (Tier.DROP, Tier.RISK, None)), by_trend, sum(tokens)]
            of_kind.append([count / EACH for count in counts])
    means = {kind: [share(column, seed) for column in np.array(gates).T] for kind, gates in shares.items()}
    rows: list[list[Cell]] = [[kind, GATES * EACH, *cells[:4], cells[4].value] for kind, cells in means.items()]
    columns = [
        ResultColumn("path"),
        ResultColumn("paths", "count"),
        *(ResultColumn(title, "percent", "%") for title in
          ("pruned: drop", "pruned: risk", "kept", "the trend alone would prune")),
        ResultColumn("tokens", "count", "per path"),
    ]  # fmt: skip
    notes = [
        f"each gate is calibrated on 16 sound paths and tests {EACH} paths of each kind; intervals resample gates",
        settings_note(window=window, budget="16 + 20 paths per gate", repeats=f"{GATES} gates, seed {seed}"),
    ]
    series = [
        Series(name, list(KINDS), [means[kind][place].value for kind in KINDS])
        for place, name in enumerate(("pruned: drop", "pruned: risk"))
    ]
    y = Axis("paths, %", percent=True)
    figure = Figure("synthetic", "Synthetic paths pruned, by tier", "bar", CATEGORIES, y, series)
    return Table("synthetic", "Paths pruned and kept, by kind", columns, rows, notes), figure


class Votes(NamedTuple):
    """A scheme on all questions of one kind and mix."""

    right: Floats
    tokens: float

    def cells(self, seed: int) -> list[Cell]:
        return [share(self.right, seed), self.tokens]


def votes(window: int, seed: int) -> list[Table]:
    """How often the vote is right, if sound paths are right and hallucinations are wrong; by kind, and by part."""
    every = schemes()
    in_votes = [scheme for scheme in every if scheme.label in IN_VOTES]
    rows: list[list[Cell]] = []
    parts: list[list[Cell]] = []
    for mode in MODES:
        for mix in MIXES:
            results = _outcomes(mode, mix, every if mix == MAJORITY else in_votes, window, seed)
            rows.append([mode, mix, *(cell for one in IN_VOTES for cell in results[one].cells(seed))])
            if mix == MAJORITY:
                for one in every:
                    settings: list[Cell] = [mode, one.label, one.budget, one.pruned, one.stop, one.weights]
                    parts.append([*settings, *results[one.label].cells(seed)])
    return [_votes_table(rows, window, seed), _parts_table(parts, window, seed)]


def _outcomes(mode: str, mix: str, chosen: Sequence[Scheme], window: int, seed: int) -> dict[str, Votes]:
    right, tokens = np.empty((len(chosen), QUESTIONS)), np.empty((len(chosen), QUESTIONS))
    for trial in range(QUESTIONS):
        paths = _question(mode, *MIXES[mix], np.random.default_rng((seed, 7, trial)))
        scan_together(paths, window)
        for place, scheme in enumerate(chosen):
            out = replay(paths, scheme.strategy, RunOptions(paths=scheme.budget, window=window))
            right[place, trial], tokens[place, trial] = out.answer == "right", out.tokens.total
    return {scheme.label: Votes(right[place], float(tokens[place].mean())) for place, scheme in enumerate(chosen)}


def _question(mode: str, sound: float, answers: int, rng: np.random.Generator) -> list[RecordedPath]:
    """Sound paths are right, and come in random order among the others."""
    right = rng.random(BUDGET) < sound
    wrong = [f"wrong {number}" for number in rng.integers(answers, size=BUDGET)]
    every = {
        True: iter(synthetic_paths("sound", ["right"] * int(right.sum()), rng)),
        False: iter(synthetic_paths(mode, [wrong[i] for i in np.flatnonzero(~right)], rng)),
    }
    return [next(every[bool(one)]) for one in right]


def _votes_table(rows: list[list[Cell]], window: int, seed: int) -> Table:
    columns = [ResultColumn("hallucination"), ResultColumn("assumption 3")]
    for name in IN_VOTES:
        columns += [
            ResultColumn(f"{name}: right", "percent", "%"),
            ResultColumn(f"{name}: tokens", "tokens", "per question"),
        ]
    notes = [
        "right paths: half of them if errors differ, 60% if fewer agree, 40% if more agree, which breaks the paper's "
        "assumption 3; intervals resample questions",
        settings_note(window=window, budget=f"{BUDGET} paths", repeats=f"{QUESTIONS} questions, seed {seed}",
                      weights="C_path raw (sc: 1 per path)"),
    ]  # fmt: skip
    return Table("votes", "The vote's outcome, by kind of hallucination", columns, rows, notes)


def _parts_table(rows: list[list[Cell]], window: int, seed: int) -> Table:
    columns = [
        ResultColumn("hallucination"),
        ResultColumn("votes"),
        ResultColumn("budget", "count", "paths"),
        ResultColumn("prunes"),
        ResultColumn("stops early"),
        ResultColumn("weights"),
        ResultColumn("right", "percent", "%"),
        ResultColumn("tokens", "tokens", "per question"),
    ]
    notes = [
        "which part of DDC decides the vote if 60% of the paths are right and the others agree on one wrong answer: "
        "the same questions in every row of a kind; intervals resample questions",
        settings_note(window=window, budget=VARIED, repeats=f"{QUESTIONS} questions, seed {seed}", weights=VARIED),
    ]
    return Table("parts", "The same votes, one part of DDC at a time", columns, rows, notes)


# -- the experiment

WINDOW: Final = 64
STRATEGIES: Final = ("ddc", "ddc-no-trend", "deepconf-low", "deepconf-high")


def _measure(inputs: Inputs) -> Findings:
    """Synthetic paths first; then what the gates do to right paths of the pools."""
    window, seed = inputs.options.window or WINDOW, inputs.options.seed
    table, figure = fates(window, seed)
    tables, figures = [table, *votes(window, seed)], [figure]
    pools: list[PoolResults[GateCounts]] = []
    if inputs.sources:
        names = inputs.strategies or STRATEGIES
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
