"""A Ray cluster on this machine, in a process of its own: `python -m tests.ray.cluster`, with RAY_TMPDIR set.

It reads commands from its standard input, `add` with variables for the node's environment and its own resources, and
`kill`, which ends the node that was added last as a power failure would; when its input ends, so does the cluster.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from shutil import rmtree
from typing import Any

import psutil

from tests.in_thread import until

MARK = "SUREENOUGH_TEST_CLUSTER"
ROOT = Path(__file__).parents[2]


def main() -> None:
    """Start a node, print the cluster's address, and obey."""
    from ray.cluster_utils import Cluster

    size = {"num_cpus": 1, "object_store_memory": 80_000_000}
    for attempts_left in (2, 1, 0):
        cluster = Cluster()  # one that failed may have left its node, and would get a second one
        try:
            cluster.add_node(**size, include_dashboard=False)
            break
        except Exception:  # Ray waits for 30 s, which a busy machine may exceed
            cluster.shutdown()
            if not attempts_left:
                raise
    print(cluster.address, flush=True)
    added: list[Any] = []
    for line in sys.stdin:
        command, _, options = line.partition(" ")
        if command == "add":
            added.append(cluster.add_node(**size, **json.loads(options)))
        else:
            cluster.remove_node(added.pop(), allow_graceful=False)
        print("done", flush=True)
    cluster.shutdown()


class TestCluster:
    """The cluster as tests use it."""

    __test__ = False

    def __init__(self, process: subprocess.Popen[str], mark: str, folder: Path) -> None:
        self._process, self._mark, self.folder = process, mark, folder
        self._has_node = False
        self.address = self._line()

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        assert line, (self.folder / "stderr").read_text()[-3000:]
        return line

    def _send(self, command: str) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(command + "\n")
        self._process.stdin.flush()
        assert self._line() == "done"

    @contextmanager
    def node(self, resources: dict[str, float] | None = None, /, **variables: str) -> Iterator[None]:
        """Another node, until the block ends; it may be killed before."""
        self._send(f"add {json.dumps({'env_vars': variables, 'resources': resources or {}})}")
        self._has_node = True
        try:
            yield
        finally:
            self.kill_node()

    def kill_node(self) -> None:
        if self._has_node:
            self._has_node = False
            self._send("kill")

    def processes(self, title: str = "") -> list[psutil.Process]:
        """All processes that the cluster started, and what these started, whose titles hold a text."""
        found = []
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                alive = process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE
                if alive and title in " ".join(process.cmdline()[:1]):
                    found.append(process)
        return found


@contextmanager
def started_cluster() -> Iterator[TestCluster]:
    """A cluster of one node; no process of it is left afterwards."""
    mark = uuid.uuid4().hex
    folder = Path(tempfile.mkdtemp(prefix="se-", dir="/tmp"))  # sockets in it need a short path
    (folder / "ray").mkdir()  # Ray writes the cluster's address there before it makes the folder
    environment = {**os.environ, MARK: mark, "RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
    environment["RAY_TMPDIR"] = str(folder)
    with open(folder / "stderr", "w") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.ray.cluster"], cwd=ROOT, env=environment, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors,
        )  # fmt: skip
    try:
        with process:
            cluster = TestCluster(process, mark, folder)
            try:
                yield cluster
            finally:
                assert process.stdin is not None
                process.stdin.close()
                process.wait(120)
                until(lambda: not cluster.processes(), 60, pause=0.2)
    finally:
        process.kill()
        rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
