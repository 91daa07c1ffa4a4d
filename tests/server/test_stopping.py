"""Runs that are cancelled and servers that are stopped end every request in order; numbers are those of docs/LOG.md."""

from __future__ import annotations

import asyncio
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route, Router

from sureenough.errors import UsageError
from tests.in_thread import until
from tests.processes import Running
from tests.server.openai_client import LONG
from tests.server.sending import plain, post, serving_process
from tests.server.serving import serving_app
from tests.server.upstream import Upstream, an_upstream, before


def test_14_14_two_quick_stops_do_not_interrupt_a_slow_close(
    upstream: Upstream, monkeypatch: pytest.MonkeyPatch
) -> None:
    began, closing, stopped_twice = threading.Event(), threading.Event(), threading.Event()

    async def closes_slowly(*arguments: Any, **options: Any) -> Any:
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            closing.set()
            while not stopped_twice.is_set():
                await asyncio.sleep(0.01)
            raise UsageError("closed in good order")

    monkeypatch.setattr("sureenough.server.consensus.aask", closes_slowly)
    with before(upstream) as (url, _):
        run = post(url, "/api/runs").json()["id"]
        for reached in (began, closing):
            assert reached.wait(30)
            assert httpx.delete(f"{url}/api/runs/{run}").status_code == 204
        stopped_twice.set()
        with httpx.stream("GET", f"{url}/api/runs/{run}/events", timeout=20) as reply:
            last = next(line for line in reply.iter_lines() if '"error"' in line)
    assert "closed in good order" in last


def test_14_14_a_page_sees_the_end_of_a_run_that_was_cancelled_twice(upstream: Upstream) -> None:
    with before(upstream) as (url, state):
        run_id = post(url, "/api/runs").json()["id"]
        for task in list(state.runs):
            task.get_loop().call_soon_threadsafe(task.cancel)
            task.get_loop().call_soon_threadsafe(task.cancel)
        with httpx.stream("GET", f"{url}/api/runs/{run_id}/events", timeout=20) as reply:
            assert next(line for line in reply.iter_lines() if '"error"' in line or '"result"' in line)


def interrupt_twice(server: Running) -> None:
    """Interrupt a server, and again once it says that it stops: two signals at once may arrive as one."""
    server.send_signal(signal.SIGINT)
    assert any("shutting down" in line for line in server.stderr)
    server.send_signal(signal.SIGINT)


def test_14_22_a_second_interrupt_ends_every_request_without_a_500(tmp_path: Path) -> None:
    with an_upstream(LONG) as up, serving_process(up.url, tmp_path, 60) as (server, url):
        with ThreadPoolExecutor() as clients:
            vote, stream = clients.submit(post, url), clients.submit(plain, url, stream=True)
            until(lambda: up.running == 5)
            interrupt_twice(server)
            reply = vote.result(20)
            assert isinstance(stream.exception(20), httpx.HTTPError), "a stream that is passed through is cut off"
        _, log = server.communicate(timeout=20)
    assert server.returncode == 0, log
    assert (reply.status_code, reply.json()["sureenough"]["reason"]) == (200, "interrupted")


def test_14_22_requests_that_outlast_the_shutdown_get_a_503(tmp_path: Path) -> None:
    reached = threading.Event()

    async def never(request: Request) -> JSONResponse:
        reached.set()
        await asyncio.sleep(20)
        return JSONResponse({})

    with serving_app(Router(routes=[Route("/v1/chat/completions", never, methods=["POST"])])) as up:
        with serving_process(f"{up.url}/v1", tmp_path, 20) as (server, url), ThreadPoolExecutor() as clients:
            waiting = clients.submit(plain, url)
            assert reached.wait(30)
            interrupt_twice(server)
            reply = waiting.result(20)
        up.stop(hard=True)
    assert (reply.status_code, reply.json()["error"]["code"]) == (503, "stopping")
