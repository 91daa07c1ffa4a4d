"""The three implementations of the window formulas (array, streaming, Triton) and the equations read literally, with
numpy's eigendecomposition: the same paths through all of them.

Array and streaming agree to the last bit. So does Triton, except for windows that it sums again in another order. It
runs under its interpreter if torch and Triton are installed. On a CPU, vLLM's monitor streams.
"""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.confidence import Floats, Monitor, Windows, instability_of_window, scan, scan_all
from sureenough.core.pruning import Calibrate, Gate, Keep, Stratified, TwoTiers
from sureenough.data import BUILTIN_POOL
from sureenough.engines.watch.protocol import TIERS
from sureenough.pools import Pool, Question, RecordedPath
from tests import literal
from tests.core.backends import (
    BACKENDS,
    ETA,
    KINDS,
    Case,
    by_array,
    by_host,
    by_streaming,
    cases_of,
    middle_of_gap,
    signals_of,
)
from tests.requirements import FULL, examples

POOL = Path(os.environ.get("SUREENOUGH_POOL", BUILTIN_POOL))  # .ci/run names a larger one if there is one


# -- the array backend and the eigendecomposition


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("n", [1, 2, 6, 7, 8, 64, 65, 128, 129, 300])
def test_every_window_agrees_with_the_eigendecomposition(kind: str, window: int, n: int) -> None:
    if kind == "tiny":
        pytest.skip("the standard deviation is 0: test_differences_too_small says what the result must be")
    peak, conf = signals_of(kind, n, seed=n * 1000 + window)
    windows = scan(peak, conf, window)
    peaks, confs, risks = literal.window_values(RecordedPath(None, peak, conf), window, ETA)
    np.testing.assert_allclose(windows.peak, peaks, rtol=0, atol=1e-9)
    np.testing.assert_allclose(windows.conf, confs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(windows.risk(ETA), risks, rtol=0, atol=1e-6)
    assert windows.lowest == pytest.approx(min(confs), abs=1e-9)
    assert windows.tail == pytest.approx(confs[-1], abs=1e-9)


def test_real_paths_agree_with_the_eigendecomposition(real_questions: list[Question]) -> None:
    for path in (question.paths[7] for question in real_questions[::10]):
        peaks, confs, risks = literal.window_values(path, 64, ETA)
        windows = path.windows(64)
        assert windows.conf.tolist() == confs, "float16 sums are exact: so are their means"
        np.testing.assert_allclose(windows.peak, peaks, rtol=0, atol=1e-12)
        np.testing.assert_allclose(windows.risk(ETA), risks, rtol=0, atol=1e-9)


@pytest.mark.parametrize("window", [[5.0, 4.0, 2.0, 1.5], [1.0, 2.0, 2.5, 5.0], [3.0, 9.0, 1.0, 2.0]])
@pytest.mark.parametrize("before", [None, 0.5, 7.0])
def test_two_passes_over_a_window_agree_with_the_eigendecomposition(window: list[float], before: float | None) -> None:
    isotropy, penalty = instability_of_window(window, before)
    assert isotropy + ETA * penalty == pytest.approx(literal.instability(np.array(window), before, ETA), abs=1e-9)


def test_many_paths_in_one_array_are_the_same_as_one_at_a_time() -> None:
    rng = np.random.default_rng(5)
    confs = [rng.normal(9, 2, n) for n in (0, 3, 64, 65, 0, 200, 1, 128)]
    peaks = [rng.random(len(conf)) for conf in confs]
    for window in (1, 3, 64, 500):
        alone = [scan(peak, conf, window) for peak, conf in zip(peaks, confs, strict=True)]
        for one, other in zip(alone, scan_all(peaks, confs, window), strict=True):
            assert values_of(one) == values_of(other)
            assert (one.tokens, one.lowest, one.tail) == (other.tokens, other.lowest, other.tail)
            assert (one.mean_peak, one.mean_conf) == (other.mean_peak, other.mean_conf)
    assert scan_all([], [], 4) == []


# -- cases in which the right value is known


def test_an_empty_path_has_no_window_and_no_confidence() -> None:
    windows = scan(np.empty(0), np.empty(0), 4)
    assert len(windows.conf) == 0
    assert (windows.lowest, windows.tail, windows.watched) == (0.0, 0.0, False)
    assert (Monitor(4).lowest, Monitor(4).tail) == (0.0, 0.0)


def test_a_short_path_is_one_window_and_is_not_watched() -> None:
    windows = scan(np.array([0.5, 0.7]), np.array([4.0, 6.0]), 4)
    assert windows.conf.tolist() == [5.0]
    assert not windows.watched
    monitor = Monitor(4)
    assert [monitor.push(0.5, 4.0), monitor.push(0.7, 6.0)] == [False, False]
    assert (monitor.lowest, monitor.tail) == (5.0, 5.0)


def test_a_flat_window_has_no_instability_even_after_a_jump() -> None:
    conf = np.array([9.0, 3.0, 3.0, 3.0, 3.0, 3.0])
    assert scan(conf, conf, 3).risk(0.5)[1:].tolist() == [0.0, 0.0, 0.0]


def test_differences_too_small_to_square_count_as_none() -> None:
    conf = np.array([0.0, 1e-200, 0.0, 1e-200])
    assert scan(conf, conf, 2).risk(0.5).tolist() == [0.0, 0.0, 0.0]
    assert instability_of_window([0.0, 1e-200], None) == (0.0, 0.0)


def test_a_window_far_longer_than_any_path_costs_nothing() -> None:
    windows = scan(np.full(5, 0.5), np.arange(5.0), 10**12)
    assert (windows.conf.tolist(), windows.window, windows.watched) == ([2.0], 10**12, False)
    monitor = Monitor(10**12)
    assert not monitor.push(0.5, 2.0)
    assert monitor.tail == pytest.approx(2.0)


def test_white_noise_and_the_most_unstable_autocorrelation() -> None:
    # R without penalty is 1 - sqrt(8r^2 - 12r + 5)/(3 - 2r) in the lag-1 autocorrelation r of conf.
    rng = np.random.default_rng(0)
    noise = rng.normal(size=40_000)
    slow = np.zeros(40_000)
    for t in range(1, 40_000):
        slow[t] = 2 / 3 * slow[t - 1] + noise[t]
    white, worst = scan(noise, noise, 40_000), scan(slow, slow, 40_000)
    assert float(white.noise[0]) == pytest.approx(1 - 5**0.5 / 3, abs=0.01)
    assert float(worst.noise[0]) == pytest.approx(0.553, abs=0.01)


def test_only_a_fall_is_penalised_and_by_the_alignment() -> None:
    rising, falling = np.array([1.0, 2.0, 4.0, 5.0]), np.array([5.0, 4.0, 2.0, 1.0])
    up, down = scan(rising, rising, 4), scan(falling, falling, 4)
    assert up.fall.tolist() == [0.0]
    assert 0.5 < float(down.fall[0]) < 1.0
    assert down.risk(0.0).tolist() == down.noise.tolist()


# -- streaming: every value of every window


def values_of(windows: Windows) -> list[tuple[float, float, float]]:
    return list(zip(windows.peak.tolist(), windows.conf.tolist(), windows.risk(ETA).tolist(), strict=True))


def streamed(peak: Floats, conf: Floats, window: int) -> list[tuple[float, float, float]]:
    """Group peak, group conf and instability at every full window."""
    monitor = Monitor(window)
    pairs = zip(peak.tolist(), conf.tolist(), strict=True)
    return [(monitor.peak, monitor.conf, monitor.risk(ETA)) for p, c in pairs if monitor.push(p, c)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 2, 7, 64])
@pytest.mark.parametrize("n", [1, 7, 8, 64, 65, 300])
def test_streaming_equals_array_to_the_last_bit(kind: str, window: int, n: int) -> None:
    peak, conf = signals_of(kind, n, seed=n)
    windows = scan(peak, conf, window)
    assert streamed(peak, conf, window) == (values_of(windows) if n >= window else [])


@pytest.mark.parametrize("kind", ["noise", "walk", "ramp", "half", "loop", "cliff"])
def test_sixty_thousand_tokens_later_it_still_agrees(kind: str) -> None:
    size, n = 2048, 60_000
    peak, conf = signals_of(kind, n, seed=1)
    monitor = Monitor(size)
    risks = scan(peak, conf, size).risk(ETA)
    for t, (p, c) in enumerate(zip(peak.tolist(), conf.tolist(), strict=True)):
        full = monitor.push(p, c)
        if full and (t % 997 == 0 or t > n - 20):
            start = t + 1 - size
            before = float(conf[start - 1]) if start else None
            expected = literal.instability(conf[start : t + 1], before, ETA)
            assert monitor.risk(ETA) == pytest.approx(expected, abs=1e-6)
            assert monitor.risk(ETA) == risks[start]
            assert monitor.conf == pytest.approx(conf[start : t + 1].mean(), abs=1e-9)
            assert monitor.peak == pytest.approx(peak[start : t + 1].mean(), abs=1e-9)


# -- all backends: what every token and every gate comes to


@pytest.mark.parametrize("backend", BACKENDS)
def test_backends_agree_on_every_kind_of_path(backend: str) -> None:
    sizes = [(n, window) for n in (1, 7, 8, 65, 150) for window in (1, 2, 7, 64)]
    gates = slice(0, 5)
    if backend == "triton":  # its interpreter takes many milliseconds per token
        sizes, gates = [(2, 8), (19, 8), (14, 3), (4, 1)], slice(2, 4)
    cases = [case for kind in KINDS for n, window in sizes for case in cases_of(kind, n, window, middle_of_gap)[gates]]
    expected = by_array(cases)
    assert {None, *TIERS.values()} == {one.closed and one.closed.tier for one in expected}
    for case, one, wanted in zip(cases, BACKENDS[backend](cases), expected, strict=True):
        assert one == wanted, case


@pytest.mark.parametrize("backend", ["streaming", "host"])
def test_thresholds_equal_to_a_windows_value_do_not_close(backend: str) -> None:
    """Every test is strict; the same value must come out to the last bit, also of windows that are summed again."""
    cases = [case for kind in KINDS for window in (1, 2, 7, 64) for threshold in (np.min, np.max, _middle)
             for case in cases_of(kind, 150, window, threshold)]  # fmt: skip
    assert BACKENDS[backend](cases) == by_array(cases)


def _middle(values: Floats) -> float:
    return float(np.sort(values)[len(values) // 2])


@pytest.mark.parametrize("backend", BACKENDS)
def test_decisions_are_those_of_the_eigendecomposition(backend: str) -> None:
    slow = backend == "triton"
    sizes = ((12, 5),) if slow else ((23, 7), (150, 16), (9, 1))
    cases = [case for kind in KINDS if kind != "tiny" for n, window in sizes
             for case in cases_of(kind, n, window, middle_of_gap)[3 if slow else 1 : 4]]  # fmt: skip
    for case, one in zip(cases, BACKENDS[backend](cases), strict=True):
        peaks, confs, risks = literal.window_values(RecordedPath(None, case.peak, case.conf), case.window, ETA)
        gate = case.gate
        closed = [p <= gate.trust and (c < gate.drop or r > gate.risk)
                  for p, c, r in zip(peaks, confs, risks, strict=True)]  # fmt: skip
        assert (one.closed.tokens if one.closed else None) == (
            closed.index(True) + case.window if any(closed) else None
        )
        assert one.tail[case.window - 1 :] == pytest.approx(confs, abs=1e-9)


signal = st.lists(
    st.tuples(st.floats(0, 1), st.one_of(st.floats(0, 100), st.sampled_from([3.0, 7.25, 7.25 + 1e-9, 40.0]))),
    min_size=1,
    max_size=60,
)


@examples(200)
@given(signal, st.integers(1, 12), st.floats(0, 1), st.floats(0, 100), st.floats(0, 1.5))
def test_backends_agree_on_anything(
    tokens: list[tuple[float, float]], window: int, trust: float, drop: float, risk: float
) -> None:
    peak, conf = np.array(tokens).T
    cases = [Case(peak, conf, window, gate) for gate in (Gate(trust, drop, risk), Gate(risk=risk))]
    expected = by_array(cases)
    assert by_streaming(cases) == by_host(cases) == expected
    if len(conf) >= window:
        assert streamed(peak, conf, window) == values_of(scan(peak, conf, window))


@examples(200)
@given(signal, st.integers(1, 9), st.floats(0, 1), st.floats(0, 100), st.floats(0, 1.5), st.data())
def test_repeated_steps_change_nothing(
    tokens: list[tuple[float, float]], window: int, trust: float, drop: float, risk: float, data: st.DataObject
) -> None:
    peak, conf = np.array(tokens).T
    case = Case(peak, conf, window, Gate(trust, drop, risk))
    assert by_host([case], lambda: data.draw(st.integers(0, 2), label="discarded")) == by_array([case])


# -- recorded pools


CALIBRATIONS: dict[str, Calibrate] = {
    "ddc": Stratified(),
    "two tiers": TwoTiers(trust=99, drop=5),
    "deepconf": Keep(90.0),
    "trend alone": lambda paths: replace(Stratified(risk="p99")(paths), drop=-np.inf, trust=np.inf),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_recorded_tokens(name: str) -> None:
    """The streaming and the array backend agree on every path of a pool."""
    cases: list[Case] = []
    for _, question in zip(range(50 if FULL and name == "ddc" else 8), Pool(POOL), strict=False):
        signals = [(np.asarray(one.peak, float), np.asarray(one.conf, float)) for one in question.paths if one.tokens]
        gate = CALIBRATIONS[name]([scan(peak, conf, 64) for peak, conf in signals[:16]])
        cases += [Case(peak, conf, 64, gate) for peak, conf in signals]
    observed = by_streaming(cases)
    for case, one in zip(cases, observed, strict=True):
        windows = scan(case.peak, case.conf, 64)
        assert one.closed == case.gate.first_closed(windows)
        assert (one.lowest[-1], one.tail[-1]) == (windows.lowest, windows.tail)
        assert one.means[-1] == [windows.mean_peak, windows.mean_conf]
    assert sum(one.closed is not None for one in observed) > 50
    assert sum(len(case.conf) for case in cases) > 100_000
