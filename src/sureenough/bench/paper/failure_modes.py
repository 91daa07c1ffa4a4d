"""The paper's proposition B.2 tested: which hallucinations the gate prunes, how that changes the vote, and how many
right paths it prunes on real pools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.experiment import Experiment, Found, Inputs, over_pools
from sureenough.bench.judging import JudgedAnswers
from sureenough.bench.paper.shared import CATEGORIES, VARIED, pool_windows, resampled, settings_note, source_names
from sureenough.bench.replay import in_order
from sureenough.bench.result import Axis, Figure, Series
from sureenough.bench.tables import Cell, Table, columns
from sureenough.core.confidence import Floats, Windows
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Gate, Tier, no_gate
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
    parts: tuple[str, str, str]  # whether it prunes, whether it stops early, and how votes weigh
    strategy: Strategy
    budget: int = BUDGET


def schemes() -> list[Scheme]:
    """From 16 counted votes to the whole of DDC, one part at a time."""
    ddc, sc = resolve("ddc"), resolve("sc")
    free = replace(ddc, calibrate=no_gate, stop=never)
    unstopped = replace(ddc, stop=never)
    count, raw = "1 per path", "C_path raw"
    return [
        Scheme("16 votes", ("no", "no", count), sc, ddc.warmup),
        Scheme("16 votes, weighted", ("no", "no", raw), free, ddc.warmup),
        Scheme("sc", ("no", "no", count), sc),
        Scheme("weighted", ("no", "no", raw), free),
        Scheme("pruned", ("yes", "no", count), replace(unstopped, weigh=by_count)),
        Scheme("ddc-no-width", ("yes", "no", raw), unstopped),
        Scheme("ddc-no-depth", ("no", "yes", raw), resolve("ddc-no-depth")),
        Scheme("ddc", ("yes", "yes", raw), ddc),
        Scheme("ddc:weight=mean", ("yes", "yes", "C_path mean"), resolve("ddc:weight=mean")),
    ]


IN_VOTES: Final = ("sc", "ddc", "ddc-no-depth")


FATES: Final = ("pruned: drop", "pruned: risk", "kept", "the trend alone would prune", "tokens")


def fates(window: int, seed: int) -> Iterator[Found]:
    """What a gate that was calibrated on sound paths does to paths of each kind."""
    shares: dict[str, list[list[float]]] = {kind: [] for kind in KINDS}
    for trial in range(GATES):
        rng = np.random.default_rng((seed, trial))
        gate = resolve("ddc").calibrate(_windows(synthetic_paths("sound", ["a"] * 16, rng), window))
        trend = replace(gate, drop=-inf)  # the third tier alone
        for kind, of_kind in shares.items():
            windows = _windows(synthetic_paths(kind, ["a"] * EACH, rng), window)
            counts = sum((shown_to(gate, one) for one in windows), Counter[str]())
            by_trend = sum(trend.first_closed(one) is not None for one in windows)
            sums = [counts[Tier.DROP], counts[Tier.RISK], counts["kept"], by_trend, counts["tokens"] - counts["saved"]]
            of_kind.append([count / EACH for count in sums])
    means = {kind: [resampled(column, seed) for column in np.array(gates).T] for kind, gates in shares.items()}
    rows: list[list[Cell]] = [[kind, GATES * EACH, *cells[:4], cells[4].value] for kind, cells in means.items()]
    shown = [
        *columns("text", "path"),
        *columns("count", "paths"),
        *columns("percent", *FATES[:4]),
        *columns("count", FATES[4], unit="per path"),
    ]
    notes = [
        f"each gate is calibrated on 16 sound paths and tests {EACH} paths of each kind; intervals resample gates",
        settings_note(window=window, budget="16 + 20 paths per gate", repeats=f"{GATES} gates, seed {seed}"),
    ]
    yield Table("synthetic", "Paths pruned and kept, by kind", shown, rows, notes)
    series = [Series(FATES[n], list(KINDS), [cells[n].value for cells in means.values()]) for n in (0, 1)]
    y = Axis("paths, %", percent=True)
    yield Figure("synthetic", "Synthetic paths pruned, by tier", "bar", CATEGORIES, y, series)


def _windows(paths: Sequence[RecordedPath], window: int) -> list[Windows]:
    scan_together(paths, window)
    return [path.windows(window) for path in paths]


def shown_to(gate: Gate, windows: Windows) -> Counter[str]:
    """What a gate does to a path: the tier that closes, or "kept"; its tokens, and those that are saved."""
    closed = gate.first_closed(windows)
    saved = windows.tokens - closed.tokens if closed else 0
    return Counter({str(closed.tier) if closed else "kept": 1, "tokens": windows.tokens, "saved": saved})


def votes(window: int, seed: int) -> Iterator[Found]:
    """How often the vote is right, if sound paths are right and hallucinations are wrong; by kind, and by part."""
    every = schemes()
    in_votes = [scheme for scheme in every if scheme.label in IN_VOTES]
    rows: list[list[Cell]] = []
    parts: list[list[Cell]] = []
    for mode in MODES:
        for mix in MIXES:
            results = _outcomes(mode, mix, every if mix == MAJORITY else in_votes, window, seed)
            rows.append([mode, mix, *(cell for name in IN_VOTES for cell in results[name])])
            if mix == MAJORITY:
                parts += [[mode, one.label, one.budget, *one.parts, *results[one.label]] for one in every]
    each = [column for name in IN_VOTES
            for column in (*columns("percent", f"{name}: right"), *columns("tokens", f"{name}: tokens"))]  # fmt: skip
    repeats = f"{QUESTIONS} questions, seed {seed}"
    notes = [
        "right paths: half of them if errors differ, 60% if fewer agree, 40% if more agree, which breaks the paper's "
        "assumption 3; intervals resample questions",
        settings_note(window=window, budget=f"{BUDGET} paths", repeats=repeats, weights="C_path raw (sc: 1 per path)"),
    ]
    title = "The vote's outcome, by kind of hallucination"
    yield Table("votes", title, [*columns("text", "hallucination", "assumption 3"), *each], rows, notes)
    shown = [
        *columns("text", "hallucination", "votes"),
        *columns("count", "budget", unit="paths"),
        *columns("text", "prunes", "stops early", "weights"),
        *columns("percent", "right"),
        *columns("tokens", "tokens"),
    ]
    notes = [
        "which part of DDC decides the vote if 60% of the paths are right and the others agree on one wrong answer: "
        "the same questions in every row of a kind; intervals resample questions",
        settings_note(window=window, budget=VARIED, repeats=repeats, weights=VARIED),
    ]
    yield Table("parts", "The same votes, one part of DDC at a time", shown, parts, notes)


def _outcomes(mode: str, mix: str, chosen: Sequence[Scheme], window: int, seed: int) -> dict[str, tuple[Cell, Cell]]:
    """By scheme, how often it is right, and its tokens per question."""
    right, tokens = np.empty((len(chosen), QUESTIONS)), np.empty((len(chosen), QUESTIONS))
    for trial in range(QUESTIONS):
        paths = _question(mode, *MIXES[mix], np.random.default_rng((seed, 7, trial)))
        scan_together(paths, window)
        for place, scheme in enumerate(chosen):
            out = replay(paths, scheme.strategy, RunOptions(paths=scheme.budget, window=window))
            right[place, trial], tokens[place, trial] = out.answer == "right", out.tokens.total
    means = tokens.mean(axis=1).tolist()
    return {one.label: (resampled(right[i], seed), means[i]) for i, one in enumerate(chosen)}


def _question(mode: str, sound: float, answers: int, rng: np.random.Generator) -> list[RecordedPath]:
    """Sound paths are right, and come in random order among the others."""
    right = rng.random(BUDGET) < sound
    wrong = [f"wrong {number}" for number in rng.integers(answers, size=BUDGET)]
    every = {
        True: iter(synthetic_paths("sound", ["right"] * int(right.sum()), rng)),
        False: iter(synthetic_paths(mode, [wrong[i] for i in np.flatnonzero(~right)], rng)),
    }
    return [next(every[bool(one)]) for one in right]


# -- the experiment

WINDOW: Final = 64
STRATEGIES: Final = ("ddc", "ddc-no-trend", "deepconf-low", "deepconf-high")


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Synthetic paths first; then what the gates do to right paths of the pools."""
    window, seed = inputs.options.window or WINDOW, inputs.options.seed
    yield from fates(window, seed)
    yield from votes(window, seed)
    if inputs.sources:
        yield from _real(inputs)
    yield from NOTES


NOTES: Final = (
    *(f"{kind}: {description}" for kind, description in DESCRIPTIONS.items()),
    "the paper expects stochastic paths to be pruned for their instability; R is a function of lag-1 autocorrelation, "
    "largest at 2/3 and small for white noise, so noise without memory looks stable to it",
)


Counts = Counter[tuple[str, ...]]
"""Sums over paths, repeats and questions: by gate, "right" or "wrong" (or no answer), and what `shown_to` counts."""


@dataclass(frozen=True, slots=True)
class ReadGates:
    """The pipeline's work: calibrate each gate on each order, then show it all later paths."""

    gates: Sequence[str]  # strategies
    window: int
    repeats: int
    seed: int
    budget: int | None

    def __call__(self, question: Question, judged: JudgedAnswers) -> Counts:
        counts = Counts()
        if judged.right is None:
            return counts
        scan_together(question.paths, self.window)
        for repeat in range(self.repeats):
            order = in_order(question, repeat, self.seed, self.budget)
            for name in self.gates:
                strategy = resolve(name)
                gate = strategy.calibrate(_windows(order[: strategy.warmup], self.window))
                for path in order[strategy.warmup :]:
                    side = "right" if path.answer is not None and judged.right[path.answer] else "wrong"
                    for what, n in shown_to(gate, path.windows(self.window)).items():
                        counts[name, side, what] += n
        return counts


def _real(inputs: Inputs) -> Iterator[Found]:
    names, options, repeats = inputs.strategies or STRATEGIES, inputs.options, inputs.settings.repeats
    pools = over_pools(inputs, lambda pool: ReadGates(names, pool.window, repeats, options.seed, options.paths))
    rows: list[list[Cell]] = []
    drawn: dict[str, list[float | None]] = {"right": [], "wrong": []}  # the first gate's
    for one in pools:
        counts = sum(one.values, Counts())
        for name in names:
            row: list[Cell] = [one.opened.source.dataset, one.opened.source.model, name]
            for side, shares in drawn.items():
                by_tier = [counts[name, side, tier] for tier in Tier]
                pruned, paths = sum(by_tier), sum(by_tier) + counts[name, side, "kept"]
                row += [paths, *(n / paths if paths else None for n in by_tier), pruned / max(1, paths)]
                shares += [pruned / max(1, paths)] if name == names[0] else []
            saved, tokens = (sum(counts[name, side, what] for side in drawn) for what in ("saved", "tokens"))
            rows.append([*row, saved / max(1, tokens)])
    shown = columns("text", "dataset", "model", "gate of")
    for side in drawn:
        shown += columns("count", f"{side} paths")
        shown += columns("percent", f"{side}: drop", f"{side}: risk", f"{side} paths pruned")
    shown += columns("percent", "tokens saved")
    notes = [
        "every path after the warm-up, in all repeats, as if the run never stopped; wrong: a wrong answer or none",
        settings_note(
            window=pool_windows(one.opened for one in pools),
            budget=f"{options.paths or 'all recorded'} paths",
            repeats=f"{repeats}, seed {options.seed}",
        ),
    ]
    yield Table("real", "Right and wrong paths pruned on recorded pools", shown, rows, notes)
    places = source_names([one.opened.source for one in pools])
    series = [Series(f"{names[0]}, {side}", [*places], shares) for side, shares in drawn.items()]
    y = Axis("paths pruned, %", percent=True)
    yield Figure("real", f"Paths pruned by the gate of {names[0]}", "bar", CATEGORIES, y, series)
    yield from (one.opened for one in pools)


EXPERIMENT: Final = Experiment(
    "failure-modes",
    "synthetic hallucinations, and right paths pruned (proposition B.2)",
    _measure,
    reads=("strategies",),
)
