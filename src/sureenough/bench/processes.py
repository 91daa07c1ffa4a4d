"""Processes of this machine that work on the parts of a pass."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Final, Self, TypeVar

from sureenough.errors import SureEnoughError
from sureenough.pools import Pool

A = TypeVar("A")
R = TypeVar("R")
WORTH_PROCESSES: Final = 20_000_000
"""Tokens times repeats: a few seconds in one process, as long as the imports of the others take."""


def cores() -> int:
    """Processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def suitable_jobs(pool: Path, repeats: int) -> int:
    """All cores, or one process if starting others would take longer than the replay."""
    return cores() if Pool(pool).tokens * repeats >= WORTH_PROCESSES else 1


class Processes:
    """Up to `jobs` processes that several passes share: they are started when there is work for more than one."""

    def __init__(self, jobs: int) -> None:
        self.jobs = jobs
        self._workers: ProcessPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._workers is not None:
            self._workers.shutdown(wait=True, cancel_futures=True)

    def run(self, function: Callable[[A], R], arguments: Sequence[A]) -> Iterator[tuple[int, R]]:
        """Call a function with each argument; (position, result) as they finish."""
        if self.jobs == 1 or len(arguments) <= 1:
            yield from ((number, function(argument)) for number, argument in enumerate(arguments))
            return
        self._workers = self._workers or ProcessPoolExecutor(self.jobs, mp_context=get_context("spawn"))
        futures = {self._workers.submit(function, argument): number for number, argument in enumerate(arguments)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BrokenProcessPool:
            raise SureEnoughError(
                "a worker process died, most likely because memory ran out; try one job. In a script of your own, "
                "call this under `if __name__ == '__main__':`"
            ) from None
