"""What one stop test costs at 16, 64 and 512 counted paths, with the cost of adding the vote beside it.

python benchmarks/stops.py [--smoke]
"""

from __future__ import annotations

import argparse
import time

import numpy as np

from sureenough.core.poll import Poll
from sureenough.core.weights import Ballot
from sureenough.strategies import STRATEGIES


def poll_of(name: str, paths: int) -> tuple[Poll, list[Ballot]]:
    """A contested poll: half for the leader, the rest scattered."""
    rng = np.random.default_rng(0)
    poll = Poll(STRATEGIES[name].weigh, 2 * paths)
    answers = rng.choice(["a", *map(str, range(12))], size=paths, p=[0.5] + [0.5 / 12] * 12)
    signals = rng.normal(9, 1, (paths, 2)).tolist()
    ballots = [Ballot(i, str(answer), 9.0, *signals[i]) for i, answer in enumerate(answers)]
    return poll, ballots


def cost(name: str, paths: int, times: int) -> float:
    """Microseconds for the last vote and the test after it."""
    best = float("inf")
    for _ in range(times):
        poll, ballots = poll_of(name, paths)
        for ballot in ballots[:-1]:
            poll.add(ballot.path, ballot)
        start = time.perf_counter()
        poll.add(ballots[-1].path, ballots[-1])
        STRATEGIES[name].stop(poll)
        best = min(best, time.perf_counter() - start)
    return 1e6 * best


def main() -> None:
    """A row a strategy."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--smoke", action="store_true")
    times = 3 if parser.parse_args().smoke else 30
    print(f"{'strategy':14} {'16':>8} {'64':>8} {'512':>8}  paths counted; us for one vote and its test")
    for name in ("sc", "ac", "esc", "deepconf-low", "ddc", "sure"):
        print(f"{name:14} " + " ".join(f"{cost(name, paths, times):8.1f}" for paths in (16, 64, 512)))


if __name__ == "__main__":
    main()
