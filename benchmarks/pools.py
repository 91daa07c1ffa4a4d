"""A pool in many parts: the memory and time of `replay` or `bench`, and how memory grows with the pool.

    python benchmarks/pools.py [--rows 2000000] [--parts 40] [--tokens 64] [--jobs 1] [--verb replay] [--smoke]

Makes a synthetic pool in a temporary folder, and a quarter of it; replays both in a process of its own. `--smoke` does
40,000 rows in 8 parts. Exit code 1 if it takes 1 GB or more.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from sureenough.pools import PoolInfo
from sureenough.pools.schema import pool_schema

MOST_MEMORY: Final = 1000.0  # MB
PATHS: Final = 64
WATCH: Final = """
import atexit, os, re, sys, threading, time
from pathlib import Path
import psutil
most, own = 0, psutil.Process()
def watch():
    global most
    while True:
        total = 0
        for process in [own, *own.children(recursive=True)]:
            try:
                total += process.memory_info().rss
            except psutil.Error:
                pass
        most = max(most, total)
        time.sleep(0.5)
def peak():
    own_peak = int(re.search(r"VmHWM:\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) / 1024
    print(own_peak, most / 2**20, file=sys.stderr)
threading.Thread(target=watch, daemon=True).start()
atexit.register(peak)
from sureenough.cli import main
if __name__ == "__main__":
    main()
"""


class Replayed(NamedTuple):
    """What one command took."""

    seconds: float
    own: float  # MB, the most that its process held
    together: float  # MB, with its workers, as far as samples show


def write_part(file: Path, first: int, questions: int, tokens: int) -> None:
    """Questions with answers of which a third to all are right, and confidences that go with that a little."""
    rng = np.random.default_rng(first)
    schema = pool_schema(PoolInfo(dataset="synthetic", model="none", window=16))
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for start in range(first, first + questions, 32):
            names = np.repeat(np.arange(start, min(start + 32, first + questions)), PATHS)
            share = np.repeat(rng.uniform(0.33, 1.0, len(names) // PATHS), PATHS)
            right = rng.random(len(names)) < share
            answer = np.where(right, 0, rng.integers(1, 8, len(names)))
            conf = rng.normal(9 + right[:, None], 2, (len(names), tokens)).astype(np.float16)
            peak = rng.random((len(names), tokens)).astype(np.float16)
            columns = {
                "question": [f"q{name}" for name in names], "path": np.tile(np.arange(PATHS), len(names) // PATHS),
                "gold": ["0"] * len(names), "level": [1] * len(names), "answer": [str(one) for one in answer],
                "finish": ["stop"] * len(names), "peak": list(peak), "conf": list(conf),
                "tokens": [tokens] * len(names),
            }  # fmt: skip
            arrays = [pa.array(columns[field.name], field.type) for field in schema]
            writer.write_table(pa.Table.from_arrays(arrays, schema=schema))


def make(folder: Path, rows: int, parts: int, tokens: int) -> int:
    """The pool; its rows, which are whole questions."""
    folder.mkdir(parents=True)
    each = max(1, rows // PATHS // parts)
    for number in range(parts):
        write_part(folder / f"part-{number:05d}.parquet", number * each, each, tokens)
    return each * parts * PATHS


def replay(folder: Path, strategies: str, jobs: int, verb: str) -> Replayed:
    """`sureenough replay`, or `bench main`, in a process of its own."""
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "watch.py"
        script.write_text(WATCH)
        on_pool = ["replay"] if verb == "replay" else ["bench", "main", "-o", scratch, "--pool"]
        words = [sys.executable, str(script), *on_pool, str(folder), "-s", strategies, "--repeats", "1"]
        began = time.monotonic()
        done = subprocess.run([*words, "--jobs", str(jobs)], check=True, capture_output=True, text=True)
    own, together = map(float, done.stderr.split()[-2:])
    return Replayed(time.monotonic() - began, own, together)


def main() -> int:
    """0 if memory is below the bar."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--parts", type=int, default=40)
    parser.add_argument("--tokens", type=int, default=64, help="per path")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--verb", choices=("replay", "bench"), default="replay")
    parser.add_argument("--strategies", default="sc ac ddc sure")
    parser.add_argument("--smoke", action="store_true")
    args = parser.parse_args()
    rows, parts = (40_000, 8) if args.smoke else (args.rows, args.parts)
    results: list[tuple[int, Replayed]] = []
    with tempfile.TemporaryDirectory() as folder:
        for share in (4, 1):
            pool = Path(folder) / f"pool-{share}"
            began = time.monotonic()
            made = make(pool, rows // share, max(1, parts // share), args.tokens)
            size = sum(file.stat().st_size for file in pool.iterdir()) / 2**20
            print(f"{made:,} rows in {max(1, parts // share)} parts, {made * args.tokens:,} tokens, {size:,.0f} MB; "
                  f"made in {time.monotonic() - began:.0f} s", flush=True)  # fmt: skip
            took = replay(pool, args.strategies, args.jobs, args.verb)
            print(f"  {args.verb} of {args.strategies}, {args.jobs} jobs: {took.seconds:.0f} s, "
                  f"peak {took.own:,.0f} MB, with workers {took.together:,.0f} MB", flush=True)  # fmt: skip
            results.append((made, took))
    (few, small), (many, large) = results
    growth = (max(large.own, large.together) - max(small.own, small.together)) * 2**20 / (many - few)
    print(f"growth: {growth:,.0f} bytes per row, {growth * PATHS:,.0f} per question (bar: below {MOST_MEMORY:,.0f} MB)")
    return int(max(large.own, large.together) >= MOST_MEMORY)


if __name__ == "__main__":
    sys.exit(main())
