"""`serve --ray`: two replicas behind one address; one is killed, the others go on, and nothing is left at the end."""

from __future__ import annotations

import random
import re
import signal
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.in_thread import in_thread, until
from tests.processes import CLEAN, Running, configured, start, sureenough
from tests.ray.cluster import TestCluster
from tests.ray.test_record import LONG, gated

KEY, UPSTREAM_KEY = "client-planted-0123456789", "sk-planted-0123456789"


class Endpoint:
    """The server as a client sees it."""

    def __init__(self, running: Running) -> None:
        self.running = running
        line = running.stdout.readline()
        address = re.search(r"serves at (http://\S+)/v1 with Ray Serve", line)
        assert address, line + running.stderr.read()
        self.client = httpx.Client(
            base_url=address[1], timeout=LONG, headers={"Authorization": f"Bearer {KEY}"}, trust_env=False
        )

    def ask(self, question: str, **options: Any) -> httpx.Response:
        messages = [{"role": "user", "content": question}]
        body = {"model": "tiny", "messages": messages, "sureenough": {"paths": 8, "window": 8, **options}}
        return self.client.post("/v1/chat/completions", json=body)

    def answered(self, question: str) -> bool:
        """Whether the question got an answer: not if it was sent to a replica that has just died."""
        with suppress(httpx.TransportError):
            return self.ask(question).status_code == 200
        return False


def free_port() -> str:
    """Below those that the system gives to connections, of which Ray opens many."""
    while True:
        port = random.randrange(15_000, 30_000)
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return str(port)


ONE = ("--ray-options", '{"num_replicas": 1}')


@contextmanager
def serving(cluster: TestCluster, url: str, folder: Path, *more: str) -> Iterator[Endpoint]:
    (folder / "keys").write_text(KEY)
    words = ["serve", "--url", url, "--model", "tiny", "--port", free_port(), "--key-file", str(folder / "keys"), *more]
    environment = CLEAN | {"SUREENOUGH_API_KEY": UPSTREAM_KEY} | configured(folder, "[serve.limits]\ngrace = 4\n")
    with start(*words, "--ray", cluster.address, env=environment) as running:
        try:
            endpoint = Endpoint(running)
            with endpoint.client:
                yield endpoint
        finally:
            running.send_signal(signal.SIGTERM)
            running.wait(LONG)


def test_replicas_outlive_one_of_them_and_drain(cluster: TestCluster, tmp_path: Path) -> None:
    with cluster.node(), in_thread(gated()) as server, serving(cluster, server.url, tmp_path) as endpoint:
        assert endpoint.client.get("/healthz").status_code == 200
        assert endpoint.client.get("/v1/models", headers={"Authorization": "Bearer no"}).status_code == 401
        reply = endpoint.ask("1 + 1?")
        assert reply.status_code == 200, reply.text
        assert reply.json()["sureenough"]["paths"] >= 1
        assert {headers["authorization"] for headers in server.headers} == {f"Bearer {UPSTREAM_KEY}"}
        for number in range(5):
            assert endpoint.ask(f"{number} + 2?").status_code == 200
        lines = [line for _ in range(8) for line in endpoint.client.get("/metrics").text.splitlines()]
        names = {re.search(r'replica="(\w+)"', line) for line in lines if not line.startswith("#")}
        assert len({name and name[1] for name in names} - {None}) in (1, 2)
        assert None not in names, "every line says whose it is"
        assert "may reach one that does not have its run" in endpoint.client.get("/api/options").json()["refusal"]

        replicas = cluster.processes("ServeReplica")
        assert len(replicas) == 2
        replicas[0].kill()
        for number in range(5):
            until(partial(endpoint.answered, f"{number} + 3?"), LONG, 0.2)
        until(lambda: len(cluster.processes("ServeReplica")) == 2, LONG, 0.2)  # Ray Serve starts another
        assert endpoint.running.poll() is None

        server.allowed = len(server.requests) + 3  # the others of this request never end
        with ThreadPoolExecutor(1) as thread:
            last = thread.submit(endpoint.ask, "4 + 4?", strategy="sc", parallel=8)
            until(lambda: server.running == 5, LONG, 0.02)
            endpoint.running.send_signal(signal.SIGTERM)
            reply = last.result(LONG)
        assert reply.status_code == 200, reply.text
        assert reply.json()["sureenough"]["reason"] == "interrupted"
        _, errors = endpoint.running.communicate(LONG)
        assert endpoint.running.returncode == 0, errors
        assert "Traceback" not in errors
        until(lambda: not cluster.processes("Serve"), LONG, 0.1)
        assert not cluster.processes("NoticeBoard")
        files = [file for file in cluster.folder.rglob("*") if file.is_file()]
        for secret in (KEY, UPSTREAM_KEY):
            assert not [file for file in files if secret.encode() in file.read_bytes()]
            assert secret not in errors


def test_a_replica_that_cannot_start(cluster: TestCluster, tmp_path: Path) -> None:
    words = ["serve", "--model", str(tmp_path / "missing.gguf"), "--port", free_port()]
    done = sureenough(*words, "--ray", cluster.address, env=CLEAN, timeout=LONG)
    assert (done.returncode, done.stdout) == (2, ""), done.stderr
    assert "a replica cannot start: " in done.stderr
    assert "missing.gguf" in done.stderr
    assert "Traceback" not in done.stderr
    assert not cluster.processes("Serve")
    assert not cluster.processes("NoticeBoard")


def test_a_second_command_is_refused_and_a_killed_one_is_replaced(cluster: TestCluster, tmp_path: Path) -> None:
    with in_thread(gated()) as server:
        with serving(cluster, server.url, tmp_path, *ONE) as endpoint:
            words = ["serve", "--url", server.url, "--model", "tiny", "--ray", cluster.address]
            refused = sureenough(*words, "--port", free_port(), env=CLEAN, timeout=LONG)
            assert refused.returncode == 2
            assert f"already serves sureenough for process {endpoint.running.pid} on" in refused.stderr
            endpoint.running.kill()
            endpoint.running.wait(LONG)
            assert endpoint.ask("1 + 1?").status_code == 200  # replicas outlive the command
        with serving(cluster, server.url, tmp_path, *ONE) as endpoint:
            assert endpoint.ask("1 + 1?").status_code == 200
        assert endpoint.running.returncode == 0
        until(lambda: not cluster.processes("Serve"), LONG, 0.1)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (ONE, "--ray-options are for Ray Serve: add --ray"),
        (("--ray", "auto", "--ray-options", "[1]"), "--ray-options must be a JSON object such as"),
        (("--ray", "auto", "--engine", "tests.ray.engines:Absent"), "--engine runs in this process: leave --ray out"),
        (("--ray", "auto", "--state", "learned"), "each replica learns by itself: leave it out"),
    ],
)
def test_options_that_do_not_fit(words: tuple[str, ...], message: str) -> None:
    done = sureenough("serve", *words, env=CLEAN)
    assert (done.returncode, done.stdout) == (2, "")
    assert message in " ".join(done.stderr.split())
