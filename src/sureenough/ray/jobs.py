"""`record` and `bench` on a Ray cluster: one runner per node, a bounded number of calls under way on each.

The process that starts the work keeps everything that must last. A runner holds nothing but its engine and the calls
under way, so that one that dies, alone or with its node, costs these calls only: they are made again elsewhere.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass
from typing import Any, Final, Self

from sureenough.engines.base import Engine
from sureenough.engines.load_balancer import SKIP_SECONDS
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable, SureEnoughError, TraceError, UsageError
from sureenough.ray.cluster import START_SECONDS, Node, Parcel, nodes, on_node
from sureenough.redact import first_line, redact

POLL_SECONDS: Final = 1.0
LOST_SECONDS: Final = 60.0  # without any node, before the work ends; nodes may come back
CLOSE_SECONDS: Final = 30.0  # for a runner to close its engine
MOST_DEATHS: Final = 3  # of a node's runners without a finished call in between, and of runners during the same call


@dataclass(slots=True, eq=False)
class _LiveRunner:
    actor: Any
    node: Node
    running: int = 0
    skipped_until: float = 0.0  # on the event loop's clock


class RayJobs:
    """Calls functions on the nodes of a cluster, with an engine that each node makes for itself."""

    def __init__(self, ray: Any, make_engine: Callable[[], Engine], *, parallel: int, calls: int) -> None:
        self._ray, self._calls = ray, calls
        self._parcel = Parcel((make_engine, parallel))
        self._runners: dict[Node, _LiveRunner] = {}
        self._starting: dict[Node, asyncio.Task[None]] = {}
        self._deaths, self._last_death = Counter[Node](), ""
        self._changed = asyncio.Event()
        self._error: Exception | None = None
        self._nodes = 1  # the most that there were

    async def __aenter__(self) -> Self:
        """Start a runner on every node; calls wait for the first that is ready."""
        await self._start_missing()
        self._keeper = asyncio.create_task(self._keep())
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close every engine, then end every runner; Ray ends those of a process that is killed before."""
        self._keeper.cancel()
        for task in self._starting.values():
            task.cancel()
        runners = list(self._runners.values())
        closing = [asyncio.ensure_future(runner.actor.close.remote()) for runner in runners]
        if closing:
            await asyncio.wait(closing, timeout=CLOSE_SECONDS)
        for runner in runners:
            self._kill(runner.actor)

    @property
    def slots(self) -> int:
        return self._calls * self._nodes

    async def call(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """Call a function on the node with the fewest calls; again elsewhere if its runner dies or has no server."""
        for attempt in range(1, MOST_DEATHS + 1):
            runner = await self._free_runner()
            try:
                result = await runner.actor.call.remote(function, arguments)
            except self._ray.exceptions.RayError as error:
                if self._runners.get(runner.node) is runner:
                    del self._runners[runner.node]
                    self._died(runner.node, error)
                    self._kill(runner.actor)  # if only the connection was lost, it must not pay for anything more
                continue
            finally:
                runner.running -= 1
                self._changed.set()
            if isinstance(result, SureEnoughError):
                alone = len(self._runners) + len(self._starting) < 2
                if not isinstance(result, EngineUnavailable) or attempt == MOST_DEATHS or alone:
                    raise result
                runner.skipped_until = asyncio.get_running_loop().time() + SKIP_SECONDS
                continue
            self._deaths.pop(runner.node, None)
            return result
        raise EngineError(f"{MOST_DEATHS} runners died during the same call; the last: {self._last_death}")

    async def _free_runner(self) -> _LiveRunner:
        while self._error is None:
            now, runners = asyncio.get_running_loop().time(), list(self._runners.values())
            usable = [runner for runner in runners if runner.skipped_until <= now]
            if not usable and not self._starting:
                usable = runners
            runner = min(usable, key=lambda one: one.running, default=None)
            if runner is not None and runner.running < self._calls:
                runner.running += 1
                return runner
            self._changed.clear()
            await self._changed.wait()
        raise self._error

    async def _keep(self) -> None:
        """Start runners on nodes that have none: new ones, and those whose runner died. Without any, the work ends."""
        loop = asyncio.get_running_loop()
        had_one = loop.time()
        while self._error is None:
            await asyncio.sleep(POLL_SECONDS)
            unusable = False
            with suppress(EngineUnavailable):  # runners that live go on without a list of nodes
                unusable = await self._start_missing()
            if self._runners or self._starting:
                had_one = loop.time()
            elif unusable or loop.time() - had_one > LOST_SECONDS:
                last = f" (the last: {self._last_death})" if self._last_death else ""
                self._fail(EngineUnavailable(
                    "no node of the Ray cluster is left to work on: start nodes again (`ray status` lists them) and "
                    f"give the same command{last}"
                ))  # fmt: skip
            self._changed.set()  # runners that were skipped may be used again

    async def _start_missing(self) -> bool:
        """Start runners on nodes that have none; whether some are left alone, because theirs keep dying."""
        try:
            found = await asyncio.to_thread(nodes, self._ray)
        except Exception as error:  # Ray raises errors of many kinds
            self._last_death = f"the Ray cluster does not list its nodes ({first_line(error)})"
            raise EngineUnavailable(self._last_death) from None
        self._nodes = max(self._nodes, len(found))
        for node in found:
            if node not in self._runners and node not in self._starting and self._deaths[node] < MOST_DEATHS:
                self._starting[node] = asyncio.create_task(self._start(node))
        return any(self._deaths[node] >= MOST_DEATHS for node in found)

    async def _start(self, node: Node) -> None:
        """Start a runner. An error of ours, such as a missing model, ends the work, as it does in one process."""
        actor: Any = None
        try:
            actor = on_node(self._ray, node.id, Runner, num_cpus=1, max_restarts=0).remote(node.address)
            await asyncio.wait_for(actor.__ray_ready__.remote(), START_SECONDS)
            error = await actor.open.remote(self._parcel)
            if error is None:
                self._runners[node] = _LiveRunner(actor, node)
            else:
                self._fail(error)
        except TimeoutError:
            self._deaths[node] = MOST_DEATHS
            self._last_death = f"node {node.address} had no free CPU within {START_SECONDS:g} s"
        except self._ray.exceptions.RayError as error:
            self._died(node, error)
        except Exception as error:  # such as a TypeError for an engine that cannot be sent
            self._fail(EngineRejected(f"no runner can start on node {node.address}: {first_line(error)}"))
        finally:
            if actor is not None and node not in self._runners:
                self._kill(actor)
            del self._starting[node]
            self._changed.set()

    def _died(self, node: Node, error: Exception) -> None:
        self._deaths[node] += 1
        self._last_death = f"on node {node.address}: {first_line(error)}"

    def _kill(self, actor: Any) -> None:
        with suppress(Exception):  # it is gone, or the cluster is
            self._ray.kill(actor)

    def _fail(self, error: Exception) -> None:
        """End the work."""
        self._error = self._error or error
        self._changed.set()


class Runner:
    """What runs on a node: an engine that stays open. Errors are returned, since Ray logs those that are raised."""

    def __init__(self, node: str) -> None:
        self._node = node
        self._engine: Engine | None = None
        self._stack = AsyncExitStack()
        self._secrets: tuple[str, ...] = ()

    async def open(self, parcel: Parcel) -> SureEnoughError | None:
        """Make the engine and open it."""
        self._secrets = tuple(parcel.keys.values())
        make, parallel = parcel.unpack()
        try:
            self._engine = await self._stack.enter_async_context(make().open(parallel=parallel))
        except Exception as error:  # whatever the code of another package raises
            return self._failed(error)
        return None

    async def call(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> Any:
        """What the function returns, or its error."""
        try:
            return await function(self._engine, *arguments)
        except Exception as error:  # of a plug-in, or a bug: it ends the run, with a message
            return self._failed(error)

    async def close(self) -> None:
        await self._stack.aclose()

    def _failed(self, error: Exception) -> SureEnoughError:
        """The error without frames, and with the node's address if the fix is to be made there."""
        where, text = f"on node {self._node}", redact(str(error), *self._secrets)[:300]
        if isinstance(error, UsageError | TraceError):
            return type(error)(f"{where}: {text}")
        if isinstance(error, SureEnoughError):
            error.__context__ = error.__cause__ = None
            return error.with_traceback(None)
        return EngineRejected(f"{where}: {type(error).__name__}: {text}")
