"""Every fault of an upstream and every fault of a client, through the library and through the server.

Whatever arrives: only our own errors, every token in a bucket, nothing left behind, and within a time limit.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

import sureenough as se
from sureenough.core.outcome import BUCKETS
from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines import Prompt
from sureenough.engines.openai.client import Timeouts
from sureenough.engines.openai.sse import SSEParser
from sureenough.errors import EngineError
from sureenough.pools.journal import Journal
from sureenough.server import ServerLimits, ServerSettings
from sureenough.server.consensus import ServerState
from tests.adversarial.hostile_client import ATTACKS, BODY, Target
from tests.adversarial.hostile_upstream import FAULTS, with_fault
from tests.engines.misbehaving import Manner
from tests.engines.raw_server import RawServer, all_closed, raw_server
from tests.in_thread import until
from tests.server.serving import ours
from tests.server.upstream import an_upstream, before

TIMES = Timeouts(connect=5, first_token=0.5, stall=0.5)
LIMITS = ServerLimits(seconds=2, head=1, send=1, requests=8, body=100_000)
SLOWEST = 30.0
"""Seconds that only a hang would need."""
CLEAN = {200, 400, 404, 502, 503, 504}


def open_files() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))


def check_tokens(tokens: dict[str, Any]) -> None:
    """Every token is in exactly one bucket, and no count is negative."""
    assert tokens["total"] == sum(tokens[name] for name in BUCKETS)
    assert min(tokens[name] for name in (*BUCKETS, "total", "prompt")) >= 0


# -- upstreams


@pytest.mark.parametrize("strategy", ["sc", "ddc:warmup=2"])
@pytest.mark.parametrize("fault", FAULTS)
def test_ask_survives_an_upstream(fault: str, strategy: str) -> None:
    async def use() -> se.Outcome | EngineError:
        async with raw_server(with_fault(fault)) as server:
            engine = se.OpenAI(server.url, "tiny", timeouts=TIMES, retries=0, max_path_tokens=500)
            try:
                return await asyncio.to_thread(se.ask, "3 + 4?", engine, strategy, paths=4, parallel=2, window=4)
            except EngineError as error:
                return error
            finally:
                assert not server.overfed, "an endless reply was read to its end"
                await all_closed(server)

    asyncio.run(asyncio.sleep(0))
    before = open_files()
    result = asyncio.run(asyncio.wait_for(use(), SLOWEST))
    assert open_files() <= before + 2
    if isinstance(result, EngineError):
        assert str(result).isprintable()
        return
    check_tokens({name: getattr(result.tokens, name) for name in (*BUCKETS, "total", "prompt")})
    assert result.answer != "666", "an answer of bytes that no request asked for"
    assert all(note.isprintable() for note in result.notes)
    result.to_json()


@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_recorded_of_an_upstream_can_be_read_again(fault: str, tmp_path: Path) -> None:
    file, questions = tmp_path / "journal", [RecordQuestion("q", Prompt.user("3 + 4?"))]

    async def use() -> None:
        async with raw_server(with_fault(fault)) as server:
            engine = se.OpenAI(server.url, "tiny", timeouts=TIMES, retries=0, max_path_tokens=500)
            with Journal(file, {"model": "tiny"}) as journal, suppress(EngineError):
                await record(questions, engine, journal, paths=24, parallel=4, seed=0)

    asyncio.run(asyncio.wait_for(use(), SLOWEST))
    with Journal(file, {"model": "tiny"}) as journal:
        for path in journal.values():
            assert all(0 <= value <= 100 for value in (*path.peak, *path.conf))


@pytest.mark.parametrize(
    "fault", ["endless_data_lines", "endless_line", "endless_head", "deep_nesting", "odd_finish_reasons", "cut_off"]
)
def test_14_5_what_a_lost_path_received_is_freed_without_the_garbage_collector(fault: str) -> None:
    async def use() -> int:
        async with raw_server(with_fault(fault)) as server:
            engine = se.OpenAI(server.url, "tiny", timeouts=TIMES, retries=0)
            with suppress(EngineError):
                await se.aask("3 + 4?", engine, "ddc:warmup=2", paths=4, parallel=2, window=4)
            return sum(isinstance(item, SSEParser) for item in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        assert asyncio.run(asyncio.wait_for(use(), SLOWEST)) == 0
    finally:
        gc.enable()


async def send(http: httpx.AsyncClient, url: str, **fields: Any) -> None:
    """One request; its response must be whole, in good order, and account for every token."""
    plain = fields.get("model") == "tiny"
    try:
        response = await http.post(f"{url}/v1/chat/completions", json=BODY | fields)
    except httpx.RemoteProtocolError:
        assert plain, "a vote has a response, whatever the upstream does"
        return
    assert response.status_code in (CLEAN if not plain else {*CLEAN, 401, 403, 500, 599}), response.text
    assert "Traceback" not in response.text
    if plain:
        return
    if fields.get("stream") and response.status_code == 200:
        assert response.text.endswith("data: [DONE]\n\n") or '"error"' in response.text
        return
    reply = response.json()
    if response.status_code == 200:
        check_tokens(reply["sureenough"]["tokens"])
        assert reply["sureenough"]["answer"] != "666"
    else:
        assert reply["error"]["message"]


async def use_server(url: str, state: ServerState, upstream: RawServer) -> None:
    async with httpx.AsyncClient(timeout=SLOWEST) as http:
        votes: list[dict[str, Any]] = [{}, {"stream": True}, {"model": "tiny@ddc:warmup=2"}]
        await asyncio.gather(*(send(http, url, **fields) for fields in votes))
        assert not upstream.overfed, "an endless reply was read to its end"
        question = [{"role": "user", "content": "?"}]
        await asyncio.gather(
            send(http, url, model="tiny", stream=True, sureenough=None),
            send(http, url, model="tiny", sureenough=None, messages=question),
        )
        began = time.monotonic()
        assert (await http.get(f"{url}/healthz")).status_code == 200
        assert time.monotonic() - began < 2
    while state.requests or state.runs:
        await asyncio.sleep(0.01)


@pytest.mark.parametrize("fault", FAULTS)
def test_serve_survives_an_upstream(fault: str, caplog: pytest.LogCaptureFixture) -> None:
    async def use() -> None:
        async with raw_server(with_fault(fault)) as upstream:
            settings = ServerSettings(
                upstream=upstream.url, retries=0, first_token=0.5, stall=0.5, window=4, limits=LIMITS
            )
            with ours(settings) as (url, state):
                await use_server(url, state, upstream)
            await all_closed(upstream)

    asyncio.run(asyncio.wait_for(use(), SLOWEST))
    assert not [record for record in caplog.records if record.exc_info and record.name.startswith("sureenough")]


# -- clients


@pytest.fixture(scope="module")
def attacked() -> Iterator[tuple[str, ServerState]]:
    manner = Manner(tokens=20_000, logprobs=False)
    with (
        an_upstream(lambda seed: manner if seed == 0 else Manner()) as upstream,
        before(upstream, limits=LIMITS, log_requests=True) as server,
    ):
        yield server


def is_clean(received: bytes) -> bool:
    """Nothing, or a response that is not a failure of ours."""
    status = received.partition(b" ")[2][:3]
    return not received or (received.startswith(b"HTTP/1.1 ") and not status.startswith(b"5"))


@pytest.mark.parametrize("name", ATTACKS)
def test_serve_survives_a_client(
    name: str, attacked: tuple[str, ServerState], caplog: pytest.LogCaptureFixture
) -> None:
    url, state = attacked
    with ThreadPoolExecutor(3) as clients:
        began = time.monotonic()
        attacks = [clients.submit(ATTACKS[name], Target(url, seconds=2), random.Random(seed)) for seed in range(3)]
        for received in (attack.result() for attack in attacks):
            assert is_clean(received), received[:500]
            assert httpx.get(f"{url}/healthz", timeout=5).status_code == 200
        assert time.monotonic() - began < SLOWEST
    until(lambda: state.requests == 0 and not state.runs, 15)
    assert not [record for record in caplog.records if record.exc_info and record.name.startswith("sureenough")]


def test_no_request_hides_in_another(attacked: tuple[str, ServerState]) -> None:
    received = ATTACKS["smuggling"](Target(attacked[0], seconds=3), random.Random(0))
    assert b"sureenough_requests" not in received


def test_all_clients_at_once_leave_nothing_behind(attacked: tuple[str, ServerState]) -> None:
    url, state = attacked
    httpx.get(f"{url}/healthz")
    before = open_files()

    async def all_of_them() -> None:
        await asyncio.gather(
            *(
                asyncio.to_thread(function, Target(url, seconds=2), random.Random(seed))
                for function in ATTACKS.values()
                for seed in range(2)
            )
        )

    asyncio.run(asyncio.wait_for(all_of_them(), 60))
    until(lambda: state.requests == 0 and not state.runs, 15)
    response = httpx.post(f"{url}/v1/chat/completions", json=BODY, timeout=SLOWEST)
    check_tokens(json.loads(response.text)["sureenough"]["tokens"])
    until(lambda: open_files() <= before + 24, 25)  # connections to the upstream are kept for 15 s
