"""Synthetic paths against a gate and in votes: which kinds are pruned, who wins, and which part of DDC decides it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf
from typing import Final, NamedTuple

import numpy as np

from sureenough.bench.experiments.columns import measure
from sureenough.bench.experiments.figures import CATEGORIES
from sureenough.bench.experiments.synthetic import KINDS, synthetic_paths
from sureenough.bench.experiments.table_settings import VARIED, settings_note
from sureenough.bench.result import Axis, Cell, Figure, Measure, ResultColumn, Series, Table
from sureenough.bench.score import intervals
from sureenough.core.confidence.instability import Floats
from sureenough.core.events import Tier
from sureenough.core.options import RunOptions
from sureenough.core.pruning import no_gate
from sureenough.core.stop_rules import never
from sureenough.core.strategy import Strategy
from sureenough.core.weights import by_count
from sureenough.drivers import replay
from sureenough.pools import RecordedPath, scan_together
from sureenough.spec import resolve

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
