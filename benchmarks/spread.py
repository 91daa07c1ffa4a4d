"""One experiment on one core and on all: the same bits, how much faster, how much memory.

    python benchmarks/spread.py POOL… [--jobs 2] [--smoke] [--learning]

The ratio is of processor time: one process against the parent plus its share of the workers. It says what the cores
would give were they free. Both run at the same time, so that whatever slows the machine slows both; a ratio below the
floor is measured again, twice at most.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path
from typing import Final, NamedTuple

from sureenough.bench.paper import Inputs, experiment
from sureenough.bench.pipeline import ReplaySettings, Source, in_processes
from sureenough.bench.result import ExperimentResult
from sureenough.data import BUILTIN_POOL

FLOOR: Final = 1.5
"""Two cores against one, imports of the workers included; docs/LOG.md has the measured figures."""
ATTEMPTS: Final = 3
SPLIT: Final = ("sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc-no-trend")
"""Strategies whose questions may be split over processes."""
LEARNING: Final = ("sc", "ac", "ddc", "sure", "sure:delta=0.02", "sc:weigh=learned")
"""With strategies that learn: the pool is read and scanned once, by all processes; the first process replays such a
strategy on all questions in order, without their signals."""
MOST_MEMORY: Final = 2 * 2**30


class Cost(NamedTuple):
    """What one run took: seconds on the clock, of its own process, of that process's children; bytes of all."""

    result: ExperimentResult
    wall: float
    own: float
    children: float
    memory: int


class Work(NamedTuple):
    """What is timed, here or in another process."""

    pools: list[Path]
    strategies: tuple[str, ...]
    repeats: int
    jobs: int = 1


def timed(work: Work) -> Cost:
    sources = [Source.of(pool) for pool in work.pools]
    settings = ReplaySettings(repeats=work.repeats, jobs=work.jobs)
    inputs = Inputs(sources, settings=settings, strategies=work.strategies)
    began, own, children = time.monotonic(), _used(resource.RUSAGE_SELF), _used(resource.RUSAGE_CHILDREN)
    result = experiment("main").run(inputs)
    wall = time.monotonic() - began
    largest = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    memory = 1024 * (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + work.jobs * largest)
    return Cost(result, wall, _used(resource.RUSAGE_SELF) - own, _used(resource.RUSAGE_CHILDREN) - children, memory)


def _used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """0 if the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pools", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="a short run: the same bits, no bar for speed")
    parser.add_argument("--learning", action="store_true", help="with strategies that learn; no bar for speed")
    args = parser.parse_args()
    work = Work(args.pools or [BUILTIN_POOL], LEARNING if args.learning else SPLIT, 1 if args.smoke else 5)
    timed(work._replace(repeats=1))  # answers are judged, and their classes are cached
    fast = args.smoke or args.learning
    for _ in range(ATTEMPTS):
        same, small, ratio = compare(work, args.jobs)
        fast = fast or ratio >= FLOOR
        if fast or not (same and small):
            break
    return 0 if same and small and fast else 1


def compare(work: Work, jobs: int) -> tuple[bool, bool, float]:
    """Whether the bits are the same, whether memory is within its limit, and how many times as fast several are."""
    one, many = in_processes(timed, [work, work._replace(jobs=jobs)], 2)
    same = (one.result.tables, one.result.figures) == (many.result.tables, many.result.figures)
    ratio = one.own / (many.own + many.children / jobs)
    print(f"one process: {one.wall:.1f} s on the clock, {one.own:.1f} s of processor")
    print(f"{jobs} processes: {many.wall:.1f} s on the clock, {many.own:.1f} + {many.children:.1f} s of processor")
    print(
        f"{ratio:.2f} times as fast on free cores (floor {FLOOR}); at most {many.memory / 2**20:,.0f} MB; "
        f"same bits: {same}"
    )
    return same, many.memory < MOST_MEMORY, ratio


if __name__ == "__main__":
    sys.exit(main())
