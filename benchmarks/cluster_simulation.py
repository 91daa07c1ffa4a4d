"""A simulation of many servers and one process of ours: paths, engine steps and failures, event by event.

benchmarks/scale.py compares it with measured runs, and docs/scale.md explains it.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from dataclasses import dataclass, field
from math import ceil, inf
from typing import NamedTuple


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
