"""Defects of the server, each reproduced as it was reported; the numbers are those of issue 14."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route, Router

from sureenough.errors import UsageError
from sureenough.json_text import encode
from sureenough.server import ServerLimits, ServerSettings
from sureenough.server.passthrough import KeyMask, _headers
from tests.engines.misbehaving import Manner
from tests.server.serving import ours, serving_app, until
from tests.server.upstream import KEY, Upstream, an_upstream

BODY: dict[str, Any] = {
    "model": "tiny@sc", "messages": [{"role": "user", "content": "3 + 4?"}], "sureenough": {"paths": 4},
}  # fmt: skip
ENDLESS = Manner(tokens=20_000, delay=0.01)


def post(url: str, path: str = "/v1/chat/completions", **fields: Any) -> httpx.Response:
    """One request."""
    return httpx.post(f"{url}{path}", json=BODY | fields, timeout=60)


def connect(url: str) -> socket.socket:
    """A bare connection."""
    host, port = url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=30)


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it."""
    connection.setblocking(False)
    try:
        return connection.recv(1) != b""
    except BlockingIOError:
        return True
    except ConnectionError:
        return False


@contextmanager
def raw_upstream(reply: bytes) -> Iterator[str]:
    """A server that answers every connection with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.recv(65_536)
                    connection.sendall(reply)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
        listening.shutdown(socket.SHUT_RDWR)
    thread.join(10)


class Rewriting(Upstream):
    """Replaces a part of every event."""

    def __init__(self, old: str, new: str) -> None:
        super().__init__(lambda seed: Manner(answer="HALF"))
        self.old, self.new = old, new

    async def stream(self, body: dict[str, Any], manner: Manner) -> AsyncIterator[str]:
        async for event in super().stream(body, manner):
            yield event.replace(self.old, self.new)


@contextmanager
def rewriting_upstream(old: str, new: str) -> Iterator[str]:
    """The URL of such an upstream."""
    with serving_app(Rewriting(old, new).app()) as up:
        yield f"{up.url}/v1"


# -- 3: slots


def test_14_3_messages_without_content_leak_no_slots(upstream: Upstream) -> None:
    limits = ServerLimits(requests=2)
    settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, limits=limits, log_requests=True)
    calls = [{"role": "user", "content": "3?"}, {"role": "assistant", "tool_calls": []}]
    with ours(settings) as (url, state):
        for _ in range(4):
            assert post(url, messages=[{"role": "user"}]).status_code == 400
            assert post(url, messages=calls).status_code == 200
            assert post(url, "/api/runs", messages=calls).status_code == 201
            until(lambda: state.requests == 0)


def test_14_3_a_question_in_the_log_is_one_escaped_line(upstream: Upstream, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", logger="sureenough")
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY, log_requests=True)) as (url, _):
        post(url, messages=[{"role": "user", "content": "3?\nfake line\r\x1b[2J\x9b \\boxed"}])
    message = next(record.getMessage() for record in caplog.records if "question" in record.getMessage())
    assert "fake line" in message
    assert message.isprintable()


# -- 6: surrogate halves


def test_14_6_surrogate_halves_end_in_a_response(tmp_path: Path) -> None:
    with rewriting_upstream("HALF", "\\ud83d") as up:
        settings = ServerSettings(upstream=up, upstream_key=KEY, keep_runs=tmp_path)
        with ours(settings) as (url, _):
            assert post(url).status_code == 200
            streamed = post(url, stream=True)
            assert streamed.text.endswith("data: [DONE]\n\n")
            run = post(url, "/api/runs").json()["id"]
            until(lambda: len(list(tmp_path.glob("*.jsonl"))) == 3)
            assert len(httpx.get(f"{url}/api/runs").json()["runs"]) == 3
            with httpx.stream("GET", f"{url}/api/runs/{run}/events") as events:
                assert events.status_code == 200
            assert httpx.get(f"{url}/api/runs/{run}/paths/0").status_code == 200


def test_14_6_halves_are_joined_and_lone_ones_replaced() -> None:
    assert json.loads(encode({"\ud83d": ["a\ud83d\ude00", "\ude00b"]})) == {"\ufffd": ["a\U0001f600", "\ufffdb"]}


def test_14_6_a_bad_kept_run_does_not_hide_the_others(upstream: Upstream, tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text('{"schema": 1, "run": {"question": "\\ud83d"}, "over": {"answer": "\\ude00"}}')
    (tmp_path / "old.json").write_text('{"schema": 1, "paths": [], "run": {"question": "q"}, "over": {"answer": "7"}}')
    (tmp_path / "damaged.json").write_text('{"schema": 1, "run": {"question"')
    (tmp_path / "deep.json").write_text('{"schema": 1, "run": ' + "[" * 100_000)
    (tmp_path / "binary.json").write_bytes(b"\xff\xfe\x00")
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY, keep_runs=tmp_path)) as (url, _):
        for _ in range(2):  # the second time from the cache
            runs = {run["id"]: run for run in httpx.get(f"{url}/api/runs").json()["runs"]}
            assert set(runs) == {"half", "old"}
            assert runs["old"]["answer"] == "7"
        (tmp_path / "old.json").write_text('{"schema": 1, "run": {"question": "new"}, "over": {"answer": "8"}}')
        runs = {run["id"]: run for run in httpx.get(f"{url}/api/runs").json()["runs"]}
        assert (runs["old"]["question"], runs["old"]["answer"]) == ("new", "8")
        reply = httpx.get(f"{url}/api/runs/damaged/events")
        assert reply.status_code == 404
        assert reply.json()["error"]["message"] == "This run cannot be shown: damaged.json is not a run log."


# -- 7: exhaustion


def test_14_7_a_head_has_a_time_limit(upstream: Upstream) -> None:
    settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, limits=ServerLimits(head=0.5))
    with ours(settings) as (url, _), closing(connect(url)) as silent, closing(connect(url)) as slow:
        slow.sendall(b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        until(lambda: not is_open(silent) and not is_open(slow), 10)


def test_14_7_many_idle_connections_make_room(upstream: Upstream) -> None:
    settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, limits=ServerLimits(idle=20))
    with ours(settings) as (url, _):
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
                reply.status_code for reply in await asyncio.gather(*(http.get(f"{url}/healthz") for _ in range(40)))
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


# -- 8: caps


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"n": 513}, "513 completions"),
        ({"n": "500"}, "n must be a whole number"),
        ({"n": True}, "n must be a whole number"),
        ({"n": 2, "prompt": ["a"] * 300}, "600 completions"),
        ({"best_of": 600}, "600 completions"),
        ({"max_tokens": 10**9}, "32768 per path"),
        ({"max_completion_tokens": 32_769}, "32768 per path"),
        ({"max_tokens": 1e9}, "max_tokens must be a whole number"),
    ],
)
def test_14_8_the_caps_apply_to_plain_names(upstream: Upstream, served: str, fields: Any, message: str) -> None:
    sent = len(upstream.bodies)
    reply = post(served, model="tiny", sureenough=None, **fields)
    assert reply.status_code == 400
    assert message in reply.json()["error"]["message"]
    assert len(upstream.bodies) == sent
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY, cap_plain=False)) as (url, _):
        assert post(url, model="tiny", sureenough=None, **fields).status_code == 200


def test_14_8_prompts_of_token_numbers_are_one_completion(served: str) -> None:
    assert post(served, "/v1/completions", model="tiny", sureenough=None, prompt=[1] * 1000).status_code == 200


# -- 9: hostile upstreams


def test_14_9_a_line_break_in_an_upstreams_header(caplog: pytest.LogCaptureFixture) -> None:
    reply = (
        b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nX-Request-Id: a\x0bb\nc\r\nContent-Length: 2\r\n\r\n{}"
    )
    with raw_upstream(reply) as up, ours(ServerSettings(upstream=up, retries=0)) as (url, _):
        response = post(url, model="tiny", sureenough=None)
    assert response.status_code in (200, 503)
    assert "\n" not in response.headers.get("x-request-id", "")


@pytest.mark.parametrize("size", range(1, 60))
def test_14_4_the_key_is_masked_however_a_response_is_split(size: int) -> None:
    key = "sk-abab-abab-0123"
    text = f"sk-{key} {key}{key} sk-abab-ababsk-abab-abab-0123 sk-abab-abab-012".encode()
    mask = KeyMask(key)
    sent = b"".join(mask.feed(text[at : at + size]) for at in range(0, len(text), size)) + mask.held
    assert sent == text.replace(key.encode(), b"*" * len(key))


def test_14_4_a_successful_response_that_quotes_the_key() -> None:
    key = "planted-key-0123456789"
    content = json.dumps({"choices": [], "note": f"Bearer {key}", "short": "EMPTY"}).encode()
    reply = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content) + content
    with raw_upstream(reply) as up:
        with ours(ServerSettings(upstream=up, upstream_key=key, retries=0)) as (url, _):
            response = post(url, model="tiny", sureenough=None)
        assert response.json() == {"choices": [], "note": f"Bearer {'*' * len(key)}", "short": "EMPTY"}
        with ours(ServerSettings(upstream=up, upstream_key="EMPTY", retries=0)) as (url, _):
            assert post(url, model="tiny", sureenough=None).content == content


def test_14_9_control_characters_in_forwarded_headers_are_replaced() -> None:
    headers = {"content-type": "text/plain\r\nset-cookie: a", "x-request-id": "\n", "retry-after": "\x00 2 €"}
    assert _headers(headers) == [(b"content-type", b"text/plain set-cookie: a"), (b"retry-after", b"2 ?")]


def test_14_9_negative_usage_is_ignored() -> None:
    with (
        rewriting_upstream('"prompt_tokens": 9', '"prompt_tokens": -9') as up,
        ours(ServerSettings(upstream=up, upstream_key=KEY)) as (url, _),
    ):
        reply = post(url).json()
        assert httpx.get(f"{url}/metrics").status_code == 200
    assert reply["usage"]["prompt_tokens"] >= 0
    assert reply["sureenough"]["tokens"]["prompt"] >= 0


# -- 14: two cancels


def test_14_14_two_quick_stops_do_not_interrupt_a_slow_close(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def closes_slowly(*arguments: Any, **options: Any) -> Any:
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(1)
            raise UsageError("closed in good order")

    monkeypatch.setattr("sureenough.server.state.aask", closes_slowly)
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY)) as (url, _):
        run = post(url, "/api/runs").json()["id"]
        for _ in range(2):
            time.sleep(0.2)
            assert httpx.delete(f"{url}/api/runs/{run}").status_code == 204
        with httpx.stream("GET", f"{url}/api/runs/{run}/events", timeout=20) as reply:
            last = next(line for line in reply.iter_lines() if '"error"' in line)
    assert "closed in good order" in last


def test_14_14_a_page_sees_the_end_of_a_run_that_was_cancelled_twice(upstream: Upstream) -> None:
    with ours(ServerSettings(upstream=upstream.url, upstream_key=KEY)) as (url, state):
        run_id = post(url, "/api/runs").json()["id"]
        for task in list(state.runs):
            task.get_loop().call_soon_threadsafe(task.cancel)
            task.get_loop().call_soon_threadsafe(task.cancel)
        with httpx.stream("GET", f"{url}/api/runs/{run_id}/events", timeout=20) as reply:
            assert next(line for line in reply.iter_lines() if '"error"' in line or '"result"' in line)


# -- 21: one field per meaning


@pytest.mark.parametrize(
    ("strategy", "field"),
    [
        ("ddc", "posterior"),
        ("ac", "posterior"),
        ("sure", "expected_gain"),
        ("deepconf-low", "leader_share"),
        ("sc", None),
    ],
)
def test_14_21_each_measure_has_a_field_of_its_own(served: str, strategy: str, field: str | None) -> None:
    details = post(served, model=f"tiny@{strategy}", sureenough={"paths": 20}).json()["sureenough"]
    values = {name: details[name] for name in ("posterior", "expected_gain", "leader_share")}
    assert [name for name, value in values.items() if value is not None] == ([] if field is None else [field])


# -- 22: left from before


def cut_off(url: str) -> None:
    """A stream that is passed through, and cut."""
    with pytest.raises(httpx.HTTPError):
        post(url, model="tiny", sureenough=None, stream=True)


def test_14_22_a_second_interrupt_ends_every_request_without_a_500() -> None:
    with an_upstream(ENDLESS) as (up, _):
        environment = os.environ | {"SUREENOUGH_API_KEY": KEY}
        command = [sys.executable, "-m", "sureenough", "serve", "--upstream", up.url, "--port", "0", "--grace", "60"]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
        ) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split(" serves at ")[1].split("/v1")[0]
            replies: list[httpx.Response] = []
            threads = [
                threading.Thread(target=lambda: replies.append(post(url))),
                threading.Thread(target=cut_off, args=(url,)),
            ]
            for thread in threads:
                thread.start()
            until(lambda: up.running == 5)
            for _ in range(2):
                server.send_signal(signal.SIGINT)
                time.sleep(0.5)
            for thread in threads:
                thread.join(20)
            _, log = server.communicate(timeout=20)
    assert server.returncode == 0, log
    assert replies[0].status_code == 200
    assert replies[0].json()["sureenough"]["reason"] == "interrupted"


def test_14_22_requests_that_outlast_the_shutdown_get_a_503() -> None:
    async def never(request: Request) -> JSONResponse:
        await asyncio.sleep(20)
        return JSONResponse({})

    with serving_app(Router(routes=[Route("/v1/chat/completions", never, methods=["POST"])])) as up:
        command = [sys.executable, "-m", "sureenough", "serve", "--upstream", f"{up.url}/v1", "--port", "0"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as server:
            assert server.stdout is not None
            url = server.stdout.readline().split(" serves at ")[1].split("/v1")[0]
            replies: list[httpx.Response] = []
            thread = threading.Thread(target=lambda: replies.append(post(url, model="tiny", sureenough=None)))
            thread.start()
            time.sleep(1)
            for _ in range(2):
                server.send_signal(signal.SIGINT)
                time.sleep(0.5)
            thread.join(20)
        up.stop(hard=True)
    assert (replies[0].status_code, replies[0].json()["error"]["code"]) == (503, "stopping")


def test_14_22_uploads_count_as_requests(upstream: Upstream) -> None:
    settings = ServerSettings(upstream=upstream.url, upstream_key=KEY, limits=ServerLimits(requests=1))
    with ours(settings) as (url, state), closing(connect(url)) as upload:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        upload.sendall(head + b"Content-Length: 1000\r\n\r\n{")
        until(lambda: state.requests == 1)
        assert post(url).status_code == 429
        upload.close()
        until(lambda: state.requests == 0)
        assert post(url).status_code == 200


def test_14_22_proxies_must_not_buffer_events(served: str) -> None:
    run = post(served, "/api/runs").json()["id"]
    with httpx.stream("GET", f"{served}/api/runs/{run}/events") as events:
        assert events.headers["x-accel-buffering"] == "no"
    assert post(served, stream=True).headers["x-accel-buffering"] == "no"


# -- issue 13: settings under which every request would fail


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
