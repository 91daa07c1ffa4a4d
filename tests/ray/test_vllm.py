"""`record --ray --vllm`: a server per place on the cluster, started again if it dies, and gone at the end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from sureenough.drivers.ray_vllm import SHOWN, _end_of
from tests.cli.recording import CLEAN, record, rows, write_sums
from tests.engines.misbehaving import serving
from tests.in_thread import in_thread, until
from tests.processes import start, sureenough
from tests.ray.cluster import TestCluster
from tests.ray.test_record import LONG
from tests.ray.vllm_double import MANNER, install

PLACES = ("--vllm-resources", "vllm=1,CPU=0.5")


def servers(folder: Path) -> list[int]:
    """The processes of all servers that had requests so far."""
    return sorted(int(file.stem) for file in folder.glob("*.busy"))


def test_servers_are_started_again_and_gone_at_the_end(cluster: TestCluster, tmp_path: Path) -> None:
    dataset, double = write_sums(tmp_path / "sums.jsonl", 4), tmp_path / "double"
    whole, pool = tmp_path / "whole.parquet", tmp_path / "pool.parquet"
    with in_thread(serving(MANNER)) as server:
        assert record(server.url, dataset, whole).returncode == 0
    words = ["record", str(dataset), "-o", str(pool), "--vllm", "tiny", *PLACES, "--paths", "8", "--parallel", "2"]
    with (
        cluster.node({"vllm": 2}, **install(double)),
        start(*words, "--ray", cluster.address, env=CLEAN) as running,
    ):
        until(lambda: running.poll() is not None or len(servers(double)) == 2, LONG, 0.05)
        assert running.poll() is None, running.communicate()
        os.kill(servers(double)[0], signal.SIGKILL)
        until(lambda: running.poll() is not None or len(servers(double)) == 3, LONG, 0.05)
        (double / "go").touch()
        out, errors = running.communicate(LONG)
        assert (running.returncode, out) == (0, f"{pool}: 4 questions, 32 paths.\n"), errors
        until(lambda: not any(map(psutil.pid_exists, servers(double))), LONG, 0.1)
    assert rows(pool) == rows(whole)


def test_a_server_that_does_not_start_ends_the_work(cluster: TestCluster, tmp_path: Path) -> None:
    dataset, pool = write_sums(tmp_path / "sums.jsonl", 1), tmp_path / "pool.parquet"
    words = ["record", str(dataset), "-o", str(pool), "--vllm", "tiny", "--vllm-options", "--fails", *PLACES]
    with cluster.node({"vllm": 1}, **install(tmp_path / "double")):
        done = sureenough(*words, "--ray", cluster.address, env=CLEAN, timeout=LONG)
    assert done.returncode == 3, done.stderr
    assert "vLLM did not start with tiny (exit code 1): ValueError: the model does not fit" in done.stdout + done.stderr


def test_the_end_of_a_long_log_is_quoted_without_secrets(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("x" * 1_000_000 + "\nargs: --api-key sk-planted-0123456789 é\nValueError: too large\n")
    end = _end_of(log)
    assert end.endswith("x args: --api-key *** é ValueError: too large")
    assert len(end) == SHOWN
    log.write_text("")
    assert _end_of(log) == ""


def test_no_place_for_a_server(cluster: TestCluster, tmp_path: Path) -> None:
    dataset = write_sums(tmp_path / "sums.jsonl", 1)
    words = ["record", str(dataset), "-o", str(tmp_path / "pool.parquet"), "--vllm", "tiny", "--ray", cluster.address]
    done = sureenough(*words, env=CLEAN, timeout=LONG)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no node of the Ray cluster has CPU=1 and GPU=1 for a vLLM server" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "--vllm starts servers on a Ray cluster: add --ray, or start `sureenough serve-vllm tiny`"),
        (("--ray", "--url", "http://127.0.0.1:9/v1"), "--vllm is the engine: leave out --url"),
        (("--ray", "--vllm-resources", "GPU"), "--vllm-resources GPU will not do: give numbers above 0"),
        (("--ray", "--vllm-resources", "GPU=0"), "--vllm-resources GPU=0 will not do: give numbers above 0"),
        (("--ray", "--vllm-options", "'a"), "--vllm-options cannot be read (No closing quotation)"),
    ],
)
def test_options_that_do_not_fit(words: tuple[str, ...], message: str, tmp_path: Path) -> None:
    dataset = write_sums(tmp_path / "sums.jsonl", 1)
    fixed = ["record", str(dataset), "-o", str(tmp_path / "pool.parquet"), "--vllm", "tiny"]
    done = sureenough(*fixed, *words, env=CLEAN)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())


RUNNER = """
import subprocess, sys, time
from sureenough.drivers.ray_vllm import _guard
server = subprocess.Popen(["sh", "-c", "sleep 600 & echo engine $!; wait"], start_new_session=True)
_guard(server.pid, sys.argv[1])
print("server", server.pid, flush=True)
time.sleep(600)
"""


def alive(process: psutil.Process) -> bool:
    with suppress(psutil.NoSuchProcess):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def test_what_a_server_has_started_ends_if_runner_and_server_are_killed(tmp_path: Path) -> None:
    folder = tmp_path / "server"
    folder.mkdir()
    (folder / "log").touch()
    words = [sys.executable, "-c", RUNNER, str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as runner:
        assert runner.stdout is not None
        processes = dict(runner.stdout.readline().split() for _ in range(2))
        engine = psutil.Process(int(processes["engine"]))
        os.kill(int(processes["server"]), signal.SIGKILL)  # as Ray does with the children of a runner
        assert engine.is_running()
        assert folder.exists()
        runner.kill()
    until(lambda: not alive(engine), 60, 0.05)
    until(lambda: not folder.exists(), 60, 0.05)
