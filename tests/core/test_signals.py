"""Windows, C_path and instability in cases where the right value is known; test_confidence_backends.py has the rest."""

from __future__ import annotations

import numpy as np
import pytest

from sureenough.core.confidence import Monitor, instability_of_window, scan


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
    assert monitor.tail == 2.0


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
