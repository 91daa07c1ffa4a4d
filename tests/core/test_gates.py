"""Calibrations and gates: thresholds to the number, strictness at the edge, both ways of asking alike."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sureenough.core.confidence import Monitor, Windows, scan
from sureenough.core.pruning import Closed, Gate, Keep, Stratified, Tier, TwoTiers, no_gate, percentiles
from sureenough.core.stop_rules import ExpectedGain, Posterior, Share, TwoLargest, Unanimous
from sureenough.core.weights import ByConfidence, BySignals
from sureenough.errors import UsageError


def windows(conf: list[float], peak: list[float] | None = None, size: int = 2) -> Windows:
    return scan(np.array(conf if peak is None else peak), np.array(conf), size)


def first_closed_by_token(gate: Gate, conf: list[float], peak: list[float], size: int) -> Closed | None:
    monitor = Monitor(size)
    for n, (p, c) in enumerate(zip(peak, conf, strict=True), start=1):
        if monitor.push(p, c):
            tier = gate.tier(monitor)
            if tier is not None:
                return Closed(n, tier)
    return None


def test_thresholds_are_the_percentiles_of_all_windows_pooled() -> None:
    rng = np.random.default_rng(3)
    paths = [windows(rng.normal(10, 2, n).tolist(), rng.random(n).tolist(), 5) for n in (3, 20, 40)]
    gate = Stratified()(paths)
    risks = np.concatenate([path.risk(0.5) for path in paths])
    low, high = np.percentile(risks, 25), np.percentile(risks, 75)
    assert gate.trust == np.percentile(np.concatenate([path.peak for path in paths]), 90)
    assert gate.drop == np.percentile(np.concatenate([path.conf for path in paths]), 20)
    assert gate.risk == pytest.approx(high + 1.5 * (high - low), abs=1e-15)
    assert Stratified(risk="p90")(paths).risk == np.percentile(risks, 90)
    assert Stratified(risk="p99.5")(paths).risk == np.percentile(risks, 99.5)
    assert Stratified(trust=50, drop=5)(paths).trust == np.percentile(np.concatenate([p.peak for p in paths]), 50)


@given(
    values=st.lists(st.floats(-50, 50), min_size=1, max_size=60),
    qs=st.lists(st.one_of(st.floats(0, 100), st.sampled_from([0.0, 10.0, 20.0, 25.0, 75.0, 90.0, 100.0])), min_size=1),
)
def test_percentiles_are_numpys_to_the_last_bit(values: list[float], qs: list[float]) -> None:
    assert percentiles(np.array(values), *qs) == np.percentile(values, qs).tolist()


def test_two_tiers_are_the_three_without_the_trend() -> None:
    paths = [windows([4.0, 5.0, 6.0, 3.0])]
    three, two = Stratified()(paths), TwoTiers()(paths)
    assert (two.trust, two.drop, two.risk) == (three.trust, three.drop, inf)


def test_eta_reaches_the_gate_and_its_fence() -> None:
    paths = [windows([9.0, 7.0, 4.0, 2.0, 1.0], size=3)]
    assert Stratified(eta=0.0)(paths).risk < Stratified(eta=2.0)(paths).risk
    assert Stratified(eta=2.0)(paths).eta == pytest.approx(2.0)


@pytest.mark.parametrize("calibrate", [Stratified(), TwoTiers(), no_gate])
def test_with_no_windows_no_gate_closes(calibrate: object) -> None:
    for paths in ([], [windows([])]):
        gate = calibrate(paths)  # type: ignore[operator]
        assert gate.first_closed(windows([0.0, 0.0, 0.0])) is None


@pytest.mark.parametrize(("keep", "percentile"), [(10, 90), (90, 10), (25, 75)])
def test_deepconf_keeps_the_best_percent_of_the_warm_up(keep: float, percentile: float) -> None:
    paths = [windows([low, low]) for low in (3.0, 5.0, 6.0, 9.0)]
    gate = Keep(keep)(paths)
    bar = np.percentile([3.0, 5.0, 6.0, 9.0], percentile)
    assert (gate.drop, gate.floor, gate.risk, gate.trust) == (bar, bar, inf, inf)
    assert Keep()([]) == Gate()


def test_tests_are_strict_and_in_order() -> None:
    conf, peak = [4.0, 4.0], [0.5, 0.5]
    path = windows(conf, peak)
    assert Gate(drop=4.0).first_closed(path) is None
    assert Gate(drop=4.1).first_closed(path) == Closed(2, Tier.DROP)
    assert Gate(drop=4.1, trust=0.5).first_closed(path) == Closed(2, Tier.DROP), "0.5 is not above 0.5"
    assert Gate(drop=4.1, trust=0.4).first_closed(path) is None, "a trusted window is not looked at further"
    assert Gate(risk=0.0).first_closed(path) is None, "a flat window has R = 0, which is not above 0"
    assert Gate(risk=-1.0).first_closed(path) == Closed(2, Tier.RISK)
    assert Gate(risk=-1.0, drop=4.1).first_closed(path) == Closed(2, Tier.DROP), "drop is asked first"


def test_an_instability_at_the_fence_is_not_beyond_it() -> None:
    conf = [5.0, 6.0, 5.5, 9.0, 2.0, 7.0]
    path = windows(conf, [0.5] * 6, 3)
    risks = path.risk(0.5).tolist()
    for fence in sorted(risks)[:-1]:
        beyond = next(i for i, risk in enumerate(risks) if risk > fence)
        assert Gate(risk=fence).first_closed(path) == Closed(beyond + 3, Tier.RISK)
        assert first_closed_by_token(Gate(risk=fence), conf, [0.5] * 6, 3) == Closed(beyond + 3, Tier.RISK)


def test_thresholds_per_path_are_percentiles_of_the_extreme_windows() -> None:
    rng = np.random.default_rng(6)
    paths = [windows(rng.normal(10, 2, n).tolist(), rng.random(n).tolist(), 8) for n in (0, 3, *range(20, 120, 8))]
    plain, own, two = Stratified()(paths), Stratified(per="path")(paths), TwoTiers(per="path")(paths)
    seen = [path for path in paths if path.tokens]
    assert own.drop == two.drop == pytest.approx(np.percentile([path.conf.min() for path in seen], 20))
    first, third = np.percentile([path.risk(0.5).max() for path in seen], (25, 75))
    assert own.risk == pytest.approx(third + 1.5 * (third - first))
    assert own.trust == two.trust == plain.trust
    closed = [gate.first_closed(path) is not None for gate in (plain, own) for path in seen[1:]]
    assert sum(closed[: len(closed) // 2]) == len(closed) // 2, "of all windows, every path has one below the 20th"
    assert sum(closed[len(closed) // 2 :]) <= 4


def test_a_path_is_watched_from_its_first_full_window_on() -> None:
    gate = Gate(drop=100.0)
    assert gate.first_closed(windows([1.0], size=2)) is None
    assert gate.first_closed(windows([1.0, 1.0, 1.0], size=2)) == Closed(2, Tier.DROP)


@given(
    signals=st.lists(st.tuples(st.floats(0, 1), st.floats(0, 20)), min_size=0, max_size=40),
    size=st.integers(1, 8),
    trust=st.floats(0, 1),
    drop=st.floats(0, 20),
    risk=st.floats(0, 1.5),
)
def test_all_at_once_and_token_by_token_close_at_the_same_token(
    signals: list[tuple[float, float]], size: int, trust: float, drop: float, risk: float
) -> None:
    peak, conf = [p for p, _ in signals], [c for _, c in signals]
    for gate in (Gate(trust, drop, risk), Gate(drop=drop), Gate(trust, -inf, risk), Gate(trust)):
        expected = first_closed_by_token(gate, conf, peak, size)
        assert gate.first_closed(windows(conf, peak, size)) == expected


@pytest.mark.parametrize(
    "make",
    [
        lambda: Stratified(trust=101),
        lambda: Stratified(drop=-1),
        lambda: Stratified(risk="q90"),
        lambda: Stratified(risk="p"),
        lambda: Stratified(risk="p101"),
        lambda: Stratified(risk="p1.2.3"),
        lambda: Stratified(eta=-0.1),
        lambda: TwoTiers(drop=101),
        lambda: Keep(keep=200),
        lambda: Posterior(gamma=0),
        lambda: Posterior(gamma=1),
        lambda: Posterior(tau=1.5),
        lambda: TwoLargest(tau=-0.1),
        lambda: Share(tau=2),
        lambda: Unanimous(batch=0),
        lambda: ByConfidence("heavy"),
        lambda: ExpectedGain(delta=2),
        lambda: ExpectedGain(least=0),
        lambda: BySignals(beta=-1),
        lambda: BySignals(beta=1e308),
    ],
)
def test_impossible_settings_are_refused(make: object) -> None:
    with pytest.raises(UsageError, match="will not do"):
        make()  # type: ignore[operator]
