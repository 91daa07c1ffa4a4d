"""The backends of the window formulas, called in the same way, and paths and gates to compare them with."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sureenough.core.confidence import Floats, Monitor, Windows, scan
from sureenough.core.pruning import Closed, Gate
from sureenough.engines.watch.protocol import TIER_NONE, TIERS
from sureenough.vllm.kernels.steps import (
    END_LOGIT,
    RESULT_COLUMNS,
    RESULT_LOWEST,
    RESULT_TAIL,
    RESULT_TIER,
    RESULT_TOTAL_CONF,
    RESULT_TOTAL_PEAK,
    HostPath,
)
from tests.requirements import require

ETA = 0.5
Ints = NDArray[np.int64]
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


def by_host(cases: Sequence[Case], discarded: Callable[[], int] = int) -> list[Observed]:
    """What vLLM's monitor does on a CPU; before each token, so many others may be discarded."""
    paths = [HostPath(case.window, case.gate, 3) for case in cases]

    def step(slots: Ints, tokens_before: Ints, peak: Floats, conf: Floats) -> Floats:
        tokens = list(zip(slots.tolist(), tokens_before.tolist(), peak.tolist(), conf.tolist(), strict=True))
        for slot, before, *_ in tokens:
            for _ in range(discarded()):
                paths[slot].push(before, 0.5, 99.0)
        return np.array([paths[slot].push(*token) for slot, *token in tokens])

    return by_steps(cases, step)


def by_triton(cases: Sequence[Case]) -> list[Observed]:
    os.environ.setdefault("TRITON_INTERPRET", "1")  # before Triton is imported
    torch: Any = require("torch")
    require("triton")
    from sureenough.vllm.kernels.monitor_step import empty_state, launch_step

    state = empty_state(len(cases) + 2, max(case.window for case in cases), torch.device("cpu"))
    for slot, (_, _, window, gate) in enumerate(cases):
        state.windows[slot], state.end_tokens[slot] = window, 3
        state.gates[slot] = torch.tensor([gate.trust, gate.drop, gate.risk, gate.eta])

    def step(slots: Ints, tokens_before: Ints, peak: Floats, conf: Floats) -> Floats:
        logits = torch.zeros(len(slots), 8)
        rows = np.arange(len(slots))[::-1]
        places = torch.from_numpy(np.stack((rows, slots)).astype(np.int32))
        counts = torch.from_numpy(tokens_before.astype(np.int32))
        results = torch.empty((len(slots), RESULT_COLUMNS), dtype=torch.float64)
        if tokens_before[0] % 3 == 0:  # a token that is discarded changes nothing
            other = torch.from_numpy(np.stack((peak / 2, conf + 1)))
            launch_step(state, torch.zeros(len(slots), 8), places, counts, other[0], other[1], results)
        launch_step(state, logits, places, counts, torch.from_numpy(peak), torch.from_numpy(conf), results)
        pruned = results[:, RESULT_TIER] != TIER_NONE
        wanted = torch.zeros(len(slots), 8)
        wanted[places[0].long()[pruned], 3] = END_LOGIT
        assert torch.equal(logits, wanted)
        return np.array(results.numpy())

    return by_steps(cases, step)


BACKENDS = {"streaming": by_streaming, "host": by_host, "triton": by_triton}


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
