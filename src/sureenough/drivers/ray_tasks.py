"""Functions called on the nodes of a Ray cluster, one process per CPU: for work that needs no engine.

Ray itself places the calls, and makes those of a node that dies again elsewhere; here their number is bounded, and
errors keep their type.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar

from sureenough.drivers.ray_cluster import LOST_SECONDS, NO_NODE_LEFT, RayCluster
from sureenough.drivers.ray_runner import Failed, failed
from sureenough.errors import EngineUnavailable, SureEnoughError, TraceError
from sureenough.redact import first_line

A = TypeVar("A")
R = TypeVar("R")

POLL_SECONDS: Final = 1.0
MOST_TRIES: Final = 3
"""Of a call whose process dies."""
QUEUED: Final = 2
"""Calls per CPU that are running or on their way."""


class RayTasks:
    """As many calls at once as the cluster has CPUs. Ray ends those under way when the connection is closed."""

    def __init__(self, cluster: RayCluster) -> None:
        self._cluster, self._ray = cluster, cluster.ray
        self.jobs = max(1, cluster.cpus())

    def run(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Call a function with each argument; (position, result) as they finish."""
        remote = self._ray.remote(_call).options(
            num_cpus=1, max_retries=MOST_TRIES - 1, scheduling_strategy="SPREAD", name="sureenough"
        )
        waiting = list(enumerate(arguments))[::-1]
        running: dict[Any, int] = {}
        while waiting or running:
            while waiting and len(running) < QUEUED * self.jobs:
                number, argument = waiting.pop()
                running[remote.remote(function, argument, os.getcwd())] = number
            for reference in self._finished(list(running)):
                yield running.pop(reference), self._result(reference)

    def _finished(self, references: list[Any]) -> list[Any]:
        """The calls that have ended, at least one."""
        had_node = time.monotonic()
        while True:
            try:
                finished, _ = self._ray.wait(references, timeout=POLL_SECONDS)
                nodes = self._cluster.nodes()
            except Exception as error:  # Ray raises errors of many kinds
                raise EngineUnavailable(f"the Ray cluster cannot be used: {first_line(error)}") from None
            if finished:
                return list(finished)
            now = time.monotonic()
            had_node = now if nodes else had_node
            if now - had_node > LOST_SECONDS:
                raise EngineUnavailable(NO_NODE_LEFT)

    def _result(self, reference: Any) -> Any:
        try:
            result = self._ray.get(reference)
        except self._ray.exceptions.RayError as error:
            raise SureEnoughError(
                f"a process on the Ray cluster died {MOST_TRIES} times, most likely because memory ran out "
                f"({first_line(error)}): `ray status` and the logs of the nodes say more"
            ) from None
        if isinstance(result, Failed) and isinstance(result.error, TraceError):
            raise TraceError(
                f"{result.error}. Every node reads the files itself: they must be on storage that all nodes share, or "
                "be the same everywhere"
            )
        if isinstance(result, Failed):
            raise result.error
        return result


def _call(function: Callable[[A], R], argument: A, folder: str) -> R | Failed:
    """What the function returns; runs on a node, in the folder of the command, so that names of files hold there."""
    import ray

    with suppress(OSError):  # files with whole names may be there all the same
        os.chdir(folder)
    try:
        return function(argument)
    except Exception as error:
        return failed(error, ray.util.get_node_ip_address())
