"""A mixed load with every fault at random, on this machine only: does the server keep its memory, sockets and slots?

Half of the upstream's replies are faulty, a quarter of the clients are hostile, and `/healthz` is timed throughout.
    python benchmarks/soak.py [--seconds 60] [--clients 50] [--paths 16] [--pause 0.5] [--seed 0]
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import os
import random
import re
import sys
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import psutil

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parent.parent)]
from tests.adversarial.hostile_client import ATTACKS, BODY, Target  # noqa: E402

from serve import configured, process  # noqa: E402
from sureenough.core.outcome import BUCKETS  # noqa: E402

WARM_UP = 0.4
"""Share of the time after which memory is measured first."""
SETTLE = 40.0
"""Seconds within which idle connections and slots must be gone at the end."""
MOST_GROWTH = 5e6
LOAD_NICE = 15
"""Priority of the upstream and the clients: they stand for other machines, and must not take the server's processor."""
FEW_FILES = 24
"""Open files of a server that does nothing, and the connection that measures it."""


class Load:
    """What the clients have seen."""

    def __init__(self, url: str, server: psutil.Process, paths: int, pause: float) -> None:
        self.url, self.server, self.paths, self.pause = url, server, paths, pause
        self.ended: Counter[str] = Counter()
        self.unaccounted = 0

    async def friendly(self, http: httpx.AsyncClient, draw: random.Random) -> None:
        """A request of an ordinary client, by vote or passed through."""
        model = draw.choice(["tiny@sc", "tiny@ddc:warmup=4", "tiny@ac", "tiny"])
        plain = {"sureenough": None} if model == "tiny" else {"sureenough": {"paths": self.paths, "window": 4}}
        body = BODY | {"model": model, "stream": draw.random() < 0.3, "seed": draw.randrange(1 << 30)} | plain
        try:
            response = await http.post(f"{self.url}/v1/chat/completions", json=body)
        except httpx.HTTPError as error:
            self.ended[f"{'plain' if model == 'tiny' else 'vote'} {type(error).__name__}"] += 1
            return
        self.ended[f"{'plain' if model == 'tiny' else 'vote'} {response.status_code}"] += 1
        if response.status_code == 200 and model != "tiny" and not body["stream"]:
            tokens: dict[str, Any] = response.json()["sureenough"]["tokens"]
            self.unaccounted += abs(tokens["total"] - sum(tokens[name] for name in BUCKETS))

    async def client(self, number: int, end: float, threads: ThreadPoolExecutor, seed: int) -> None:
        """Requests one after the other; every fourth is an attack."""
        draw = random.Random(f"{seed} {number}")
        async with httpx.AsyncClient(timeout=60) as http:
            while time.monotonic() < end:
                if draw.random() < 0.25:
                    name = draw.choice(list(ATTACKS))
                    attack, target = ATTACKS[name], Target(self.url, seconds=2)
                    await asyncio.get_running_loop().run_in_executor(threads, attack, target, draw)
                    self.ended["attack"] += 1
                else:
                    await self.friendly(http, draw)
                await asyncio.sleep(draw.uniform(0, 2 * self.pause))

    def in_flight(self) -> int:
        """Slots that are held."""
        match = re.search(r"^sureenough_requests_in_flight (\d+)", httpx.get(f"{self.url}/metrics").text, re.MULTILINE)
        return int(match[1]) if match else -1

    async def settle(self) -> tuple[int, int]:
        """Slots and open files once nothing is sent any more."""
        end = time.monotonic() + SETTLE
        while time.monotonic() < end and (self.in_flight() or self.server.num_fds() > FEW_FILES):
            await asyncio.sleep(0.5)
        return self.in_flight(), self.server.num_fds()


def check_health(url: str, seconds: float) -> tuple[list[float], int]:
    """Seconds of /healthz, ten times per second, and how many were not 200. In a process that does nothing else."""
    times, failed = [], 0
    end = time.monotonic() + seconds
    with httpx.Client(timeout=60) as http:
        while time.monotonic() < end:
            began = time.monotonic()
            failed += http.get(f"{url}/healthz").status_code != 200
            times.append(time.monotonic() - began)
            time.sleep(0.1)
    return times, failed


async def soak(load: Load, clients: int, seconds: float, seed: int) -> bool:
    """The load. True: nothing is lost and nothing leaks."""
    end = time.monotonic() + seconds
    idle_files, began, used = load.server.num_fds(), time.monotonic(), sum(load.server.cpu_times()[:2])
    memory: list[int] = []

    async def measure() -> None:
        await asyncio.sleep(seconds * WARM_UP)
        while time.monotonic() < end:
            memory.append(load.server.memory_info().rss)
            await asyncio.sleep(0.5)

    context = multiprocessing.get_context("spawn")
    with ThreadPoolExecutor(clients) as threads, ProcessPoolExecutor(1, mp_context=context) as checker:
        health = asyncio.get_running_loop().run_in_executor(checker, check_health, load.url, seconds)
        os.nice(LOAD_NICE)  # after the checker has started
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(measure())
            for number in range(clients):
                tasks.create_task(load.client(number, end, threads, seed))
        ranked, failed = await health
    busy = (sum(load.server.cpu_times()[:2]) - used) / (time.monotonic() - began)
    slots, files = await load.settle()
    last = load.server.memory_info().rss
    ranked.sort()
    p99 = ranked[int(0.99 * (len(ranked) - 1))]
    tenth = max(1, len(memory) // 10)
    warm, late = sorted(memory[:tenth])[tenth // 2], sorted(memory[-tenth:])[tenth // 2]
    print("responses: " + ", ".join(f"{count} x {name}" for name, count in sorted(load.ended.items())))
    print(f"server: {busy:.0%} of one core")
    print(f"memory: {warm / 1e6:.1f} MB after warm-up, {late / 1e6:.1f} MB at the end, {last / 1e6:.1f} MB when idle")
    print(f"open files: {idle_files} before, {files} afterwards; slots held: {slots}")
    print(f"unaccounted tokens: {load.unaccounted}")
    print(f"/healthz: {len(ranked)} checks, {failed} not 200, p50 {ranked[len(ranked) // 2] * 1e3:.1f} ms, "
          f"p99 {p99 * 1e3:.1f} ms, longest {ranked[-1] * 1e3:.1f} ms")  # fmt: skip
    kept = files <= FEW_FILES and slots == 0 and load.unaccounted == 0 and not load.ended["vote 500"]
    return kept and (seconds < 60 or late - warm < MOST_GROWTH)  # a short run is all warm-up


def main() -> int:
    """Run the soak; 1 if something leaks or is lost."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=60.0)
    options.add_argument("--clients", type=int, default=50)
    options.add_argument("--paths", type=int, default=16)
    options.add_argument("--pause", type=float, default=0.5, help="mean seconds between the requests of a client")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    with process("-m", "tests.adversarial.hostile_upstream", "0.5") as (upstream, upstream_process):
        upstream_process.nice(LOAD_NICE)
        serve = ("-m", "sureenough", "serve", "--url", f"{upstream}/v1", "--model", "tiny", "--port", "0")
        settings = f"first-token = 2\nstall = 1\n[serve.limits]\nrequests = {args.clients * 2}\nseconds = 10\n"
        with configured(settings), process(*serve) as (url, server):
            clean = asyncio.run(soak(Load(url, server, args.paths, args.pause), args.clients, args.seconds, args.seed))
    print("nothing leaks" if clean else "SOMETHING LEAKS")
    return 0 if clean else 1


if __name__ == "__main__":
    sys.exit(main())
