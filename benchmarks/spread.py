"""One experiment on one core and on all: the same bits, how much faster, how much memory.

    python benchmarks/spread.py POOL… [--jobs 2] [--smoke] [--learning]

The ratio is of processor time: one process against the parent plus its share of the workers. It says what the cores
would give were they free, so that a busy machine does not change it; wall time is printed beside it.
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Final, NamedTuple

from sureenough.bench.experiments import Inputs, experiment
from sureenough.bench.result import ExperimentResult
from sureenough.bench.settings import ReplaySettings
from sureenough.bench.source import Source
from sureenough.data import BUILTIN_POOL

FLOOR: Final = 1.35
"""Two cores against one, imports of the workers included. Runs on one machine gave 1.47 and 1.54, and 1.94 before
workers started their symbolic child process only if a pair of answers needs it."""
SPLIT: Final = ("sc", "ac", "esc", "deepconf-low", "deepconf-high", "ddc", "ddc:weight=mean", "ddc-no-trend")
"""Strategies whose questions may be split over processes."""
LEARNING: Final = ("sc", "ac", "ddc", "sure", "sure:delta=0.02", "sc:weigh=learned")
"""With strategies that learn: the pool is read and scanned once, by all processes; each repeat of such a strategy then
sees all questions in order in one process, without their signals."""
MOST_MEMORY: Final = 2 * 2**30


class Took(NamedTuple):
    """What one run cost."""

    result: ExperimentResult
    wall: float
    here: float
    there: float


def timed(inputs: Inputs) -> Took:
    """Seconds on the clock, of this process, of its children."""
    began, here, there = time.monotonic(), _used(resource.RUSAGE_SELF), _used(resource.RUSAGE_CHILDREN)
    result = experiment("main").run(inputs)
    wall = time.monotonic() - began
    return Took(result, wall, _used(resource.RUSAGE_SELF) - here, _used(resource.RUSAGE_CHILDREN) - there)


def _used(who: int) -> float:
    usage = resource.getrusage(who)
    return usage.ru_utime + usage.ru_stime


def main() -> int:
    """0 where the promises hold."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pools", nargs="*", type=Path)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--smoke", action="store_true", help="a short run: the same bits, no bar for speed")
    parser.add_argument("--learning", action="store_true", help="with strategies that learn; no bar for speed")
    args = parser.parse_args()
    sources = [Source.of(pool) for pool in args.pools or [BUILTIN_POOL]]
    inputs = Inputs(
        sources,
        settings=ReplaySettings(repeats=1 if args.smoke else 5),
        strategies=LEARNING if args.learning else SPLIT,
    )
    timed(replace(inputs, settings=replace(inputs.settings, repeats=1)))  # answers are judged, modules loaded
    one = timed(inputs)
    many = timed(replace(inputs, settings=replace(inputs.settings, jobs=args.jobs)))
    same = (one.result.tables, one.result.figures) == (many.result.tables, many.result.figures)
    ratio = one.here / (many.here + many.there / args.jobs)
    largest = 1024 * resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    memory = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss + args.jobs * largest
    print(f"one process: {one.wall:.1f} s on the clock, {one.here:.1f} s of processor")
    print(f"{args.jobs} processes: {many.wall:.1f} s on the clock, {many.here:.1f} + {many.there:.1f} s of processor")
    print(
        f"{ratio:.2f} times as fast on free cores (floor {FLOOR}); at most {memory / 2**20:,.0f} MB; same bits: {same}"
    )
    fast = args.smoke or args.learning or ratio >= FLOOR
    return 0 if same and fast and memory < MOST_MEMORY else 1


if __name__ == "__main__":
    sys.exit(main())
