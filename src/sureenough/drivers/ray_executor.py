"""Work spread over a Ray cluster: one runner per node, a bounded number of calls under way on each.

The process that starts the work keeps everything that must last. A runner holds nothing but its engine and the calls
under way, so that one that dies, alone or with its node, costs these calls only: they are made again elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from sureenough.drivers.executor import OpenExecutor
from sureenough.drivers.ray_cluster import LOST_SECONDS, NO_NODE_LEFT, START_SECONDS, Node, RayCluster
from sureenough.drivers.ray_runner import EngineRecipe, Failed, Runner
from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import SKIP_SECONDS
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable
from sureenough.redact import first_line

POLL_SECONDS: Final = 1.0
CLOSE_SECONDS: Final = 30.0
"""For a runner to close its engine."""
MOST_DEATHS: Final = 3
"""Of a node's runners without a finished call in between, and of runners during the same call."""


class RayExecutor:
    """Calls functions on the nodes of a cluster, with an engine that each makes."""

    def __init__(self, cluster: RayCluster, engine: Callable[[], Engine]) -> None:
        self._cluster, self._engine = cluster, engine

    @asynccontextmanager
    async def open(self, *, parallel: int, calls: int) -> AsyncIterator[OpenExecutor]:
        """Start a runner on every node; calls wait for the first that is ready."""
        runners = _Runners(self._cluster, EngineRecipe(self._engine, parallel), calls)
        await runners.start_missing()
        keeper = asyncio.create_task(runners.keep())
        try:
            yield runners
        finally:
            keeper.cancel()
            await runners.close()


class _LiveRunner:
    def __init__(self, actor: Any, node: Node) -> None:
        self.actor, self.node = actor, node
        self.running = 0
        self.skipped_until = 0.0  # on the event loop's clock


class _Runners:
    """The runners of all nodes, as this process sees them."""

    def __init__(self, cluster: RayCluster, recipe: EngineRecipe, calls: int) -> None:
        self._cluster, self._ray, self._recipe, self._calls = cluster, cluster.ray, recipe, calls
        self._runners: dict[Node, _LiveRunner] = {}
        self._starting: dict[Node, asyncio.Task[None]] = {}
        self._deaths: Counter[Node] = Counter()
        self._changed = asyncio.Condition()
        self._error: Exception | None = None
        self._nodes = 0
        self._last_death = ""

    @property
    def slots(self) -> int:
        return self._calls * max(1, self._nodes)

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the node with the fewest calls; again elsewhere if its runner dies or has no server."""
        for attempt in range(1, MOST_DEATHS + 1):
            runner = await self._free_runner()
            try:
                result = await runner.actor.call.remote(function, arguments)
            except self._ray.exceptions.RayError as error:
                await self._bury(runner, error)
                continue
            finally:
                runner.running -= 1
                await self._notify()
            if isinstance(result, Failed):
                alone = len(self._runners) + len(self._starting) < 2
                if not isinstance(result.error, EngineUnavailable) or attempt == MOST_DEATHS or alone:
                    raise result.error
                runner.skipped_until = asyncio.get_running_loop().time() + SKIP_SECONDS
                continue
            self._deaths.pop(runner.node, None)
            return result
        raise EngineError(f"{MOST_DEATHS} runners died during the same call; the last: {self._last_death}")

    async def _free_runner(self) -> _LiveRunner:
        def free() -> list[_LiveRunner]:
            now, runners = asyncio.get_running_loop().time(), self._runners.values()
            usable = [runner for runner in runners if runner.skipped_until <= now]
            if not usable and not self._starting:
                usable = list(runners)
            return [runner for runner in usable if runner.running < self._calls]

        async with self._changed:
            await self._changed.wait_for(lambda: self._error is not None or free())
            if self._error is not None:
                raise self._error
            runner = min(free(), key=lambda one: one.running)
            runner.running += 1
            return runner

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def _bury(self, runner: _LiveRunner, error: Exception) -> None:
        """Forget a runner. It is killed, in case only the connection was lost, so that it pays for nothing more."""
        if self._runners.get(runner.node) is runner:
            del self._runners[runner.node]
            self._deaths[runner.node] += 1
            self._last_death = f"on node {runner.node.address}: {first_line(error)}"
            self._kill(runner.actor)

    async def keep(self) -> None:
        """Start runners on nodes that have none: new ones, and those whose runner died. An error ends the work."""
        try:
            await self._keep()
        except EngineUnavailable as error:
            await self._fail(error)
        except Exception as error:  # Ray raises errors of many kinds, and calls would wait forever
            await self._fail(EngineRejected(f"the Ray cluster cannot be used: {first_line(error)}"))

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        had_one = loop.time()
        while self._error is None:
            await asyncio.sleep(POLL_SECONDS)
            unusable = 0
            try:
                unusable = await self.start_missing()
            except EngineUnavailable as error:  # runners that live go on without a list of nodes
                self._last_death = str(error)
            await self._notify()  # runners that were skipped may be used again
            if self._runners or self._starting:
                had_one = loop.time()
            elif unusable or loop.time() - had_one > LOST_SECONDS:
                last = f" (the last: {self._last_death})" if self._last_death else ""
                raise EngineUnavailable(NO_NODE_LEFT + last)

    async def start_missing(self) -> int:
        """Start runners on nodes that have none; the number of nodes that are left alone, because theirs keep dying."""
        try:
            nodes = await asyncio.to_thread(self._cluster.nodes)
        except Exception as error:  # Ray raises errors of many kinds
            raise EngineUnavailable(f"the Ray cluster does not list its nodes ({first_line(error)})") from None
        self._nodes = max(self._nodes, len(nodes))
        for node in nodes:
            busy = node in self._runners or node in self._starting
            if not busy and self._deaths[node] < MOST_DEATHS:
                self._starting[node] = asyncio.create_task(self._start(node))
        return sum(self._deaths[node] >= MOST_DEATHS for node in nodes)

    async def _start(self, node: Node) -> None:
        """Start a runner. An error of ours, such as a missing model, ends the work, as it does in one process."""
        actor: Any = None
        try:
            actor = self._cluster.on(node, Runner, num_cpus=1, max_restarts=0).remote(node.address)
            await asyncio.wait_for(actor.ping.remote(), START_SECONDS)
            failed = await actor.open.remote(self._recipe)
            if isinstance(failed, Failed):
                await self._fail(failed.error)
            else:
                self._runners[node] = _LiveRunner(actor, node)
        except TimeoutError:
            self._deaths[node] = MOST_DEATHS
            self._last_death = f"node {node.address} had no free CPU within {START_SECONDS:g} s"
        except self._ray.exceptions.RayError as error:
            self._deaths[node] += 1
            self._last_death = f"on node {node.address}: {first_line(error)}"
        except Exception as error:  # such as a TypeError for an engine that cannot be sent
            await self._fail(EngineRejected(f"no runner can start on node {node.address}: {first_line(error)}"))
        finally:
            if actor is not None and node not in self._runners:
                self._kill(actor)
            del self._starting[node]
            await self._notify()

    def _kill(self, actor: Any) -> None:
        with suppress(Exception):  # it is gone, or the cluster is
            self._ray.kill(actor)

    async def _fail(self, error: Exception) -> None:
        self._error = self._error or error
        await self._notify()

    async def close(self) -> None:
        """Close every engine, then end every runner; Ray ends those of a process that is killed before."""
        for task in self._starting.values():
            task.cancel()
        runners = list(self._runners.values())
        closing = [asyncio.ensure_future(runner.actor.close.remote()) for runner in runners]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
        for runner in runners:
            self._kill(runner.actor)
