"""The paper's appendix C.1: our own code against generation, in time and in floating-point operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from statistics import fmean, median
from typing import Final

import numpy as np

from sureenough.bench.paper.columns import VARIED, settings_note
from sureenough.bench.paper.experiment import Experiment, Findings, Inputs
from sureenough.bench.paper.failure_modes import synthetic_paths
from sureenough.bench.paper.live_tables import live_settings
from sureenough.bench.result import NAMES, Cell, ResultColumn, Table
from sureenough.core.confidence import Monitor
from sureenough.core.poll import Poll
from sureenough.core.pruning import Gate
from sureenough.core.stop_rules import Posterior
from sureenough.core.weights import Ballot, ByConfidence
from sureenough.pools import Pool, RecordedPath
from sureenough.spec import resolve

WINDOWS: Final = (64, 2048)
MODELS: Final = {"Qwen3-1.7B": 1.7e9, "Qwen3-4B": 4e9, "Qwen3-8B": 8e9, "Qwen3-32B": 32e9}
PEAK: Final = 989e12  # FLOP/s, H100 SXM, dense bf16 (NVIDIA's data sheet)
BANDWIDTH: Final = 3.35e12  # bytes/s, the same
PAPER_RATIO: Final = 1.25e-7
PAPER_FLOPS: Final = 4 * 2048  # its 4k operations per token at k = 2048
OPERATIONS: Final = {"push": 17, "peak": 4, "risk": 27, "turn": 11}
"""Floating-point operations per monitored token: its sums, group peak, R, and its part of the block's backward sums."""
FLOPS: Final = sum(OPERATIONS.values())


def _measure(inputs: Inputs) -> Findings:
    """Measured on this machine; generation from live runs if there are any, else from hardware limits."""
    paths = _paths(inputs)
    window = inputs.options.window
    timed = [_timed(paths, size) for size in ([window] if window else WINDOWS)]
    per_token = timed[-1][1]
    return Findings([_ours(timed), _flops(), _against(per_token, timed[-1][0]), *_live(inputs, per_token)], notes=NOTES)


NOTES: Final = (
    "the paper counts 4k operations per token, a fresh covariance at every token; running sums need a constant number, "
    "whatever the window",
    "a ratio of operations says little about Python on a CPU beside a model on an accelerator; seconds say more",
    "timings are medians of processor time on this machine",
)


def _paths(inputs: Inputs) -> list[RecordedPath]:
    """The first question of the first pool, or synthetic paths; all end to end, so that any window fills."""
    if inputs.sources:
        question = next(iter(Pool(inputs.sources[0].pool, skip_damaged=inputs.settings.skip_damaged)))
        paths = [one for one in question.paths if one.tokens]
    else:
        rng = np.random.default_rng(inputs.options.seed)
        paths = synthetic_paths("sound", ["a"] * 32, rng)
    peak = np.concatenate([np.asarray(one.peak) for one in paths])
    conf = np.concatenate([np.asarray(one.conf) for one in paths])
    times = max(1, -(-8192 // max(1, conf.size)))
    return [RecordedPath("a", np.tile(peak, times), np.tile(conf, times))]


def _timed(paths: Sequence[RecordedPath], window: int) -> tuple[int, float, float, float]:
    """The window, seconds per token live and in bulk, and seconds per stop test."""
    one = paths[0]
    tokens = list(zip(np.asarray(one.peak).tolist(), np.asarray(one.conf).tolist(), strict=True))[:16384]
    gate = resolve("ddc").calibrate([RecordedPath("a", one.peak, one.conf).windows(window)])
    gate = Gate(trust=gate.trust, drop=-1e9, risk=1e9)  # every test runs, none closes

    def monitor_live() -> None:
        monitor = Monitor(window)
        for peak, conf in tokens:
            if monitor.push(peak, conf):
                gate.tier(monitor)

    def scan() -> None:
        RecordedPath("a", one.peak, one.conf).windows(window)

    poll = Poll(ByConfidence(), 512)
    for i in range(64):
        poll.add(i, Ballot(i, f"answer {i % 3}", 12.0, 12.0))
    rule = Posterior()
    return (
        window,
        _median_seconds(monitor_live) / len(tokens),
        _median_seconds(scan) / one.tokens,
        _median_seconds(lambda: rule(poll)),
    )


def _median_seconds(work: Callable[[], object]) -> float:
    """Median of seven, each long enough for the clock."""
    began = time.process_time()
    work()
    once = max(time.process_time() - began, 1e-7)
    times = max(1, int(0.02 / once))
    seconds = []
    for _ in range(7):
        began = time.process_time()
        for _ in range(times):
            work()
        seconds.append((time.process_time() - began) / times)
    return median(seconds)


def _ours(timed: Sequence[tuple[int, float, float, float]]) -> Table:
    rows: list[list[Cell]] = [[window, 1e6 * live, 1e9 * bulk, 1e6 * stop] for window, live, bulk, stop in timed]
    columns = [
        ResultColumn("window", "count", "tokens"),
        ResultColumn("monitoring a live token", "number", "µs", 3),
        ResultColumn("scanning a recorded token", "number", "ns", 1),
        ResultColumn("a stop test", "number", "µs", 2),
    ]
    notes = [
        "pure Python, one core; one stop test per path",
        settings_note(
            window=VARIED, repeats="7 (median)", weights="C_path raw", more="; 64 votes before the stop test"
        ),
    ]
    return Table("ours", "What our own code takes", columns, rows, notes)


def _flops() -> Table:
    rows: list[list[Cell]] = []
    for model, size in MODELS.items():
        needs = 2.0 * size
        printed = PAPER_RATIO if model == "Qwen3-32B" else None
        rows.append([model, needs, FLOPS, FLOPS / needs, PAPER_FLOPS / needs, printed])
    columns = [
        ResultColumn("model"),
        ResultColumn("generation", "scientific", "FLOPs per token"),
        ResultColumn("ours", "count", "FLOPs per token"),
        ResultColumn("ratio", "scientific"),
        ResultColumn("ratio with 4k operations", "scientific"),
        ResultColumn("ratio in the paper", "scientific", paper="appendix C.1"),
    ]
    parts = ", ".join(f"{name} {n}" for name, n in OPERATIONS.items())
    notes = [
        f"generation is 2 operations per parameter, as in the paper; ours are counted: {parts}",
        settings_note(window="2048 in the paper's count; ours does not depend on it"),
    ]
    return Table("flops", "Floating-point operations per token", columns, rows, notes)


def _against(seconds: float, window: int) -> Table:
    rows: list[list[Cell]] = []
    for model, size in MODELS.items():
        alone, full = 2.0 * size / BANDWIDTH, 2.0 * size / PEAK
        rows.append([model, 1e6 * alone, seconds / alone, 1e6 * full, seconds / full])
    columns = [
        ResultColumn("model"),
        ResultColumn("one path at a time", "number", "µs per token", 1),
        ResultColumn("our share", "percent", "%", 3),
        ResultColumn("full batch, at peak", "number", "µs per token", 2),
        ResultColumn("our share at peak", "percent", "%", 1),
    ]
    notes = [
        "hardware limits of one H100 in bf16, which no server reaches: alone, every weight is read once per token "
        "(3.35 TB/s); in a full batch, 2 operations per parameter at 989 TFLOP/s. Our time is one Python core's",
        settings_note(window=window, repeats="7 (median)"),
    ]
    return Table("time", "Our time against generation at the hardware's limit", columns, rows, notes)


def _live(inputs: Inputs, seconds: float) -> list[Table]:
    rows: list[list[Cell]] = []
    for key in sorted({(run.dataset, run.model, run.strategy) for run in inputs.live_runs}):
        own = [run for run in inputs.live_runs if (run.dataset, run.model, run.strategy) == key]
        tokens, spent = fmean(run.tokens["total"] for run in own), fmean(run.total_seconds for run in own)
        if tokens and spent:
            rows.append([*key, tokens, spent, 1e6 * spent / tokens, seconds * tokens / spent])
    columns = [
        *NAMES,
        ResultColumn("tokens", "tokens", "per question"),
        ResultColumn("seconds", "seconds", "per question"),
        ResultColumn("generation", "number", "µs per token", 1),
        ResultColumn("our share", "percent", "%", 3),
    ]
    settings = [live_settings(inputs.live_runs)]
    title = "Our time against generation, measured live"
    return [Table("live", title, columns, rows, settings, live=True)] if rows else []


EXPERIMENT: Final = Experiment(
    "overhead",
    "our own code against generation, in time and FLOPs (appendix C.1)",
    "Overhead: our own code against generation",
    _measure,
    "optional",
)
