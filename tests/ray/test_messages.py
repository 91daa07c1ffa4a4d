"""Clusters that cannot be used: exit code 2, what to do, and no traceback."""

from __future__ import annotations

import asyncio
import platform
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from sureenough.errors import EngineUnavailable
from sureenough.ray import jobs
from sureenough.ray.cluster import connected
from sureenough.ray.jobs import RayJobs
from tests.cli.recording import lines, start_record, words, write_sums
from tests.engines.misbehaving import Manner, serving
from tests.in_thread import in_thread, until
from tests.processes import CLEAN, sureenough
from tests.ray.cluster import ROOT, TestCluster
from tests.ray.engines import ABSENT, FULL, Absent
from tests.ray.test_record import LONG, gated

HIDDEN = """
import sys

class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == NAME:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Hidden())
"""
START = "from sureenough.__main__ import main; main()"
OTHER_RAY = f"import ray; ray.__version__ = '1.0.0'; {START}"
OTHER_PYTHON = f"""
import ray
ray._private.utils.compute_version_info = lambda: (ray.__version__, "3.9.1")
{START}
"""


@pytest.fixture
def dataset(tmp_path: Path) -> Path:
    return write_sums(tmp_path / "sums.jsonl", 2)


def without(module: str, folder: Path) -> dict[str, str]:
    """An environment in which Python does not find a module."""
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(HIDDEN.replace("NAME", repr(module)))
    return {"PYTHONPATH": f"{folder}:{CLEAN.get('PYTHONPATH', '')}"}


def refused(*command: str | Path, **environment: str) -> str:
    """The message of `record` in an interpreter of its own."""
    done = subprocess.run(
        [sys.executable, *command], env=CLEAN | environment, capture_output=True, text=True, timeout=LONG, check=False,
        cwd=ROOT,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


def test_no_cluster_at_the_address(dataset: Path, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = ["-m", "sureenough", *words("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet"), "--ray"]
    message = refused(*command, f"127.0.0.1:{port}")
    assert f"no Ray cluster responds at 127.0.0.1:{port} (Connection refused): start one with `ray start" in message
    assert "is not the address of a Ray cluster: give HOST:PORT" in refused(*command, "ray://127.0.0.1:10001")


def test_ray_is_not_installed(dataset: Path, tmp_path: Path) -> None:
    command = ["-m", "sureenough", *words("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet"), "--ray"]
    message = refused(*command, "auto", **without("ray", tmp_path / "no"))
    assert "Ray is not installed: pip install 'sureenough[ray]'" in message


@pytest.mark.parametrize(
    ("program", "own"), [(OTHER_RAY, r"Ray: 1\.0\.0 Python: 3\."), (OTHER_PYTHON, r"Ray: 2\.\S+ Python: 3\.9\.1")]
)
def test_another_version_of_ray_or_python(
    cluster: TestCluster, dataset: Path, tmp_path: Path, program: str, own: str
) -> None:
    command = words("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet")
    message = refused("-c", program, *command, "--ray", cluster.address)
    theirs = (
        rf"the Ray cluster at {cluster.address} cannot be joined .* Ray: 2\.\S+ Python: {platform.python_version()}"
    )
    assert re.search(f"{theirs} .*{own}", message), message
    assert "use the same versions of Ray and Python on every machine" in message


def test_all_nodes_are_lost(cluster: TestCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "LOST_SECONDS", 0.0)

    async def sample(ray: Any) -> None:
        async with RayJobs(ray, Absent, parallel=1, calls=1) as opened:
            await opened.call(len)

    with connected(cluster.address) as joined:
        monkeypatch.setattr(jobs, "nodes", lambda ray: [])
        with pytest.raises(EngineUnavailable, match=r"no node of the Ray cluster is left to work on: start"):
            asyncio.run(sample(joined))


def test_a_node_without_the_package(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    command = words("http://127.0.0.1:9/v1", dataset, tmp_path / "pool.parquet")
    with cluster.node(**without("sureenough", tmp_path / "no")):
        message = refused("-m", "sureenough", *command, "--ray", cluster.address)
    assert "sureenough is not installed, here it is" in message
    assert "into the environment that `ray start` runs in there" in message


def test_a_full_disk_on_one_node(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    command = ["record", str(dataset), "-o", str(tmp_path / "pool.parquet"), "--engine", "tests.ray.engines:Writes"]
    with cluster.node(**{FULL: "1"}):
        message = refused("-m", "sureenough", *command, "--paths", "40", "--ray", cluster.address)
    assert re.search(r"on node [\d.]+: .* No space left on device: '/var/cache/model.bin'", message), message


def test_two_runs_on_one_output(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    with in_thread(gated()) as server, start_record(server.url, dataset, pool, "--ray", cluster.address) as first:
        server.allowed = 3
        until(lambda: first.poll() is not None or lines(journal) == 4, LONG, 0.02)
        second = ["-m", "sureenough", *words(server.url, dataset, pool), "--ray", cluster.address]
        assert f"{pool} is being written by process {first.pid} on " in refused(*second)
        server.allowed = 1000
        assert first.wait(LONG) == 0


def test_secrets_reach_the_nodes_and_nothing_else(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    key, password = "sk-planted-0123456789", "hunter2/§"
    with in_thread(serving(Manner(tokens=4))) as server:
        url = server.url.replace("http://", f"http://me:{quote(password, safe='')}@")
        place = ["record", str(dataset), "-o", str(tmp_path / "pool.parquet"), "--model", "tiny", "--paths", "2"]
        secrets = {"SUREENOUGH_URL": url, "SUREENOUGH_API_KEY": key}
        done = sureenough(*place, "--ray", cluster.address, env=CLEAN | secrets, timeout=LONG)
        assert done.returncode == 0, done.stderr
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {key}"}
        assert len(server.headers) == 4
    files = [file for folder in (cluster.folder, tmp_path) for file in folder.rglob("*") if file.is_file()]
    assert len(files) > 20
    for secret in (key, password, quote(password, safe="")):
        assert secret not in done.stdout + done.stderr
        assert not [file for file in files if secret.encode() in file.read_bytes()]


def test_a_node_whose_server_does_not_respond_is_skipped(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    pool = tmp_path / "pool.parquet"
    command = ["record", str(dataset), "-o", str(pool), "--engine", "tests.ray.engines:Absent", "--paths", "8"]
    with cluster.node(**{ABSENT: "1"}):
        done = sureenough(*command, "--parallel", "2", "--ray", cluster.address, env=CLEAN, timeout=LONG)
    assert (done.returncode, done.stdout) == (0, f"{pool}: 2 questions, 16 paths.\n"), done.stderr


def test_ctrl_c_leaves_a_pool_and_no_runner(cluster: TestCluster, dataset: Path, tmp_path: Path) -> None:
    pool, journal = tmp_path / "pool.parquet", tmp_path / "pool.parquet.journal"
    with in_thread(gated()) as server, start_record(server.url, dataset, pool, "--ray", cluster.address) as running:
        server.allowed = 3
        until(lambda: running.poll() is not None or lines(journal) == 4, LONG, 0.02)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(LONG)
    assert running.returncode == 130
    assert [line for line in err.splitlines() if " of 16 paths, " not in line] == []  # a slow machine shows progress
    assert out.startswith("13 paths are missing. The same command continues")
    until(lambda: not cluster.processes("ray::Runner"), LONG, 0.1)
