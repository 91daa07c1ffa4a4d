"""Our own code against generation, in time and in floating-point operations."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from statistics import fmean, median
from typing import Final

import numpy as np

from sureenough.bench.experiment import Experiment, Found, Inputs
from sureenough.bench.paper.failure_modes import synthetic_paths
from sureenough.bench.paper.live import live_settings
from sureenough.bench.paper.shared import VARIED, settings_note
from sureenough.bench.result import grouped
from sureenough.bench.tables import Cell, Column, Table, columns
from sureenough.core.confidence import Monitor, scan
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


def _measure(inputs: Inputs) -> Iterator[Found]:
    """Measured on this machine; generation from live runs if there are any, else from hardware limits."""
    path, window = _path(inputs), inputs.options.window
    timed = [(size, *_seconds(path, size)) for size in ([window] if window else WINDOWS)]
    size, per_token, *_ = timed[-1]
    yield _ours(timed)
    yield _against(per_token, size)
    yield from _live(inputs, per_token)
    yield from NOTES


NOTES: Final = (
    "the paper counts 4k operations per token, a fresh covariance at every token; running sums need a constant number, "
    "whatever the window",
    "a ratio of operations says little about Python on a CPU beside a model on an accelerator; seconds say more",
    "timings are medians of processor time on this machine",
)


def _path(inputs: Inputs) -> RecordedPath:
    """The first question of the first pool, or synthetic paths; all end to end, so that any window fills."""
    if inputs.sources:
        paths = next(iter(Pool(inputs.sources[0].pool, skip_damaged=inputs.settings.skip_damaged))).paths
    else:
        paths = synthetic_paths("sound", ["a"] * 32, np.random.default_rng(inputs.options.seed))
    peak, conf = (np.concatenate([getattr(one, name) for one in paths]) for name in ("peak", "conf"))
    times = -(-8192 // max(1, conf.size))
    return RecordedPath("a", np.tile(peak, times), np.tile(conf, times))


def _seconds(path: RecordedPath, window: int) -> tuple[float, float, float]:
    """Seconds per token, live and in bulk, and per stop test."""
    tokens = list(zip(np.asarray(path.peak).tolist(), np.asarray(path.conf).tolist(), strict=True))[:16384]
    gate = resolve("ddc").calibrate([path.windows(window)])
    gate = Gate(trust=gate.trust, drop=-1e9, risk=1e9)  # every test runs, none closes

    def monitor_live() -> None:
        monitor = Monitor(window)
        for peak, conf in tokens:
            if monitor.push(peak, conf):
                gate.tier(monitor)

    poll, rule = Poll(ByConfidence(), 512), Posterior()
    for i in range(64):
        poll.add(i, Ballot(i, f"answer {i % 3}", 12.0, 12.0))
    return (
        _median_seconds(monitor_live) / len(tokens),
        _median_seconds(lambda: scan(np.asarray(path.peak), np.asarray(path.conf), window)) / path.tokens,
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
    shown = [
        *columns("count", "window", unit="tokens"),
        *columns("number", "monitoring a live token", unit="µs", digits=3),
        *columns("number", "scanning a recorded token", unit="ns", digits=1),
        *columns("number", "a stop test", unit="µs", digits=2),
    ]
    rows: list[list[Cell]] = [[window, 1e6 * live, 1e9 * bulk, 1e6 * stop] for window, live, bulk, stop in timed]
    settings = settings_note(
        window=VARIED, repeats="7 (median)", weights="C_path raw", more="; 64 votes before the stop test"
    )
    return Table(
        "ours", "What our own code takes", shown, rows, ["pure Python, one core; one stop test per path", settings]
    )


def _against(seconds: float, window: int) -> Table:
    shown = [
        Column("model"),
        *columns("scientific", "generation", unit="FLOPs per token"),
        *columns("count", "ours", unit="FLOPs per token"),
        *columns("scientific", "ratio", "ratio with 4k operations"),
        Column("ratio in the paper", "scientific", paper="appendix C.1"),
        *columns("number", "one path at a time", unit="µs per token", digits=1),
        *columns("percent", "our share", digits=3),
        *columns("number", "full batch, at peak", unit="µs per token", digits=2),
        *columns("percent", "our share at peak", digits=1),
    ]
    rows: list[list[Cell]] = []
    for model, size in MODELS.items():
        needs, printed = 2.0 * size, PAPER_RATIO if model == "Qwen3-32B" else None
        alone, full = needs / BANDWIDTH, needs / PEAK
        times = 1e6 * alone, seconds / alone, 1e6 * full, seconds / full
        rows.append([model, needs, FLOPS, FLOPS / needs, PAPER_FLOPS / needs, printed, *times])
    parts = ", ".join(f"{name} {n}" for name, n in OPERATIONS.items())
    notes = [
        f"generation is 2 operations per parameter, as in the paper; ours are counted: {parts}",
        "times are hardware limits of one H100 in bf16, which no server reaches: alone, every weight is read once per "
        "token (3.35 TB/s); in a full batch, 2 operations per parameter at 989 TFLOP/s. Our time is one Python core's",
        settings_note(window=f"{window}; 2048 in the paper's count", repeats="7 (median)"),
    ]
    return Table("flops", "Our work per token against generation", shown, rows, notes)


def _live(inputs: Inputs, seconds: float) -> Iterator[Table]:
    shown = [
        *columns("text", "dataset", "model", "strategy"),
        *columns("tokens", "tokens"),
        *columns("seconds", "seconds", unit="per question"),
        *columns("number", "generation", unit="µs per token", digits=1),
        *columns("percent", "our share", digits=3),
    ]
    rows: list[list[Cell]] = []
    for key, own in sorted(grouped(inputs.live_runs, lambda run: (run.dataset, run.model, run.strategy)).items()):
        tokens, spent = fmean(run.tokens["total"] for run in own), fmean(run.total_seconds for run in own)
        if tokens and spent:
            rows.append([*key, tokens, spent, 1e6 * spent / tokens, seconds * tokens / spent])
    title = "Our time against generation, measured live"
    if rows:
        yield Table("live", title, shown, rows, [live_settings(inputs.live_runs)], live=True)


EXPERIMENT: Final = Experiment(
    "overhead",
    "our own code against generation, in time and FLOPs (appendix C.1)",
    _measure,
    "optional",
)
