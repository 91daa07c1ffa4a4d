"""The backends of the window formulas, called in the same way, and paths and gates to compare them with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sureenough.core.confidence import TIER_NONE, Floats, Monitor, Windows, scan
from sureenough.core.pruning import Closed, Gate
from sureenough.engines.watch.protocol import TIERS
from sureenough.vllm.kernels.batched import (
    RESULT_COLUMNS,
    RESULT_LOWEST,
    RESULT_TAIL,
    RESULT_TIER,
    RESULT_TOTAL_CONF,
    RESULT_TOTAL_PEAK,
    Arrays,
    Ints,
    empty_arrays,
    push_batch,
)
from tests.requirements import require

ETA = 0.5
KINDS = ("noise", "walk", "ramp", "steps", "flat", "cliff", "half", "loop", "tiny", "spike")


def signals_of(kind: str, n: int, seed: int) -> tuple[Floats, Floats]:
    rng = np.random.default_rng(seed)
    peak = rng.random(n)
    conf = {
        "noise": rng.normal(10, 3, n),
        "walk": 10 + np.cumsum(rng.normal(0, 0.1, n)),
        "ramp": np.linspace(20, 1, n),
        "steps": np.round(rng.normal(10, 1, n) * 2) / 2,
        "flat": np.full(n, 0.1),
        "cliff": np.concatenate([np.full(n // 2, 90.0), 10 + 1e-4 * rng.normal(size=n - n // 2)]),
        "half": rng.normal(10, 3, n).astype(np.float16).astype(np.float64),
        "loop": np.resize(np.array([17.0, 17.25, 16.5]), n),
        "tiny": np.resize(np.array([0.0, 1e-200]), n),  # differences too small to square
        "spike": np.where(np.arange(n) == 4, 50.0, 7 + 1e-7 * rng.normal(size=n)),  # sums that lose their digits
    }[kind]
    return peak, conf


class Case(NamedTuple):
    peak: Floats
    conf: Floats
    window: int
    gate: Gate


class Observed(NamedTuple):
    """C_path, tail and the means of peak and conf after every token, and where the gate closed."""

    lowest: list[float]
    tail: list[float]
    means: list[list[float]]
    closed: Closed | None


def by_array(cases: Sequence[Case]) -> list[Observed]:
    known: dict[
        tuple[int, int], tuple[Windows, list[float], list[float], list[list[float]]]
    ] = {}  # cases often share a path
    observed = []
    for peak, conf, window, gate in cases:
        if (id(conf), window) not in known:
            windows = scan(peak, conf, window)
            short = [scan(peak[:n], conf[:n], window) for n in range(1, min(window, len(conf) + 1))]
            full: Floats = windows.conf if windows.watched else np.empty(0)
            lowest = [part.lowest for part in short] + np.minimum.accumulate(full).tolist()
            means = np.cumsum([peak, conf], axis=1) / np.arange(1, len(conf) + 1)
            assert [windows.mean_peak, windows.mean_conf] == means[:, -1].tolist()
            tail = [part.tail for part in short] + full.tolist()
            known[id(conf), window] = windows, lowest, tail, means.T.tolist()
        windows, lowest, tail, by_token = known[id(conf), window]
        observed.append(Observed(lowest, tail, by_token, gate.first_closed(windows)))
    return observed


def by_streaming(cases: Sequence[Case]) -> list[Observed]:
    observed = []
    for peak, conf, window, gate in cases:
        monitor, closed = Monitor(window), None
        lowest, tail, means = [], [], []
        for p, c in zip(peak.tolist(), conf.tolist(), strict=True):
            tier = gate.tier(monitor) if monitor.push(p, c) else None
            closed = closed or (None if tier is None else Closed(monitor.tokens, tier))
            lowest.append(monitor.lowest)
            tail.append(monitor.tail)
            means.append([monitor.mean_peak, monitor.mean_conf])
        observed.append(Observed(lowest, tail, means, closed))
    return observed


Step = Callable[[Ints, Ints, Floats, Floats], Floats]
"""Slots, tokens before, peak, conf -> result columns."""


def by_steps(cases: Sequence[Case], step: Step) -> list[Observed]:
    """All paths together, one token of each at a time."""
    lengths = np.array([len(case.conf) for case in cases])
    results = np.zeros((len(cases), lengths.max(), RESULT_COLUMNS))
    for t in range(lengths.max()):
        slots = np.flatnonzero(lengths > t)
        peak = np.array([cases[slot].peak[t] for slot in slots.tolist()])
        conf = np.array([cases[slot].conf[t] for slot in slots.tolist()])
        results[slots, t] = step(slots, np.full(len(slots), t), peak, conf)
    observed = []
    for rows, n in zip(results, lengths, strict=True):
        tiers = rows[:n, RESULT_TIER]
        first = int((tiers != TIER_NONE).argmax())
        tier = TIERS[tiers[first]]
        closed = None if tier is None else Closed(first + 1, tier)
        means = rows[:n, RESULT_TOTAL_PEAK : RESULT_TOTAL_CONF + 1] / np.arange(1, n + 1)[:, None]
        lowest, tail = rows[:n, RESULT_LOWEST].tolist(), rows[:n, RESULT_TAIL].tolist()
        observed.append(Observed(lowest, tail, means.tolist(), closed))
    return observed


def batch_arrays(cases: Sequence[Case]) -> Arrays:
    arrays = empty_arrays(len(cases), max(case.window for case in cases))
    arrays.windows[:] = [case.window for case in cases]
    arrays.gates[:] = [[case.gate.trust, case.gate.drop, case.gate.risk, case.gate.eta] for case in cases]
    return arrays


def by_batches(cases: Sequence[Case]) -> list[Observed]:
    arrays = batch_arrays(cases)
    return by_steps(cases, lambda *arguments: push_batch(arrays, *arguments))


def by_triton(cases: Sequence[Case]) -> list[Observed]:
    """The kernel and numpy side by side: also the logits that they change, and the state that they keep, are equal."""
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
    torch: Any = require("torch")
    require("triton")
    from sureenough.vllm.kernels.monitor_step import launch_step
    from sureenough.vllm.monitor import empty_state, start_path, step_rows

    longest = max(case.window for case in cases)
    states = [empty_state(len(cases) + 2, longest, torch.device("cpu")) for _ in range(2)]
    for slot, case in enumerate(cases):
        for state in states:
            start_path(state, slot, case.window, case.gate, 3)

    def step(slots: Ints, tokens_before: Ints, peak: Floats, conf: Floats) -> Floats:
        logits = [torch.zeros(len(slots), 8) for _ in states]
        rows = np.arange(len(slots))[::-1]
        places = torch.from_numpy(np.stack((rows, slots)).astype(np.int32))
        inputs = [torch.from_numpy(part) for part in (tokens_before.astype(np.int32), peak, conf)]
        if tokens_before[0] % 3 == 0:  # a repeated step changes nothing
            launch_step(states[0], logits[0], places, *inputs)
        results = launch_step(states[0], logits[0], places, *inputs)
        assert torch.equal(results, step_rows(states[1], logits[1], places, *inputs))
        assert torch.equal(*logits)
        # The sum over a whole block is never used: windows of one token may get another one from a repeated step.
        kept = [(state.states, state.blocks, state.suffixes[:, :, 1:]) for state in states]
        assert all(torch.equal(one, other) for one, other in zip(*kept, strict=True))
        return np.array(results.numpy())

    return by_steps(cases, step)


BACKENDS = {"streaming": by_streaming, "batched": by_batches, "triton": by_triton}


def middle_of_gap(values: Floats) -> float:
    """A threshold as far as possible from all values, so that rounding cannot move a decision."""
    distinct = np.unique(values)
    gaps = np.diff(distinct)
    if not gaps.size or gaps.max() < 1e-5:
        return float(distinct[-1]) + 1.0
    return float(distinct[gaps.argmax()] + gaps.max() / 2)


def cases_of(kind: str, n: int, window: int, threshold: Callable[[Floats], float]) -> list[Case]:
    """One path with gates of every kind, whose thresholds come from its own windows."""
    peak, conf = signals_of(kind, n, seed=n * 1000 + window)
    windows = scan(peak, conf, window)
    trust, drop, risk = threshold(windows.peak), threshold(windows.conf), threshold(windows.risk(ETA))
    gates = [Gate(), Gate(drop=drop), Gate(risk=risk), Gate(trust, drop, risk), Gate(trust, -np.inf, risk, 0.0)]
    return [Case(peak, conf, window, gate) for gate in gates]
