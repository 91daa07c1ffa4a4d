"""No client takes more than its share: slots, connections, time, sizes; numbers are those of docs/LOG.md."""

from __future__ import annotations

import asyncio
import json
from contextlib import closing
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, Router

from sureenough.core.events import Token
from sureenough.engines import Fake
from sureenough.errors import UsageError
from sureenough.server import ServerLimits, ServerSettings
from tests.engines.misbehaving import Manner
from tests.in_thread import until
from tests.server.sending import BODY, connect, is_open, plain, post
from tests.server.serving import ours, serving_app
from tests.server.upstream import Upstream, an_upstream, before


def test_14_3_messages_without_content_leak_no_slots(upstream: Upstream) -> None:
    limits = ServerLimits(requests=2)
    calls = [{"role": "user", "content": "3?"}, {"role": "assistant", "tool_calls": []}]
    with before(upstream, limits=limits, log_requests=True) as (url, state):
        for _ in range(4):
            assert post(url, messages=[{"role": "user"}]).status_code == 400
            assert post(url, messages=calls).status_code == 200
            assert post(url, "/api/runs", messages=calls).status_code == 201
            until(lambda: state.requests == 0)


def test_14_7_a_head_has_a_time_limit(upstream: Upstream) -> None:
    with (
        before(upstream, limits=ServerLimits(head=0.5)) as (url, _),
        closing(connect(url)) as silent,
        closing(connect(url)) as slow,
    ):
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        until(lambda: not is_open(silent) and not is_open(slow), 10)


def test_14_7_many_idle_connections_make_room(upstream: Upstream) -> None:
    with before(upstream, limits=ServerLimits(idle=20)) as (url, _):
        connections = [connect(url) for _ in range(60)]
        assert httpx.get(f"{url}/healthz").status_code == 200
        until(lambda: sum(map(is_open, connections)) <= 20, 10)
        for connection in connections:
            connection.close()


def test_14_7_health_checks_share_one_probe() -> None:
    probes = 0

    async def models(request: Request) -> JSONResponse:
        nonlocal probes
        probes += 1
        await asyncio.sleep(0.3)
        return JSONResponse({"data": []})

    async def check(url: str) -> list[int]:
        async with httpx.AsyncClient(timeout=30) as http:
            return [
                reply.status_code for reply in await asyncio.gather(*(http.get(f"{url}/readyz") for _ in range(40)))
            ]

    with (
        serving_app(Router(routes=[Route("/v1/models", models)])) as up,
        ours(ServerSettings(upstream=f"{up.url}/v1")) as (url, _),
    ):
        assert asyncio.run(check(url)) == [200] * 40
    assert probes == 1


def test_14_7_clients_that_do_not_read_are_dropped() -> None:
    async def flood(request: Request) -> StreamingResponse:
        async def parts() -> Any:
            while True:
                yield b"data: " + b"x" * 65_536 + b"\n\n"
                await asyncio.sleep(0)

        return StreamingResponse(parts(), media_type="text/event-stream")

    flooding = Router(routes=[Route("/v1/chat/completions", flood, methods=["POST"])])
    limits = ServerLimits(requests=2, send=1.0)
    with serving_app(flooding) as up, ours(ServerSettings(upstream=f"{up.url}/v1", limits=limits)) as (url, state):
        content = json.dumps(BODY | {"model": "tiny", "sureenough": None, "stream": True}).encode()
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        connections = [connect(url) for _ in range(2)]
        for connection in connections:
            connection.sendall(head + b"Content-Length: %d\r\n\r\n" % len(content) + content)
        until(lambda: state.requests == 2)
        until(lambda: state.requests == 0, 20)
        for connection in connections:
            connection.close()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 513}, "513 completions"),
        ({"n": "500"}, "Expected `int | null`, got `str` (at n)"),
        ({"n": True}, "got `bool` (at n)"),
        ({"n": 2, "prompt": ["a"] * 300}, "600 completions"),
        ({"best_of": 600}, "600 completions"),
        ({"max_tokens": 10**9}, "Expected `int` <= 32768 (at max_tokens)"),
        ({"max_completion_tokens": 32_769}, "<= 32768 (at max_completion_tokens)"),
        ({"max_tokens": 0.5}, "Expected `int | null`, got `float` (at max_tokens)"),
    ],
)
def test_14_8_the_caps_apply_to_plain_names(upstream: Upstream, served: str, fields: Any, message: str) -> None:
    sent = len(upstream.bodies)
    reply = plain(served, **fields)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]
    assert len(upstream.bodies) == sent
    with before(upstream, limits=ServerLimits(plain=False)) as (url, _):
        assert plain(url, **fields).status_code == 200


def test_14_8_prompts_of_token_numbers_are_one_completion(served: str) -> None:
    assert post(served, "/v1/completions", model="tiny", sureenough=None, prompt=[1] * 1000).status_code == 200


@pytest.mark.parametrize(
    ("strategy", "fields", "longest"),
    [
        ("predictive+sc:runs=1,rollouts=1,max_steps=2,rollout_tokens=30000", {}, 9),
        ("phi+sc:runs=1,beams=1,rollouts=1,max_steps=1", {"max_tokens": 7}, 7),
    ],
)
def test_a_search_cannot_exceed_the_tokens_of_a_path(strategy: str, fields: Any, longest: int) -> None:
    if strategy.startswith("phi"):
        pytest.importorskip("sklearn")
    limits = ServerLimits(path_tokens=9)
    with an_upstream(Manner()) as upstream, before(upstream, window=4, limits=limits) as (url, _):
        response = post(url, model=f"tiny@{strategy}", sureenough=None, **fields)
    assert response.status_code == 200, response.text
    assert max(json.loads(sent)["max_tokens"] for sent in upstream.bodies) == longest
    assert response.json()["sureenough"]["tokens"]["kept"] <= longest


def test_a_search_on_an_engine_cannot_exceed_the_tokens_of_a_path() -> None:
    engine = Fake(lambda seed: [], lambda beginning, seed: [[Token("x", 0.5, 9.0)] * 50])
    settings = ServerSettings(engine=engine, models=("mine",), limits=ServerLimits(path_tokens=9))
    with ours(settings) as (url, _):
        reply = post(url, model="mine@predictive+sc:runs=1,rollouts=1,max_steps=1", sureenough=None).json()
    assert reply["sureenough"]["tokens"]["kept"] == 9


def test_a_search_with_too_many_candidates_is_refused(served: str) -> None:
    response = post(served, model="tiny@phi+sc:beams=64,rollouts=64", sureenough=None)
    assert response.status_code == 400
    assert "4096 candidates per step" in response.json()["error"]["message"]


def test_14_22_uploads_count_as_requests(upstream: Upstream) -> None:
    with before(upstream, limits=ServerLimits(requests=1)) as (url, state), closing(connect(url)) as upload:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        upload.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        until(lambda: state.requests == 1)
        assert post(url).status_code == 429
        upload.close()
        until(lambda: state.requests == 0)
        assert post(url).status_code == 200


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"paths": 8, "strategy": "ddc"}, "warms up with 16"),
        ({"paths": 600}, "paths=600"),
        ({"parallel": 65}, "parallel=65"),
        ({"limits": ServerLimits(paths=32)}, "limit of 32"),
        ({"strategy": "ddc:warmup=100"}, "warms up with 100"),
    ],
)
def test_13_settings_that_fail_every_request_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        ServerSettings(**settings)
