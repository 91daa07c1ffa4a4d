"""Upstreams that die, come back, stall or break off: every request ends with an answer or a clean 502 or 503."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from sureenough.core.events import path_seed
from sureenough.server import ServerSettings
from tests.engines.misbehaving import Manner
from tests.in_thread import until
from tests.server.openai_client import LONG
from tests.server.sending import BODY, counters, post, serving_process
from tests.server.serving import ours
from tests.server.upstream import KEY, an_upstream, before

EIGHT = {"paths": 8}
CLEAN = {200, 502, 503}


def test_liveness_does_not_depend_on_the_upstream_and_readiness_does() -> None:
    """Both get a response in time."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        settings = ServerSettings(upstream=f"http://127.0.0.1:{silent.getsockname()[1]}/v1", upstream_key=KEY)
        with ours(settings) as (url, _):
            assert httpx.get(f"{url}/readyz", timeout=30).status_code == 503
            assert httpx.get(f"{url}/healthz").status_code == 200


@pytest.mark.parametrize("finish", ["stop", "length"])
def test_the_finish_reason_of_the_upstream_is_passed_on(finish: str) -> None:
    with an_upstream(Manner(finish=finish)) as up, before(up) as (url, _):
        assert post(url, sureenough=EIGHT).json()["choices"][0]["finish_reason"] == finish


def test_an_upstream_killed_and_restarted_under_load() -> None:
    slow = Manner(tokens=30, delay=0.005)
    with an_upstream(slow) as up:
        port = up.listening.port
        with before(up, retries=0) as (url, state):
            ended: Counter[int] = Counter()
            told: list[dict[str, Any]] = []
            enough = threading.Event()

            async def client() -> None:
                async with httpx.AsyncClient(timeout=60) as http:
                    while not enough.is_set():
                        reply = await http.post(f"{url}/v1/chat/completions", json=BODY | {"sureenough": EIGHT})
                        ended[reply.status_code] += 1
                        told.append(reply.json())
                        await asyncio.sleep(0.01)

            async def clients() -> None:
                async with asyncio.TaskGroup() as tasks:
                    for _ in range(8):
                        tasks.create_task(client())

            load = threading.Thread(target=asyncio.run, args=(clients(),))
            load.start()
            try:
                until(lambda: ended[200] >= 8)
                for _ in range(2):
                    up.stop()
                    lost = ended.total() - ended[200]
                    until(partial(lambda before: ended.total() - ended[200] > before, lost))
                    with an_upstream(slow, port) as again:
                        until(partial(lambda before: ended[200] >= before + 8, ended[200]))
                        again.stop()
            finally:
                enough.set()
                load.join(60)
            assert set(ended) <= CLEAN, ended
            assert all("sureenough" in one or one["error"]["code"].startswith("upstream") for one in told)
            assert (state.requests, len(state.runs)) == (0, 0)


def test_the_vote_counts_the_paths_that_were_complete() -> None:
    """Half of the paths break off: the others vote."""
    lost = {path_seed(0, number) for number in range(0, 8, 2)}

    def manner(seed: int) -> Manner:
        return Manner(answer="7", cut_after=5 if seed in lost else None)

    with an_upstream(manner) as up, before(up) as (url, _):
        reply = post(url, sureenough=EIGHT)
    assert reply.status_code == 200
    told = reply.json()["sureenough"]
    assert (told["answer"], told["failed"]) == ("7", 4)
    assert any("lost to the engine" in note for note in told["notes"])


@pytest.mark.parametrize("stream", [False, True])
def test_an_upstream_that_cannot_be_reached(stream: bool) -> None:
    with ours(ServerSettings(upstream="http://127.0.0.1:9/v1", retries=0)) as (url, _):
        for model in ("tiny@sc", "tiny"):
            reply = post(url, model=model, stream=stream, sureenough={"paths": 8} if "@" in model else None)
            assert (reply.status_code, reply.json()["error"]["code"]) == (503, "upstream_unavailable")
            assert "retry-after" in reply.headers
            assert "127.0.0.1:9" not in reply.text, "where the upstream is, is nobody's business"
        assert httpx.get(f"{url}/v1/models").status_code == 503


def test_every_path_breaks_off() -> None:
    with an_upstream(Manner(cut_after=4)) as up, before(up) as (url, _):
        assert post(url, sureenough=EIGHT).status_code == 502
        streamed = post(url, stream=True, sureenough=EIGHT)
    assert streamed.status_code == 200, "it had begun"
    assert '"code":"upstream_error"' in streamed.text.split("data: ")[-1]


@pytest.mark.parametrize(
    ("bad", "status", "fates"),
    [
        (Manner(role_first=False, cut_after=4), 502, {"failed": 8}),
        (Manner(status=400), 400, {"kept": 2}),  # the third path, in the middle of the run
    ],
)
def test_tokens_of_runs_that_fail_are_counted(bad: Manner, status: int, fates: dict[str, int]) -> None:
    good = set() if bad.cut_after else {path_seed(0, number) for number in range(2)}

    with an_upstream(lambda seed: Manner(role_first=False) if seed in good else bad) as up, before(up) as (url, _):
        assert post(url, sureenough=EIGHT | {"parallel": 1}).status_code == status
        counted = counters(url)
    assert {name: counted[f'tokens_total{{bucket="{name}"}}'] for name in fates} == dict.fromkeys(fates, up.made)
    assert counted['runs_total{reason="error"}'] == 1
    assert counted['paths_total{what="started"}'] == (8 if bad.cut_after else 3)


def test_deadlines_give_the_vote_so_far() -> None:
    with an_upstream(LONG) as up, before(up) as (url, _):
        reply = post(url, sureenough={"deadline": 0.5})
        assert reply.status_code == 200
        assert reply.json()["sureenough"]["reason"] == "deadline"
        assert reply.json()["choices"][0]["finish_reason"] == "length"
        until(lambda: up.running == 0)


def test_sigterm_lets_the_running_request_end_with_its_vote(tmp_path: Path) -> None:
    """SIGTERM: no new requests; the running one ends with the vote so far, in time; exit code 0."""
    with an_upstream(LONG) as up, serving_process(up.url, tmp_path, 4) as (server, url):
        with ThreadPoolExecutor() as clients:
            vote = clients.submit(post, url, sureenough=EIGHT)
            until(lambda: up.running == 8)
            server.send_signal(signal.SIGTERM)
            reply = vote.result(30)
        _, log = server.communicate(timeout=30)
        until(lambda: up.running == 0)
    assert server.returncode == 0, log
    assert (reply.status_code, reply.json()["sureenough"]["reason"]) == (200, "interrupted")
    assert "3 + 4?" not in log, "no text of requests in the log"
    assert KEY not in log
