"""Two servers against one behind the load balancer: the built-in model, each server a process with one thread.

    python benchmarks/balance.py [--parallel 8] [--paths 64] [--tokens 128] [--rounds 3] [--json] [--smoke]

Prints tokens per second on the clock, and processor time per token of the servers and of the client. The ratio on free
cores is of processor time: the busiest process decides, or all of them divided by the cores. A busy machine does not
change it; what the clock shows, it does.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, NamedTuple

import psutil

from sureenough.drivers.record import RecordQuestion, record
from sureenough.engines.load_balancer import LoadBalancer
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.requests import Prompt
from sureenough.pools.path import RecordedPath


class ServerProcess(NamedTuple):
    """A server and how to reach it."""

    process: psutil.Process
    engine: OpenAI

    def cpu(self) -> float:
        """Processor seconds so far."""
        times = self.process.cpu_times()
        return float(times.user + times.system)


class Measured(NamedTuple):
    """One run."""

    servers: int
    parallel: int
    tokens: int
    seconds: float
    client_cpu: float
    server_cpu: list[float]

    @classmethod
    def joined(cls, runs: Sequence[Measured]) -> Measured:
        """Several rounds as one run: what else the machine does is spread over both kinds of runs."""
        used = [sum(one) for one in zip(*(run.server_cpu for run in runs), strict=True)]
        return cls(runs[0].servers, runs[0].parallel, sum(run.tokens for run in runs),
                   sum(run.seconds for run in runs), sum(run.client_cpu for run in runs), used)  # fmt: skip

    def free_seconds(self, cores: int) -> float:
        """What it would take if this many cores were free."""
        return max(*self.server_cpu, self.client_cpu, (sum(self.server_cpu) + self.client_cpu) / cores)


class Tokens:
    """A journal that counts."""

    def __init__(self) -> None:
        self.paths: dict[tuple[str, int], RecordedPath] = {}
        self.tokens = 0

    def add(self, question: str, path: RecordedPath) -> None:
        """Count one path."""
        self.tokens += path.tokens


def model(slots: int, tokens: int) -> Local:
    """The built-in model with paths of a fixed length, on one thread."""
    return Local(None, slots=slots, threads=1, max_path_tokens=tokens, extra={"ignore_eos": True})


async def serve(slots: int, tokens: int) -> None:
    """Serve until standard input ends."""
    async with model(slots, tokens).open(parallel=slots) as ready:
        engine = ready.connection.engine
        print(json.dumps([engine.url, engine.key]), flush=True)
        await asyncio.to_thread(sys.stdin.read)


@contextmanager
def running_server(slots: int, tokens: int) -> Iterator[ServerProcess]:
    """A server in a process of its own, gone afterwards."""
    words = [sys.executable, __file__, "--serve", "--parallel", str(slots), "--tokens", str(tokens)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            url, key = json.loads(process.stdout.readline())
            engine = replace(model(slots, tokens).wire(url, key), metrics=False)
            yield ServerProcess(psutil.Process(process.pid), engine)
        finally:
            process.terminate()


def measure(servers: list[ServerProcess], parallel: int, paths: int) -> Measured:
    """Sample paths of four questions through the load balancer."""
    counted: Any = Tokens()
    questions = [RecordQuestion(f"q{n}", Prompt.user(f"Compute (12+{n})*3-5.")) for n in range(4)]
    engine = LoadBalancer([server.engine for server in servers])
    before, client, began = [server.cpu() for server in servers], time.process_time(), time.monotonic()
    asyncio.run(record(questions, engine, counted, paths=max(1, paths // 4), parallel=parallel, seed=0))
    seconds, client = time.monotonic() - began, time.process_time() - client
    used = [server.cpu() - start for server, start in zip(servers, before, strict=True)]
    return Measured(len(servers), parallel, counted.tokens, seconds, client, used)


def main() -> int:
    """Measure one server, then two."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--parallel", type=int, default=8, help="paths at once per server")
    parser.add_argument("--paths", type=int, default=64, help="per server")
    parser.add_argument("--tokens", type=int, default=128, help="per path")
    parser.add_argument("--rounds", type=int, default=3, help="one server and two in turn, so often")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.serve:
        asyncio.run(serve(args.parallel, args.tokens))
        return 0
    paths, tokens = (8, 32) if args.smoke else (args.paths, args.tokens)
    cores = psutil.cpu_count() or 1
    with running_server(2 * args.parallel, tokens) as one, running_server(2 * args.parallel, tokens) as two:
        for server in (one, two):
            measure([server], args.parallel, 8)  # loads and warms it
        rounds = [
            (measure([one], args.parallel, paths), measure([one, two], 2 * args.parallel, 2 * paths))
            for _ in range(1 if args.smoke else args.rounds)
        ]
        results = [Measured.joined(runs) for runs in zip(*rounds, strict=True)]
    if args.json:
        print(json.dumps([one._asdict() for one in results]))
        return 0
    for result in results:
        per_token = 1e6 / result.tokens
        shares = ", ".join(f"{used * per_token * result.servers:.0f}" for used in result.server_cpu)
        print(f"{result.servers} servers, {result.parallel} paths at once: {result.tokens:,} tokens in "
              f"{result.seconds:.1f} s, {result.tokens / result.seconds:,.0f} tokens/s; processor us per token: "
              f"client {result.client_cpu * per_token:.0f}, servers {shares} of their own")  # fmt: skip
    first, second = results
    for free in sorted({cores, 4, 16}):
        rates = [result.tokens / result.free_seconds(free) for result in results]
        print(f"  {free} free cores: {rates[0]:,.0f} and {rates[1]:,.0f} tokens/s, {rates[1] / rates[0]:.2f} times")
    wall = second.tokens / second.seconds / (first.tokens / first.seconds)
    print(f"two servers give {wall:.2f} times one server's rate on the clock of this machine ({cores} cores)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
