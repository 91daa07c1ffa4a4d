"""Errors of a Ray cluster that are not Ray's own end the work; nothing waits forever, and no actor is left."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from sureenough.engines.fake import Fake
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable
from sureenough.ray import jobs
from sureenough.ray.jobs import RayJobs


class RayError(Exception):
    """As Ray's."""


class Remote:
    """A method of an actor, or its class."""

    def __init__(self, result: Callable[[], Any]) -> None:
        self._result = result

    def remote(self, *arguments: object) -> Any:
        return self._result()


class Actor:
    """A runner whose calls return 7."""

    def __init__(self, opened: Callable[[], Any]) -> None:
        self.__ray_ready__, self.close = (Remote(lambda: asyncio.sleep(0)) for _ in range(2))
        self.call, self.open = Remote(lambda: asyncio.sleep(0, 7)), Remote(opened)


class Cluster:
    """The module `ray`, connected to a cluster with one node; what fails there is given.

    Args:
        making: raised instead of making an actor.
        opening: raised when a runner opens its engine.
        headless: the head node is lost when the first runner has been made.
    """

    exceptions = SimpleNamespace(RayError=RayError)

    def __init__(
        self, *, making: Exception | None = None, opening: Exception | None = None, headless: bool = False
    ) -> None:
        self.made: set[Actor] = set()
        self.killed: set[Actor] = set()
        self.kill = self.killed.add
        self.making, self.opening, self.headless = making, opening, headless
        self.failures = 0  # of the head node

    def nodes(self) -> list[dict[str, Any]]:
        if self.headless and self.made:
            self.failures += 1
            raise ConnectionError("GCS is gone, key=hunter2")
        return [{"NodeID": "n1", "NodeManagerAddress": "10.0.0.2", "Alive": True, "Resources": {"CPU": 1.0}}]

    def opened(self) -> Any:
        if self.opening is not None:
            raise self.opening
        return asyncio.sleep(0)

    def make(self) -> Actor:
        if self.making is not None:
            raise self.making
        actor = Actor(self.opened)
        self.made.add(actor)
        return actor


def call(cluster: Any) -> Any:
    async def use() -> Any:
        async with RayJobs(cluster, lambda: Fake(lambda seed: []), parallel=1, calls=1) as opened:
            return await opened.call(print)

    return asyncio.run(asyncio.wait_for(use(), 30))


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jobs, "on_node", lambda ray, node_id, thing, **options: Remote(ray.make))
    monkeypatch.setattr(jobs, "POLL_SECONDS", 0.001)
    monkeypatch.setattr(jobs, "LOST_SECONDS", 0.01)


@pytest.mark.parametrize(
    ("cluster", "kind", "message"),
    [
        (
            Cluster(opening=RayError("died"), headless=True),
            EngineUnavailable,
            r"does not list its nodes \(GCS is gone, key=\*\*\*\)",
        ),
        (
            Cluster(making=ValueError("no such scheduling strategy")),
            EngineRejected,
            "no runner can start on node 10.0.0.2: no such scheduling strategy",
        ),
        (
            Cluster(opening=TypeError("cannot pickle '_thread.lock' object")),
            EngineRejected,
            "no runner can start on node 10.0.0.2: cannot pickle",
        ),
        (
            Cluster(opening=RayError("the worker died")),
            EngineUnavailable,
            "the last: on node 10.0.0.2: the worker died",
        ),
    ],
)
def test_an_error_at_the_start_ends_the_work(cluster: Cluster, kind: type[EngineError], message: str) -> None:
    with pytest.raises(kind, match=message):
        call(cluster)
    assert len(cluster.made) <= jobs.MOST_DEATHS
    assert cluster.killed == cluster.made


def test_a_cluster_that_is_gone_before_the_first_call() -> None:
    cluster = Cluster(headless=True)
    cluster.make()
    with pytest.raises(EngineUnavailable, match="does not list its nodes"):
        call(cluster)


def test_runners_go_on_while_the_head_node_is_gone() -> None:
    cluster: Any = Cluster(headless=True)

    async def use() -> list[int]:
        async with RayJobs(cluster, lambda: Fake(lambda seed: []), parallel=1, calls=1) as opened:
            first = await opened.call(print)
            while cluster.failures < 5:
                await asyncio.sleep(0.001)
            return [first, await opened.call(print)]

    assert asyncio.run(asyncio.wait_for(use(), 30)) == [7, 7]


def test_runners_are_used_and_ended() -> None:
    cluster = Cluster()
    assert call(cluster) == 7
    assert len(cluster.made) == 1
    assert cluster.killed == cluster.made
