"""The server under load: what it adds to a bare upstream, what leaks, and whether one slow client slows the others.

An upstream in a process of its own plays ready-made paths; `sureenough serve` in another; clients here.
    python benchmarks/serve.py [--smoke] [--seconds 300] [--clients 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import socket
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import psutil

import sureenough as se

PATHS = 16
ASK: list[dict[str, Any]] = [{"role": "user", "content": "3 + 4?"}]
TURNS = 5
MOST_GROWTH = 0.15
"""Of memory, from the first third of the load to its end."""


class Reading(NamedTuple):
    """The server's process at one moment."""

    memory: int
    sockets: int
    tasks: int


@contextmanager
def process(*command: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server, and the address that its first line names."""
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        try:
            assert run.stdout is not None
            found = re.search(r"(?:http://127.0.0.1:)?(\d+)", run.stdout.readline())
            assert found is not None, "the server did not start"
            yield f"http://127.0.0.1:{found[1]}", psutil.Process(run.pid)
        finally:
            run.terminate()


def measured(url: str, server: psutil.Process) -> Reading:
    """Memory, sockets and tasks now."""
    text = httpx.get(f"{url}/metrics").text
    tasks = re.search(r"^sureenough_tasks (\d+)", text, re.MULTILINE)
    return Reading(server.memory_info().rss, server.num_fds(), int(tasks[1]) if tasks else 0)


async def drive(clients: int, seconds: float, ask: Callable[[int], Awaitable[None]]) -> list[float]:
    """So many clients, each asking again and again; every request's seconds."""
    took: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            began = time.monotonic()
            await ask(number * 100_000 + turn)
            took.append(time.monotonic() - began)
            turn += 1

    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            tasks.create_task(client(number))
    return took


def through(http: httpx.AsyncClient, url: str) -> Callable[[int], Awaitable[None]]:
    """A consensus through the server."""

    async def ask(seed: int) -> None:
        body = {"model": "m@sc", "messages": ASK, "seed": seed, "sureenough": {"paths": PATHS}}
        reply = await http.post(f"{url}/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json()["sureenough"]["started"] == PATHS

    return ask


def bare(upstream: str) -> Callable[[int], Awaitable[None]]:
    """The same paths, asked for by the library without a server between."""
    engine = se.OpenAI(f"{upstream}/v1", "m")

    async def ask(seed: int) -> None:
        out = await se.aask("3 + 4?", engine, "sc", paths=PATHS, seed=seed)
        assert out.started == PATHS

    return ask


def shown(name: str, took: list[float]) -> tuple[float, float]:
    """Print and return the median and the 99th percentile."""
    ranked = sorted(took)
    p50, p99 = statistics.median(ranked), ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))]
    print(f"{name:44} {len(took):6} requests   p50 {p50 * 1e3:8.1f} ms   p99 {p99 * 1e3:8.1f} ms", flush=True)
    return p50, p99


async def passed_through(url: str, upstream: str, count: int) -> None:
    """One plain request after the other, straight and through the server, by turns."""
    body = {"model": "m", "messages": ASK, "seed": 1, "stream": True}
    straight: list[float] = []
    between: list[float] = []
    async with httpx.AsyncClient(timeout=60) as http:
        for _ in range(count):
            for where, took in ((upstream, straight), (url, between)):
                began = time.monotonic()
                reply = await http.post(f"{where}/v1/chat/completions", json=body)
                assert reply.status_code == 200
                took.append(time.monotonic() - began)
    a, b = shown("plain, straight to the upstream", straight), shown("plain, passed through", between)
    print(f"{'passing through adds':44} {'':17} p50 {(b[0] - a[0]) * 1e3:8.1f} ms   p99 {(b[1] - a[1]) * 1e3:8.1f} ms")


def slow_client(url: str) -> socket.socket:
    """A client that asks for a stream and never reads it."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"model": "m@sc", "messages": ASK, "stream": True, "sureenough": {"paths": PATHS}}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    line = socket.create_connection((host, int(port)))
    line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    line.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return line


async def loaded(url: str, upstream: str, server: psutil.Process, clients: int, seconds: float) -> bool:
    """The long load; whether nothing leaked."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(timeout=120, limits=limits) as http:
        ask = through(http, url)
        alone = shown("16 paths, bare upstream, one at a time", await drive(1, min(10.0, seconds), bare(upstream)))
        served = shown("16 paths, through the server, one at a time", await drive(1, min(10.0, seconds), ask))
        print(f"{'the server adds':44} {'':17} p50 {(served[0] - alone[0]) * 1e3:8.1f} ms   "
              f"p99 {(served[1] - alone[1]) * 1e3:8.1f} ms")  # fmt: skip
        bare_load = await drive(clients, seconds / 10, bare(upstream))
        await drive(clients, seconds / 10, ask)
        readings = [await asyncio.to_thread(measured, url, server)]
        alike: list[float] = []
        beside: list[float] = []
        for _ in range(TURNS):  # by turns, so that a noisy machine treats both alike
            alike += await drive(clients, seconds / TURNS / 2, ask)
            line = slow_client(url)
            beside += await drive(clients - 1, seconds / TURNS / 2, ask)
            line.close()
            readings.append(await asyncio.to_thread(measured, url, server))
        shown(f"16 paths, bare upstream, {clients} at once", bare_load)
        first = shown(f"16 paths, through the server, {clients} at once", alike)
        second = shown("the same beside a client that reads nothing", beside)
        await asyncio.sleep(1)
        readings.append(await asyncio.to_thread(measured, url, server))
    for reading in readings:
        print(f"memory {reading.memory / 1e6:7.1f} MB   open files {reading.sockets:5}   tasks {reading.tasks:4}")
    grown = readings[-1].memory / readings[0].memory - 1
    print(
        f"memory grew by {grown:.1%} (at most {MOST_GROWTH:.0%}); "
        f"a slow client changed p50 by {second[0] / first[0] - 1:+.0%}"
    )
    # A connection a path and one a client are kept for the next requests; beyond these nothing may stay open.
    sockets = readings[-1].sockets <= clients * (PATHS + 1) + 64
    return grown < MOST_GROWTH and readings[-1].tasks <= readings[0].tasks + 2 and sockets


def main() -> int:
    """Run it."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--clients", type=int, default=64)
    args = options.parse_args()
    seconds, clients = (12.0, 8) if args.smoke else (args.seconds, args.clients)
    with process("benchmarks/client.py", "--serve", "24", "8") as (upstream, _):
        serve = ("-m", "sureenough", "serve", "--upstream", f"{upstream}/v1", "--model", "m", "--port", "0",
                 "--max-requests", str(clients))  # fmt: skip
        with process(*serve) as (url, server):
            asyncio.run(passed_through(url, upstream, 20 if args.smoke else 200))
            well = asyncio.run(loaded(url, upstream, server, clients, seconds))
    print("nothing leaks" if well else "SOMETHING LEAKS")
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
