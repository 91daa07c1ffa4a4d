"""How fast recorded paths are monitored and replayed, as ratios measured in one run, each with its floor.

    python benchmarks/replay.py [POOL.parquet] [--smoke]

Without a pool it uses the built-in one. `--smoke` does less of everything, for CI. Exit code 1 where a bar is missed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path

import numpy as np

from sureenough.bench import compare
from sureenough.core.confidence import Monitor
from sureenough.core.options import RunOptions
from sureenough.core.pruning import Gate
from sureenough.data import BUILTIN_POOL
from sureenough.drivers.lockstep import lockstep
from sureenough.drivers.replay import ReplayDriver, fast_replay, replay
from sureenough.pools import Pool, Question, RecordedPath, write_pool
from sureenough.spec import parse
from sureenough.strategies import STRATEGIES

TEN = list(STRATEGIES)[:10]
missed: list[str] = []
tolerance = 1.0  # CI allows noisy machines a little


def bar(says: str, value: float, limit: float, *, at_least: bool = False) -> None:
    """Print a figure with its bar; remember a miss."""
    holds = value >= limit * tolerance if at_least else value * tolerance <= limit
    print(
        f"  {says}: {value:,.2f} (bar: {'at least' if at_least else 'at most'} {limit:g}) {'ok' if holds else 'MISSED'}"
    )
    if not holds:
        missed.append(says)


OWN_TIME = time.process_time
"""For ratios within one process: what other programs take does not count."""


def seconds(work: Callable[[], object], clock: Callable[[], float] = time.perf_counter) -> float:
    """Time of one call."""
    start = clock()
    work()
    return clock() - start


def best(work: Callable[[], object], times: int = 3, clock: Callable[[], float] = time.perf_counter) -> float:
    """The least disturbed of a few calls."""
    return min(seconds(work, clock) for _ in range(times))


def monitor_cost(tokens: int) -> None:
    """Microseconds per token: push alone, push and all three tiers, and an empty loop as the floor."""
    rng = np.random.default_rng(0)
    conf, peak = rng.normal(10, 3, tokens).tolist(), rng.random(tokens).tolist()
    gate = Gate(trust=2.0, drop=-1.0, risk=9.0)  # tests everything, closes never

    def floor() -> None:
        for _ in zip(peak, conf, strict=True):
            pass

    print(f"monitor, {tokens:,} tokens")
    for window in (64, 2048):

        def push(window: int = window) -> None:
            take = Monitor(window).push
            for p, c in zip(peak, conf, strict=True):
                take(p, c)

        def watch(window: int = window) -> None:
            monitor = Monitor(window)
            for p, c in zip(peak, conf, strict=True):
                if monitor.push(p, c):
                    gate.tier(monitor)

        us = 1e6 / tokens
        print(f"  window {window}: empty loop {best(floor) * us:.3f} us, push {best(push) * us:.2f} us")
        bar(f"window {window}, push and all tiers, us per token", best(watch) * us, 4.0)


def lanes(questions: list[Question], orders: int) -> None:
    """A sweep in the fast lane against the same sweep token by token, scans and all; outcomes must be equal."""

    def sweep(driver: ReplayDriver, orders: int) -> list[object]:
        outs: list[object] = []
        for question in questions:
            fresh = [RecordedPath(path.answer, path.peak, path.conf) for path in question.paths]
            for order in range(orders):
                mixed = fresh[order:] + fresh[:order]
                options = RunOptions(paths=len(mixed), window=64)
                outs += [replay(mixed, parse(name), options, driver=driver) for name in TEN]
        return outs

    slow = seconds(lambda: sweep(lockstep, 1), OWN_TIME) * orders
    fast = best(lambda: sweep(fast_replay, orders), 5, OWN_TIME)
    tokens = sum(path.tokens for question in questions for path in question.paths)
    print(f"lanes, {len(questions)} questions, {tokens:,} tokens, ten strategies, {orders} orders")
    print(f"  token by token {slow:.2f} s (one order timed), fast {fast:.3f} s")
    if sweep(fast_replay, 1) != sweep(lockstep, 1):
        missed.append("lanes differ")
    bar("fast lane, times the token-by-token lane", slow / fast, 100, at_least=True)


def ten_sums(file: Path) -> tuple[float, int]:
    """Seconds for ten plain cumulative sums over a pool's tokens, and how many those are."""
    tokens = np.concatenate([np.asarray(path.conf) for question in Pool(file) for path in question.paths])
    return best(lambda: [np.cumsum(tokens) for _ in range(10)]), len(tokens)


def peak_memory_of(words: list[str]) -> float:
    """Run the command in a process of its own; the most memory it ever held, in MB (Linux)."""
    # getrusage would count the parent's memory too, from before the child became another program.
    code = (
        "import atexit, re, sys\n"
        "peak = lambda: print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1], file=sys.stderr)\n"
        "atexit.register(peak)\n"
        f"sys.argv[1:] = {words!r}\n"
        "from sureenough.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return int(done.stderr.split()[-1]) / 1024


def whole_pool(file: Path, repeats: int) -> None:
    """Ten strategies over the pool, against ten plain cumulative sums over the same tokens."""
    floor, count = ten_sums(file)
    words = ["replay", str(file), "--repeats", str(repeats), "-s", " ".join(TEN)]
    start = time.perf_counter()
    peak = peak_memory_of(words)
    took = time.perf_counter() - start
    print(f"replay of {file.name}: {count:,} tokens, ten strategies, {repeats} repeats")
    print(f"  {took:.1f} s; ten numpy cumulative sums: {floor:.3f} s")
    bar(f"times ten cumulative sums, at {repeats} repeats", took / floor, 150 * repeats / 5 if count > 2e6 else 1000)
    bar("peak memory of the command, MB", peak, 1000)


def growth(file: Path, sizes: tuple[int, ...], orders: tuple[int, ...]) -> None:
    """Cost against tokens and against repeats: linear means that the cost of one more does not grow."""
    print("growth")
    with tempfile.TemporaryDirectory() as folder:
        small = Path(folder) / "part.parquet"
        costs = []
        for size in sizes:
            tokens = cut(file, small, size)
            took = best(lambda: compare(small, ["sc", "ac", "ddc"], repeats=2), 3, OWN_TIME)
            costs.append(took / tokens)
            print(f"  {size} questions, {tokens:,} tokens: {took:.2f} s, {1e6 * took / tokens:.3f} us per token")
        bar("us per token, largest over smallest pool", costs[-1] / costs[0], 1.5)
        cut(file, small, sizes[0])
        each = []
        for repeats in orders:
            took = best(lambda repeats=repeats: compare(small, ["sc", "ac", "ddc"], repeats=repeats), 3, OWN_TIME)  # type: ignore[misc]
            each.append(took / repeats)
            print(f"  {repeats} repeats: {took:.2f} s, {took / repeats:.3f} s a repeat")
        bar("seconds per repeat, most over fewest repeats", each[-1] / each[0], 1.2)


def cut(file: Path, out: Path, size: int) -> int:
    """The first questions of a pool as a pool; its tokens."""
    pool = Pool(file)
    tokens = 0

    def counted() -> Iterator[Question]:
        nonlocal tokens
        for question in islice(pool, size):
            tokens += sum(path.tokens for path in question.paths)
            yield question

    write_pool(out, counted(), pool.info)
    return tokens


def main() -> int:
    """Everything; 0 where every bar holds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pool", nargs="?", type=Path, default=BUILTIN_POOL)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--tolerance", type=float, default=1.0, help="0.8 lets bars be missed by a fifth")
    asked = parser.parse_args()
    global tolerance  # noqa: PLW0603 - a script's setting
    tolerance = asked.tolerance
    monitor_cost(20_000 if asked.smoke else 200_000)
    questions = list(Pool(asked.pool))
    longest = max(questions, key=lambda question: sum(path.tokens for path in question.paths))
    lanes([longest] if asked.smoke else questions[:: len(questions) // 5], orders=5)
    del questions
    growth(asked.pool, (3, 6, 12, 24) if asked.smoke else (6, 12, 24, 48), (1, 2, 4, 8))
    whole_pool(asked.pool, 1 if asked.smoke else 5)
    if missed:
        print("missed: " + "; ".join(missed))
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
