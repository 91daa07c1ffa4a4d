"""The simulation of many servers against cases that can be computed by hand; see benchmarks/cluster_simulation.py."""

from __future__ import annotations

import sys
from math import inf
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))

import scale
from cluster_simulation import Cluster, Costs, Simulation, Work, simulate


@pytest.mark.parametrize("paths", [1, 16, 64])
def test_an_engine_alone_makes_a_batch_of_tokens_per_step(paths: int) -> None:
    """Paths of equal length: n / (fixed + n * each) tokens per second."""
    costs = Costs(step=0.01, sequence=0.0005, api=0.0, client=0.0)
    rate = simulate(Cluster(costs, batch=64), Work(paths, 256, round_trip=0.0)).tokens_per_second
    assert rate == pytest.approx(paths / (0.01 + 0.0005 * paths), rel=0.02)


def test_paths_beyond_the_batch_wait() -> None:
    costs = Costs(step=0.01, sequence=0.0, api=0.0, client=0.0)
    rate = simulate(Cluster(costs, batch=8), Work(32, 64, round_trip=0.0)).tokens_per_second
    assert rate == pytest.approx(8 / 0.01, rel=0.03)


@pytest.mark.parametrize(("api", "client"), [(0.0005, 0.0), (0.0, 0.0005), (0.0005, 0.0003)])
def test_the_slowest_process_decides(api: float, client: float) -> None:
    """Both handle one token after the other, while the engine could make 6,400 per second."""
    costs = Costs(step=0.01, sequence=0.0, api=api, client=client)
    rate = simulate(Cluster(costs, batch=64), Work(64, 256)).tokens_per_second
    assert rate == pytest.approx(1 / 0.0005, rel=0.03)


def test_our_process_is_shared_by_all_servers_and_their_api_servers_are_not() -> None:
    costs = Costs(step=0.01, sequence=0.0, api=0.0002, client=0.0001)
    four = simulate(Cluster(costs, servers=4, batch=64), Work(256, 256, spread=0.5))
    assert four.tokens_per_second == pytest.approx(1 / 0.0001, rel=0.05)
    assert four.client_busy == pytest.approx(1.0, rel=0.05)


def test_processes_that_share_cores_slow_each_other_down() -> None:
    """Two servers and a client with a fifth of their work each, on two cores: 2.4 processes for 2 cores."""
    costs = Costs(step=0.0, sequence=0.001, api=0.0, client=0.0002)
    one, two = (
        simulate(Cluster(costs, servers=n, batch=8, cores=2), Work(8 * n, 128)).tokens_per_second for n in (1, 2)
    )
    assert one == pytest.approx(1000, rel=0.03)
    assert two / one == pytest.approx(2 / 1.2, rel=0.04)


def test_failures_cost_their_down_time_and_the_paths_that_ran() -> None:
    """A server that fails every hour for ten minutes is up 6/7 of the time; half a path is lost each time."""
    costs = Costs(step=0.5, sequence=0.0, api=0.0, client=0.0)
    cluster = Cluster(costs, batch=8, hours_between_failures=1.0, restart=600.0)
    result = Simulation(cluster, Work(8, 200), seed=1).run(600_000.0, 1000.0)
    up = result.engine_busy
    assert up == pytest.approx(6 / 7, rel=0.05)
    path = 200 * 0.5  # seconds
    assert result.lost == pytest.approx(path / 2 / 3600, rel=0.25)
    assert result.failures == pytest.approx(600_000 / 4200, rel=0.2)


def test_the_plan_scales_and_prices_tokens() -> None:
    costs, given = scale.costs_of(scale.H200[-1]), scale.Assumptions()
    small, large = (scale.plan(size, costs, given) for size in (10_240, 102_400))
    assert (small["GPUs"], large["GPUs"]) == (20, 200)
    assert large["tokens/s"] == pytest.approx(10 * small["tokens/s"], rel=0.001)
    cost = small["USD per 1,000 questions"]
    assert cost["sc"] / cost["sure"] == pytest.approx(26_694 / 6_221, rel=0.02)
    long = scale.plan(10_240, costs, scale.Assumptions(tokens=32_768))
    assert long["GPUs"] > small["GPUs"], "the cache of long paths takes memory"


def test_measured_runs_are_reproduced(capsys: pytest.CaptureFixture[str]) -> None:
    assert scale.check() == 0
    assert "largest error" in capsys.readouterr().out
    assert Cluster(scale.costs_of(scale.H200[0]), cores=inf).stretch == 1.0
