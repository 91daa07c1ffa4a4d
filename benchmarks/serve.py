"""The server under load: its overhead, its leaks, and whether one slow client slows the others.

The upstream, which sends prepared paths, and `sureenough serve` have processes of their own; the clients run here.
    python benchmarks/serve.py [--smoke] [--seconds 300] [--clients 64]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import httpx
import psutil

import sureenough as se

PATHS = 16
MESSAGES: list[dict[str, Any]] = [{"role": "user", "content": "3 + 4?"}]
ROUNDS = 5
MOST_GROWTH = 0.15
"""The largest growth of memory from the start of the load to its end."""


class Usage(NamedTuple):
    """What the server's process uses at one moment."""

    memory: int
    sockets: int
    tasks: int


@contextmanager
def process(*command: str) -> Iterator[tuple[str, psutil.Process]]:
    """A server, and the address in its first line."""
    with subprocess.Popen(
        [sys.executable, *command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as run:
        try:
            assert run.stdout is not None
            match = re.search(r"(?:http://127.0.0.1:)?(\d+)", run.stdout.readline())
            assert match is not None, "the server did not start"
            yield f"http://127.0.0.1:{match[1]}", psutil.Process(run.pid)
        finally:
            run.terminate()


@contextmanager
def configured(text: str) -> Iterator[None]:
    """A sureenough.toml for the servers that are started meanwhile."""
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        os.environ["SUREENOUGH_CONFIG"] = file.name
        yield
        del os.environ["SUREENOUGH_CONFIG"]


def measure(url: str, server: psutil.Process) -> Usage:
    """Memory, sockets and tasks now."""
    text = httpx.get(f"{url}/metrics").text
    tasks = re.search(r"^sureenough_tasks (\d+)", text, re.MULTILINE)
    return Usage(server.memory_info().rss, server.num_fds(), int(tasks[1]) if tasks else 0)


async def drive(clients: int, seconds: float, send: Callable[[int], Awaitable[None]]) -> list[float]:
    """Seconds of every request of this many clients, which send one after the other."""
    seconds_each: list[float] = []
    end = time.monotonic() + seconds

    async def client(number: int) -> None:
        turn = 0
        while time.monotonic() < end:
            began = time.monotonic()
            await send(number * 100_000 + turn)
            seconds_each.append(time.monotonic() - began)
            turn += 1

    async with asyncio.TaskGroup() as tasks:
        for number in range(clients):
            tasks.create_task(client(number))
    return seconds_each


def consensus_request(http: httpx.AsyncClient, url: str) -> Callable[[int], Awaitable[None]]:
    """A request for a consensus from the server."""

    async def send(seed: int) -> None:
        body = {"model": "m@sc", "messages": MESSAGES, "seed": seed, "sureenough": {"paths": PATHS}}
        reply = await http.post(f"{url}/v1/chat/completions", json=body)
        assert reply.status_code == 200, reply.text
        assert reply.json()["sureenough"]["started"] == PATHS

    return send


def library_request(upstream: str) -> Callable[[int], Awaitable[None]]:
    """The same paths, sampled by the library without the server."""
    engine = se.OpenAI(f"{upstream}/v1", "m")

    async def send(seed: int) -> None:
        out = await se.aask("3 + 4?", engine, "sc", paths=PATHS, seed=seed)
        assert out.started == PATHS

    return send


def report(name: str, seconds: list[float]) -> tuple[float, float]:
    """Print and return the median and the 99th percentile."""
    ranked = sorted(seconds)
    p50, p99 = statistics.median(ranked), ranked[min(len(ranked) - 1, int(0.99 * len(ranked)))]
    print(f"{name:44} {len(seconds):6} requests   p50 {p50 * 1e3:8.1f} ms   p99 {p99 * 1e3:8.1f} ms", flush=True)
    return p50, p99


async def compare_passthrough(url: str, upstream: str, count: int) -> None:
    """Plain requests, directly and through the server in turn."""
    body = {"model": "m", "messages": MESSAGES, "seed": 1, "stream": True}
    direct: list[float] = []
    through: list[float] = []
    async with httpx.AsyncClient(timeout=60) as http:
        for _ in range(count):
            for address, seconds in ((upstream, direct), (url, through)):
                began = time.monotonic()
                reply = await http.post(f"{address}/v1/chat/completions", json=body)
                assert reply.status_code == 200
                seconds.append(time.monotonic() - began)
    a, b = report("plain, directly to the upstream", direct), report("plain, passed through", through)
    print(f"{'passing through adds':44} {'':17} p50 {(b[0] - a[0]) * 1e3:8.1f} ms   p99 {(b[1] - a[1]) * 1e3:8.1f} ms")


def slow_client(url: str) -> socket.socket:
    """A client that requests a stream and never reads it."""
    host, port = url.removeprefix("http://").split(":")
    body = json.dumps({"model": "m@sc", "messages": MESSAGES, "stream": True, "sureenough": {"paths": PATHS}}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
    connection = socket.create_connection((host, int(port)))
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
    connection.sendall(head.encode() + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    return connection


async def run_load(url: str, upstream: str, server: psutil.Process, clients: int, seconds: float) -> bool:
    """The long load. True: nothing leaked."""
    limits = httpx.Limits(max_connections=clients)
    async with httpx.AsyncClient(timeout=120, limits=limits) as http:
        send = consensus_request(http, url)
        alone = report(
            "16 paths, library alone, one at a time", await drive(1, min(10.0, seconds), library_request(upstream))
        )
        served = report("16 paths, through the server, one at a time", await drive(1, min(10.0, seconds), send))
        print(f"{'the server adds':44} {'':17} p50 {(served[0] - alone[0]) * 1e3:8.1f} ms   "
              f"p99 {(served[1] - alone[1]) * 1e3:8.1f} ms")  # fmt: skip
        bare_load = await drive(clients, seconds / 10, library_request(upstream))
        await drive(clients, seconds / 10, send)
        usages = [await asyncio.to_thread(measure, url, server)]
        undisturbed: list[float] = []
        disturbed: list[float] = []
        for _ in range(ROUNDS):  # in turn, so that noise of the machine affects both
            undisturbed += await drive(clients, seconds / ROUNDS / 2, send)
            slow = slow_client(url)
            disturbed += await drive(clients - 1, seconds / ROUNDS / 2, send)
            slow.close()
            usages.append(await asyncio.to_thread(measure, url, server))
        report(f"16 paths, library alone, {clients} at once", bare_load)
        first = report(f"16 paths, through the server, {clients} at once", undisturbed)
        second = report("the same beside a client that reads nothing", disturbed)
        await asyncio.sleep(1)
        usages.append(await asyncio.to_thread(measure, url, server))
    for usage in usages:
        print(f"memory {usage.memory / 1e6:7.1f} MB   open files {usage.sockets:5}   tasks {usage.tasks:4}")
    grown = usages[-1].memory / usages[0].memory - 1
    print(
        f"memory grew by {grown:.1%} (at most {MOST_GROWTH:.0%}); "
        f"a slow client changed p50 by {second[0] / first[0] - 1:+.0%}"
    )
    # One connection per path and one per client are kept for the next requests; no more may stay open.
    sockets = usages[-1].sockets <= clients * (PATHS + 1) + 64
    return grown < MOST_GROWTH and usages[-1].tasks <= usages[0].tasks + 2 and sockets


def main() -> int:
    """Run the benchmark; 1 if something leaks."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--smoke", action="store_true")
    options.add_argument("--seconds", type=float, default=300.0)
    options.add_argument("--clients", type=int, default=64)
    args = options.parse_args()
    seconds, clients = (12.0, 8) if args.smoke else (args.seconds, args.clients)
    with process("benchmarks/client.py", "--serve", "24", "8") as (upstream, _):
        serve = ("-m", "sureenough", "serve", "--url", f"{upstream}/v1", "--model", "m", "--port", "0")
        with configured(f"[serve.limits]\nrequests = {clients}\n"), process(*serve) as (url, server):
            asyncio.run(compare_passthrough(url, upstream, 20 if args.smoke else 200))
            clean = asyncio.run(run_load(url, upstream, server, clients, seconds))
    print("nothing leaks" if clean else "SOMETHING LEAKS")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
