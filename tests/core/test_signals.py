"""Windows, C_path and instability against the equations read literally, scalar and array alike."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from sureenough.core.confidence.array import Windows, scan, scan_all
from sureenough.core.confidence.instability import instability_of_window
from sureenough.core.confidence.streaming import Monitor
from sureenough.pools import Question, RecordedPath
from tests import literal

Floats = NDArray[np.float64]


def watched(peak: Floats, conf: Floats, window: int) -> list[tuple[float, float, float]]:
    """What the monitor saw at every full window."""
    monitor = Monitor(window)
    pairs = zip(peak.tolist(), conf.tolist(), strict=True)
    return [(monitor.peak, monitor.conf, monitor.risk(0.5)) for p, c in pairs if monitor.push(p, c)]


def scanned(windows: Windows) -> list[tuple[float, float, float]]:
    return list(zip(windows.peak.tolist(), windows.conf.tolist(), windows.risk(0.5).tolist(), strict=True))


def paths_of(kind: str, n: int, seed: int) -> tuple[Floats, Floats]:
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
    }[kind]
    return peak, conf


KINDS = ("noise", "walk", "ramp", "steps", "flat", "cliff", "half", "loop")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 2, 3, 7, 64])
@pytest.mark.parametrize("n", [1, 2, 6, 7, 8, 64, 65, 128, 129, 300])
def test_every_window_agrees_with_the_eigendecomposition(kind: str, window: int, n: int) -> None:
    peak, conf = paths_of(kind, n, seed=n * 1000 + window)
    got = scan(peak, conf, window)
    peaks, confs, risks = literal.window_values(RecordedPath(None, peak, conf), window, 0.5)
    np.testing.assert_allclose(got.peak, peaks, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.conf, confs, rtol=0, atol=1e-9)
    np.testing.assert_allclose(got.risk(0.5), risks, rtol=0, atol=1e-6)
    assert got.lowest == pytest.approx(min(confs), abs=1e-9)
    assert got.tail == pytest.approx(confs[-1], abs=1e-9)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("window", [1, 2, 7, 64])
@pytest.mark.parametrize("n", [1, 7, 8, 64, 65, 300])
def test_the_monitor_sees_what_the_scan_sees_to_the_last_bit(kind: str, window: int, n: int) -> None:
    peak, conf = paths_of(kind, n, seed=n)
    windows = scan(peak, conf, window)
    assert watched(peak, conf, window) == (scanned(windows) if n >= window else [])
    monitor = Monitor(window)
    for p, c in zip(peak.tolist(), conf.tolist(), strict=True):
        monitor.push(p, c)
    assert (monitor.lowest, monitor.tail) == (windows.lowest, windows.tail)


@given(
    conf=st.lists(st.floats(0, 100, allow_subnormal=False), min_size=1, max_size=60),
    window=st.integers(1, 12),
)
def test_monitor_and_scan_agree_on_anything(conf: list[float], window: int) -> None:
    values = np.array(conf)
    windows = scan(values / 100, values, window)
    if len(conf) >= window:
        assert watched(values / 100, values, window) == scanned(windows)


@pytest.mark.parametrize("kind", ["noise", "walk", "ramp", "half", "loop", "cliff"])
def test_sixty_thousand_tokens_later_it_still_agrees(kind: str) -> None:
    size, n = 2048, 60_000
    peak, conf = paths_of(kind, n, seed=1)
    monitor = Monitor(size)
    got = scan(peak, conf, size)
    risks = got.risk(0.5)
    for t, (p, c) in enumerate(zip(peak.tolist(), conf.tolist(), strict=True)):
        full = monitor.push(p, c)
        if full and (t % 997 == 0 or t > n - 20):
            start = t + 1 - size
            before = float(conf[start - 1]) if start else None
            expected = literal.instability(conf[start : t + 1], before, 0.5)
            assert monitor.risk(0.5) == pytest.approx(expected, abs=1e-6)
            assert monitor.risk(0.5) == risks[start]
            assert monitor.conf == pytest.approx(conf[start : t + 1].mean(), abs=1e-9)
            assert monitor.peak == pytest.approx(peak[start : t + 1].mean(), abs=1e-9)


def test_real_paths_agree_with_the_literal_reading(real_questions: list[Question]) -> None:
    for path in (question.paths[7] for question in real_questions[::10]):
        peaks, confs, risks = literal.window_values(path, 64, 0.5)
        got = path.windows(64)
        assert got.conf.tolist() == confs, "float16 sums are exact: so are their means"
        np.testing.assert_allclose(got.peak, peaks, rtol=0, atol=1e-12)
        np.testing.assert_allclose(got.risk(0.5), risks, rtol=0, atol=1e-9)


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


def test_a_spread_too_small_to_square_counts_as_none() -> None:
    conf = np.array([0.0, 1e-200, 0.0, 1e-200])
    assert scan(conf, conf, 2).risk(0.5).tolist() == [0.0, 0.0, 0.0]
    assert watched(conf, conf, 2) == scanned(scan(conf, conf, 2))
    assert instability_of_window([0.0, 1e-200], None) == (0.0, 0.0)


def test_a_window_far_longer_than_any_path_costs_nothing() -> None:
    windows = scan(np.full(5, 0.5), np.arange(5.0), 10**12)
    assert (windows.conf.tolist(), windows.window, windows.watched) == ([2.0], 10**12, False)
    monitor = Monitor(10**12)
    assert not monitor.push(0.5, 2.0)
    assert monitor.tail == 2.0


def test_many_paths_at_once_are_the_same_as_one_at_a_time() -> None:
    rng = np.random.default_rng(5)
    confs = [rng.normal(9, 2, n) for n in (0, 3, 64, 65, 0, 200, 1, 128)]
    peaks = [rng.random(len(conf)) for conf in confs]
    for window in (1, 3, 64, 500):
        for alone, among in zip(
            [scan(p, c, window) for p, c in zip(peaks, confs, strict=True)], scan_all(peaks, confs, window), strict=True
        ):
            assert scanned(alone) == scanned(among)
            assert (alone.tokens, alone.lowest, alone.tail) == (among.tokens, among.lowest, among.tail)
    assert scan_all([], [], 4) == []


@pytest.mark.parametrize("window", [[5.0, 4.0, 2.0, 1.5], [1.0, 2.0, 2.5, 5.0], [3.0, 9.0, 1.0, 2.0]])
@pytest.mark.parametrize("before", [None, 0.5, 7.0])
def test_two_passes_over_a_window_agree_with_the_eigendecomposition(window: list[float], before: float | None) -> None:
    noise, fall = instability_of_window(window, before)
    assert noise + 0.5 * fall == pytest.approx(literal.instability(np.array(window), before, 0.5), abs=1e-9)


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
