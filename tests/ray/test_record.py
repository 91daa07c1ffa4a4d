"""`record --ray` and `bench --ray` on two nodes: whatever is killed, results are those of one process."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.bench.test_killed import decided, without_time
from tests.bench.typed import bench, live_runs, questions, result, start_bench
from tests.cli.recording import lines, record, rows, start_record, write_sums
from tests.cli.recording import words as record_words
from tests.engines.misbehaving import Manner, Server, gone
from tests.in_thread import in_thread, until
from tests.processes import CLEAN, sureenough
from tests.ray.cluster import TestCluster

QUESTIONS, PATHS, PARALLEL = 6, 8, 2
TOTAL = QUESTIONS * PATHS
LONG = 300.0
"""Seconds; clusters start slowly on a busy machine."""


class GatedServer(Server):
    """Replies to the first `allowed` requests; later ones wait until more are allowed."""

    allowed: float = inf

    async def _reply(
        self, body: dict[str, Any], manner: Manner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        number = len(self.requests)
        while number > self.allowed:
            if gone(reader):
                return False
            await asyncio.sleep(0.005)
        return await super()._reply(body, manner, reader, writer)


@asynccontextmanager
async def gated() -> AsyncIterator[GatedServer]:
    manner = Manner(tokens=30, by_prompt=True)
    server = GatedServer(lambda seed, nth: manner)
    listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, limit=1 << 20)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield server
    listening.close()


@pytest.fixture
def server() -> Iterator[GatedServer]:
    with in_thread(gated()) as running:
        yield running


def test_node_runner_and_command_are_killed_and_the_pool_is_that_of_one_process(
    cluster: TestCluster, server: GatedServer, tmp_path: Path
) -> None:
    dataset = write_sums(tmp_path / "sums.jsonl", QUESTIONS)
    whole, pool, journal = (tmp_path / name for name in ("whole.parquet", "pool.parquet", "pool.parquet.journal"))
    assert record(server.url, dataset, whole).returncode == 0
    server.requests.clear()
    words = ("--parallel", str(PARALLEL), "--ray", cluster.address)

    def waiting(paths: int, recorded: int) -> bool:
        """Whether so many paths are in the journal and so many wait."""
        assert running.poll() is None, running.communicate()
        return server.running == paths and lines(journal) == 1 + recorded

    with cluster.node(), start_record(server.url, dataset, pool, *words) as running:
        server.allowed = 5
        until(lambda: waiting(2 * PARALLEL, 5), LONG, 0.02)
        cluster.kill_node()
        until(lambda: waiting(PARALLEL, 5), LONG, 0.02)
        server.allowed = 12  # two of them were lost with the node
        until(lambda: waiting(PARALLEL, 10), LONG, 0.02)
        [runner] = cluster.processes("ray::Runner")
        runner.send_signal(signal.SIGKILL)
        server.allowed = 20  # and two more
        until(lambda: waiting(PARALLEL, 16), LONG, 0.02)
        running.kill()
        _, errors = running.communicate(LONG)
        assert "Traceback" not in errors
    until(lambda: not cluster.processes("ray::Runner"), LONG, 0.1)  # Ray ends those of a command that is gone
    server.allowed = inf
    done = sureenough(*record_words(server.url, dataset, pool, *words), env=CLEAN, timeout=LONG)
    assert (done.returncode, done.stdout) == (0, f"{pool}: {QUESTIONS} questions, {TOTAL} paths.\n"), done.stderr
    assert rows(pool) == rows(whole)
    assert not journal.exists()
    assert len(server.requests) == TOTAL + 3 * PARALLEL  # what was under way is sampled again, and nothing else
    until(lambda: not cluster.processes("ray::Runner"), LONG, 0.1)


def test_a_live_benchmark_that_loses_a_node_and_its_command(
    cluster: TestCluster, server: GatedServer, tmp_path: Path
) -> None:
    dataset, folder, alone = questions(tmp_path / "sums.jsonl", 3), tmp_path / "run", tmp_path / "alone"
    fixed = ["main", "--dataset", str(dataset), "--url", server.url, "--model", "tiny", "-s", "sc ddc:warmup=4"]
    fixed += "--paths 8 --window 8 --jobs 1 --parallel 1 --live".split()
    expected = bench(*fixed, "-o", alone)
    assert expected.returncode == 0, expected.stderr
    server.requests.clear()
    words = [*fixed, "-o", str(folder), "--ray", cluster.address]
    with cluster.node(), start_bench(*words) as running:
        server.allowed = 3 * 8 + 4  # the recording, and the first paths of two questions
        until(lambda: running.poll() is not None or (server.running == 2 and len(server.requests) == 30), LONG, 0.02)
        cluster.kill_node()
        until(lambda: running.poll() is not None or server.running == 1, LONG, 0.02)
        server.allowed = 3 * 8 + 24  # in any case one question is complete, and not all are
        until(lambda: running.poll() is not None or lines(folder / "live" / "runs.jsonl") > 1, LONG, 0.02)
        assert running.poll() is None, running.communicate()
        running.kill()
        running.communicate(LONG)
    until(lambda: not cluster.processes("ray::Runner"), LONG, 0.1)
    server.allowed = inf
    done = sureenough("bench", *words, env=CLEAN, timeout=LONG)
    assert done.returncode == 0, done.stderr
    assert without_time(result(folder)) == without_time(result(alone))
    runs = [sorted(map(decided, live_runs(one)), key=str) for one in (folder, alone)]
    assert runs[0] == runs[1]
    assert len(runs[0]) == 2 * 3


def test_the_built_in_model_runs_on_every_node(cluster: TestCluster, tmp_path: Path) -> None:
    dataset = tmp_path / "sums.csv"
    dataset.write_text("question,answer\nCompute 12+7.,19\nCompute 19*21+4.,403\n")
    fixed = ["record", str(dataset), "--paths", "4", "--parallel", "2", "-o"]
    pools = [tmp_path / "one.parquet", tmp_path / "two.parquet"]
    with cluster.node():
        for pool, more in zip(pools, ([], [f"--ray={cluster.address}"]), strict=True):
            done = sureenough(*fixed, pool, *more, env=CLEAN, timeout=LONG)
            assert done.returncode == 0, done.stderr
    # Its confidences depend a little on which paths run at once, so only what does not is compared.
    assert [(row[0], row[1], row[4]) for row in rows(pools[0])] == [(row[0], row[1], row[4]) for row in rows(pools[1])]
    assert all(row[3] for row in rows(pools[1]))
