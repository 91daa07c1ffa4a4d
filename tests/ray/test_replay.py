"""`replay --ray` on two nodes: the numbers are those of one process."""

from __future__ import annotations

import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from sureenough.data import BUILTIN_POOL
from sureenough.drivers import ray_tasks
from sureenough.drivers.ray_cluster import connected
from sureenough.drivers.ray_tasks import RayTasks
from sureenough.errors import EngineUnavailable, SureEnoughError
from sureenough.pools import Pool
from tests.cli.recording import CLEAN
from tests.in_thread import until
from tests.processes import sureenough
from tests.ray.cluster import TestCluster
from tests.ray.test_record import LONG

STRATEGIES = ("-s", "sc ddc sure", "--repeats", "2", "--json")


def gated(name: str) -> str:
    """Runs on a node: leaves a file, and waits for another."""
    Path(f"{name}.started").touch()
    while not Path(name).with_name("gate").exists():
        time.sleep(0.02)
    return name.upper()


def dies(name: str) -> None:
    """Runs on a node, and ends its process as a lack of memory would."""
    os.kill(os.getpid(), signal.SIGKILL)


def test_the_table_is_that_of_one_process(
    cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    questions = pq.read_table(BUILTIN_POOL)
    first = questions["question"].unique()[:6]
    pq.write_table(questions.filter(pc.is_in(questions["question"], first)), tmp_path / "pool.parquet")
    monkeypatch.chdir(tmp_path)  # a name without a folder holds on the nodes, too
    with cluster.node():
        tables = []
        for words in (["--jobs", "1"], ["--ray", cluster.address]):
            environment = CLEAN | {"SUREENOUGH_CACHE": str(tmp_path / words[0])}  # both judge the answers themselves
            done = sureenough("replay", "pool.parquet", *STRATEGIES, *words, env=environment, timeout=LONG)
            assert done.returncode == 0, done.stderr
            tables.append(json.loads(done.stdout))
    assert tables[0] == tables[1]
    assert [row["strategy"] for row in tables[1]["pools"][0]["rows"]] == ["sc", "ddc", "sure"]


def test_calls_on_a_node_that_dies_are_made_elsewhere(cluster: TestCluster, tmp_path: Path) -> None:
    names = [str(tmp_path / f"call{number}") for number in range(6)]
    with cluster.node(), connected(cluster.address) as joined:
        tasks = RayTasks(joined)
        assert tasks.jobs == 2
        results = tasks.run(gated, names)
        with ThreadPoolExecutor(1) as thread:
            finished = thread.submit(lambda: dict(results))
            until(lambda: len(list(tmp_path.glob("*.started"))) >= 2, LONG, 0.05)
            cluster.kill_node()
            (tmp_path / "gate").touch()
            assert finished.result(LONG) == {number: name.upper() for number, name in enumerate(names)}


def test_a_process_that_always_dies_ends_the_work(cluster: TestCluster) -> None:
    with connected(cluster.address) as joined, pytest.raises(SureEnoughError, match=r"died 3 times, most likely"):
        list(RayTasks(joined).run(dies, ["x"]))


def test_all_nodes_are_lost(cluster: TestCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ray_tasks, "LOST_SECONDS", 0.0)
    with connected(cluster.address) as joined:
        tasks = RayTasks(joined)
        monkeypatch.setattr(type(joined), "nodes", lambda self: [])
        with pytest.raises(EngineUnavailable, match=r"no node of the Ray cluster is left to work on: start nodes"):
            list(tasks.run(gated, [str(tmp_path / "call")]))


def test_a_pool_that_other_nodes_do_not_have(cluster: TestCluster, tmp_path: Path) -> None:
    with connected(cluster.address) as joined, pytest.raises(SureEnoughError) as raised:
        list(RayTasks(joined).run(missing, [str(tmp_path / "pool.parquet")]))
    assert "no such file" in str(raised.value)
    assert str(raised.value).startswith("on node ")
    assert "they must be on storage that all nodes share" in str(raised.value)


def missing(name: str) -> int:
    """Runs on a node: reads a pool that is not there."""
    return Pool(name).rows
