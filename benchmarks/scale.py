"""A model of many servers: questions, paths, engine steps, API servers and our own costs, event by event.

    python benchmarks/scale.py check [BALANCE.jsonl]     the model against measured runs; exit 1 if one is off by more than 15%
    python benchmarks/scale.py plan [--help]             what 10^4, 10^5 and 10^6 paths in flight need

BALANCE.jsonl has lines of `python benchmarks/balance.py --json`. docs/scale.md explains the numbers and says which are
assumptions.
"""  # noqa: E501  # commands stay on one line

from __future__ import annotations

import argparse
import heapq
import json
import random
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, inf
from pathlib import Path
from typing import Any, Final, NamedTuple

TOLERANCE: Final = 0.15


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds of three processes that work one behind the other: engine, API server, and ours (client or front)."""

    step: float  # of an engine, for a batch of any size
    sequence: float  # more for each path in the batch
    api: float  # of an API server, per token
    client: float  # of our process, per token
    path: float = 0.0  # of our process, when a path ends


@dataclass(frozen=True, slots=True)
class Cluster:
    """Servers behind one process of ours."""

    costs: Costs
    servers: int = 1
    batch: int = 512  # most paths of a server that run at once; others wait
    cores: float = inf  # that engines and our process share
    hours_between_failures: float = inf  # of one server
    restart: float = 300.0  # seconds
    lost_paths: float = 0.0  # share of paths that fail for other reasons

    @property
    def stretch(self) -> float:
        """How much longer all work takes if the processes that want to run are more than the cores."""
        engine = self.costs.step / self.batch + self.costs.sequence
        ours = min(1.0, self.servers * self.costs.client / engine) if engine else 1.0
        return max(1.0, (self.servers + ours) / self.cores)


@dataclass(frozen=True, slots=True)
class Work:
    """Paths that are always in flight: when one ends, the next begins."""

    in_flight: int
    tokens: int = 512  # per path, on average
    spread: float = 0.0  # of the logarithm of a path's length
    round_trip: float = 0.001


class Simulated(NamedTuple):
    """What a simulation measured."""

    tokens_per_second: float  # of paths that ended
    engine_busy: float  # mean share of time, by server
    api_busy: float
    client_busy: float
    lost: float  # share of all tokens that were thrown away
    failures: int


@dataclass(slots=True)
class _Server:
    running: list[list[float]] = field(default_factory=list)  # remaining and made tokens of each path
    waiting: deque[list[float]] = field(default_factory=deque)
    stepping: bool = False
    down_until: float = 0.0
    life: int = 0  # steps of an earlier life do not count
    api_free: float = 0.0
    engine_busy: float = 0.0
    api_busy: float = 0.0


class Simulation:
    """Events in the order of time: a step ends, a path arrives, a server fails."""

    def __init__(self, cluster: Cluster, work: Work, *, seed: int = 0, stride: int = 8) -> None:
        self.cluster, self.work, self.stride = cluster, work, stride  # tokens per event, which saves time
        self.random = random.Random(seed)
        self.servers = [_Server() for _ in range(cluster.servers)]
        self.events: list[tuple[float, int, str, int, int]] = []
        self.count = 0
        self.now = self.client_free = self.client_busy = 0.0
        self.results: list[tuple[float, float, bool]] = []  # when our process had a path's end, its tokens, lost or not
        self.failures = 0

    def run(self, seconds: float, warm_up: float) -> Simulated:
        """Simulate; what happens before `warm_up` is not counted."""
        for number in range(self.work.in_flight):
            self.at(0.0, "arrive", number % len(self.servers))
        for index in range(len(self.servers)):
            self.schedule_failure(index)
        counted = False
        while self.events and self.events[0][0] < warm_up + seconds:
            self.now, _, kind, index, life = heapq.heappop(self.events)
            if not counted and self.now >= warm_up:
                counted = True
                self.reset()
            getattr(self, "on_" + kind)(index, life)
        n = len(self.servers)
        counted_results = [one for one in self.results if warm_up <= one[0] < warm_up + seconds]
        finished = sum(tokens for _, tokens, lost in counted_results if not lost)
        thrown = sum(tokens for _, tokens, lost in counted_results if lost)
        return Simulated(
            finished / seconds,
            sum(one.engine_busy for one in self.servers) / seconds / n,
            sum(one.api_busy for one in self.servers) / seconds / n,
            self.client_busy / seconds,
            thrown / max(1.0, finished + thrown),
            self.failures,
        )

    def reset(self) -> None:
        """Forget what was counted so far."""
        self.client_busy, self.failures = 0.0, 0
        for server in self.servers:
            server.engine_busy = server.api_busy = 0.0

    def at(self, time: float, kind: str, index: int) -> None:
        """Add an event."""
        self.count += 1
        heapq.heappush(self.events, (time, self.count, kind, index, self.servers[index].life))

    def on_arrive(self, index: int, life: int) -> None:
        """A new path, on the server with the fewest; the driver sends none to one that is down."""
        up = [i for i, one in enumerate(self.servers) if one.down_until <= self.now] or [index]
        index = min(up, key=lambda i: len(self.servers[i].running) + len(self.servers[i].waiting))
        server, spread = self.servers[index], self.work.spread
        factor = self.random.lognormvariate(-spread * spread / 2, spread) if spread else 1.0
        server.waiting.append([max(1.0, round(self.work.tokens * factor)), 0.0])
        self.begin_step(index)

    def begin_step(self, index: int) -> None:
        """Start the next step of an engine that does not run one."""
        server, costs = self.servers[index], self.cluster.costs
        if server.stepping or server.down_until > self.now:
            return
        while server.waiting and len(server.running) < self.cluster.batch:
            server.running.append(server.waiting.popleft())
        if server.running:
            took = self.stride * (costs.step + costs.sequence * len(server.running)) * self.cluster.stretch
            server.stepping = True
            server.engine_busy += took
            self.at(self.now + took, "step", index)

    def on_step(self, index: int, life: int) -> None:
        """Every running path has a few more tokens; those that end reach our process."""
        server = self.servers[index]
        if life != server.life:
            return
        server.stepping = False
        total = 0.0
        for path in server.running:
            tokens = min(self.stride, path[0])
            path[0] -= tokens
            path[1] += tokens
            total += tokens
        ended = [path for path in server.running if path[0] <= 0]
        self.deliver(server, total, len(ended))
        for path in ended:
            lost = self.random.random() < self.cluster.lost_paths
            self.results.append((self.client_free, path[1], lost))
            self.at(self.client_free + self.work.round_trip, "arrive", index)
        server.running = [path for path in server.running if path[0] > 0]
        self.begin_step(index)

    def deliver(self, server: _Server, tokens: float, ended: int) -> None:
        """Tokens pass the API server, then our process; each is one process that takes them in turn."""
        costs, stretch = self.cluster.costs, self.cluster.stretch
        api, ours = tokens * costs.api, (tokens * costs.client + ended * costs.path) * stretch
        server.api_busy += api
        server.api_free = max(server.api_free, self.now) + api
        self.client_busy += ours
        self.client_free = max(self.client_free, server.api_free) + ours

    def schedule_failure(self, index: int) -> None:
        """The next failure of a server, after a time that does not depend on its age."""
        if self.cluster.hours_between_failures < inf:
            wait = self.random.expovariate(1 / (3600 * self.cluster.hours_between_failures))
            self.at(max(self.now, self.servers[index].down_until) + wait, "fail", index)

    def on_fail(self, index: int, life: int) -> None:
        """A server loses its running paths, which begin again elsewhere; it comes back empty."""
        server = self.servers[index]
        self.failures += 1
        server.down_until, server.life, server.stepping = self.now + self.cluster.restart, server.life + 1, False
        for path in [*server.running, *server.waiting]:
            self.results.append((self.now, path[1], True))
            self.at(self.now + self.work.round_trip, "arrive", index)
        server.running, server.waiting = [], deque()
        self.schedule_failure(index)
        self.at(server.down_until, "back", index)

    def on_back(self, index: int, life: int) -> None:
        """The server is up; paths that waited for it begin."""
        self.begin_step(index)


def simulate(cluster: Cluster, work: Work, *, seed: int = 0) -> Simulated:
    """A simulation long enough that paths which end together do not matter; two paths' time does not count."""
    paths = max(8, ceil(400 / work.in_flight))  # one after the other
    costs, batch = cluster.costs, min(cluster.batch, ceil(work.in_flight / cluster.servers))
    slowest = max((costs.step + costs.sequence * batch) / batch, costs.api, costs.client * cluster.servers)
    each = work.tokens * slowest * cluster.stretch * work.in_flight / cluster.servers
    stride = max(8, work.tokens // 64)
    return Simulation(cluster, work, seed=seed, stride=stride).run(paths * each, 2 * each)


# -- what was measured


class MeasuredRun(NamedTuple):
    """One run on one H200, 1.5B parameters in bf16, vLLM 0.26: us of CPU per token, and the rate.

    docs/vllm.md and docs/LOG.md say how they were measured.
    """

    name: str
    at_once: int
    engine: float
    api: float
    client: float
    tokens_per_second: float
    expected: bool = True  # False: known to be off, see docs/scale.md


H200: Final = (
    MeasuredRun("watched, an event per token, 64 paths", 64, 194, 97, 54, 5_261),
    MeasuredRun("watched, an event per token, 512 paths", 512, 83, 103, 61, 9_109),
    MeasuredRun("plain, 64 paths", 64, 183, 82, 54, 4_111, expected=False),
    MeasuredRun("plain, 512 paths", 512, 65, 93, 56, 10_706),
    MeasuredRun("log-probabilities as text, 64 paths", 64, 376, 769, 26, 1_301),
    MeasuredRun("watched, whole replies, 512 paths", 512, 51, 20.5, 2.9, 19_743),
    MeasuredRun("watched, whole replies inside vLLM too, 512 paths", 512, 25.6, 6.1, 2.2, 35_417),
)
STEP: Final = 0.0081
"""Seconds of a step without any path: 194 us x 64 paths and 83 us x 512 lie on the line 8.1 ms + 67 us per path."""


def costs_of(run: MeasuredRun) -> Costs:
    """The engine's time per token at this batch, divided into a fixed part and one per path."""
    step = min(STEP, run.engine * run.at_once / 1e6)
    return Costs(step, run.engine / 1e6 - step / run.at_once, run.api / 1e6, run.client / 1e6)


BUILT_IN: Final = """
[{"servers": 1, "parallel": 8, "tokens": 16384, "client_cpu": 1.878, "server_cpu": [11.31]},
 {"servers": 2, "parallel": 16, "tokens": 32768, "client_cpu": 3.103, "server_cpu": [10.81, 10.08]}]
"""
"""`python benchmarks/balance.py --parallel 8 --paths 32 --rounds 4 --json`, on two busy cores."""


def check(balance: Path | None = None) -> int:
    """Print simulated rates beside measured ones."""
    worst = 0.0
    for run in H200:
        rate = simulate(Cluster(costs_of(run), batch=run.at_once), Work(run.at_once)).tokens_per_second
        worst = max(worst, _print_check(f"H200, {run.name}", rate, run.tokens_per_second, run.expected))
    lines = [" ".join(BUILT_IN.split())] if balance is None else balance.read_text().splitlines()
    for name, rate, measured in cpu_runs(lines):
        worst = max(worst, _print_check(name, rate, measured))
    print(f"largest error: {worst:.1%} (bar: {TOLERANCE:.0%})")
    return int(worst > TOLERANCE)


def _print_check(name: str, simulated: float, measured: float, expected: bool = True) -> float:
    error = simulated / measured - 1
    note = "" if expected else "  known to be off, not counted"
    print(f"{name:58} measured {measured:9,.0f} tokens/s, simulated {simulated:9,.0f}  {error:+.1%}{note}")
    return abs(error) if expected else 0.0


def cpu_runs(lines: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Runs of the built-in model with one and two servers on two cores: costs are those of one server only.

    Measured rates are those of processor time, as if the cores were free; see benchmarks/balance.py.
    """
    for line in lines:
        one, two = json.loads(line)
        width = one["parallel"]
        engine, client = (used / one["tokens"] for used in (one["server_cpu"][0], one["client_cpu"]))
        costs = Costs(0.0, engine, 0.0, client)
        for run in (one, two):
            cluster = Cluster(costs, servers=run["servers"], batch=width, cores=2)
            rate = simulate(cluster, Work(run["parallel"], tokens=128)).tokens_per_second
            free = max(*run["server_cpu"], run["client_cpu"], (sum(run["server_cpu"]) + run["client_cpu"]) / 2)
            yield f"built-in model, {run['servers']} servers, {run['parallel']} paths", rate, run["tokens"] / free


# -- the plan


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the plan needs beside measured costs."""

    tokens: int = 512  # per path
    batch: int = 512
    kv_bytes: int = 28_672  # of one token in the GPU's memory: 28 layers x 2 heads x 128 x 2 x 2 bytes
    kv_memory: float = 110e9  # of one GPU, for the cache
    front_share: float = 0.7  # of a core that a front process should use at most
    bytes_per_token: float = 4.0  # text; 1,440 with 20 log-probabilities
    bytes_per_path: float = 1_500.0  # request, headers, record
    memory_per_path: float = 0.37e6  # of a front: (214 - 120) MB / 256 paths, with signals of every token
    journal_seconds: float = 0.0039  # until a path is on disk
    hours_between_failures: float = 1_000.0
    price_per_hour: float = 3.0


TOKENS_PER_QUESTION: Final = {"sc": 26_694, "ddc": 8_961, "sure": 6_221}
"""`sureenough replay -s "sc ddc sure"`: 64 paths, the built-in pool (50 questions, a model of 1.5B parameters)."""


def plan(in_flight: int, costs: Costs, given: Assumptions) -> dict[str, Any]:
    """What so many paths in flight need, from a simulation of one server with its share of them."""
    resident = given.kv_memory / (given.kv_bytes * given.tokens / 2)
    batch = max(1, min(given.batch, int(resident)))
    gpus = ceil(in_flight / batch)
    cluster = Cluster(costs, batch=batch, hours_between_failures=given.hours_between_failures)
    one = simulate(replace(cluster, hours_between_failures=inf), Work(batch, given.tokens, spread=0.5))
    available = 1 / (1 + cluster.restart / (3600 * given.hours_between_failures))
    rate = one.tokens_per_second * gpus * available
    paths = rate / given.tokens
    fronts = ceil(max(rate * costs.client / given.front_share, 1))
    return {
        "paths in flight": in_flight, "paths per GPU": batch, "GPUs": gpus, "tokens/s": round(rate),
        "paths/s": round(paths), "front processes": fronts, "GPUs per front": round(gpus / fronts, 1),
        "network, Mbit/s": round(8e-6 * (rate * given.bytes_per_token + paths * given.bytes_per_path)),
        "with log-probabilities as text": round(8e-6 * rate * 1440),
        "memory of all fronts, GB": round((in_flight * given.memory_per_path + fronts * 120e6) / 1e9, 1),
        "journals": ceil(paths * given.journal_seconds),
        "failures per day": round(24 * gpus / given.hours_between_failures, 1),
        "health checks/s per server, all fronts on all": round(fronts / 5, 1),
        "USD per 1,000 questions": {
            name: round(1000 * tokens / (rate / gpus) / 3600 * given.price_per_hour, 3)
            for name, tokens in TOKENS_PER_QUESTION.items()
        },
    }  # fmt: skip


def main() -> int:
    """Check the model, or print the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    checked = verbs.add_parser("check")
    checked.add_argument("balance", nargs="?", type=Path)
    planned = verbs.add_parser("plan")
    defaults = Assumptions()
    for name in Assumptions.__slots__:
        value = getattr(defaults, name)
        planned.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    planned.add_argument("--in-flight", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    args = vars(parser.parse_args())
    if args.pop("verb") == "check":
        return check(args["balance"])
    sizes = args.pop("in_flight")
    whole_replies = costs_of(H200[-1])
    for size in sizes:
        print(json.dumps(plan(size, whole_replies, Assumptions(**args)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
