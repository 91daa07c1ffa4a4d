"""How far one process of ours scales, by a simulation of many servers with measured costs.

    python benchmarks/scale.py check [BALANCE.jsonl]     the model against measured runs; exit 1 if one is off by more than 15%
    python benchmarks/scale.py plan [--help]             what 10^4, 10^5 and 10^6 paths in flight need

BALANCE.jsonl has lines of `python benchmarks/balance.py --json`. docs/scale.md explains the numbers and says which are
assumptions.
"""  # noqa: E501  # commands stay on one line

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, inf
from pathlib import Path
from typing import Any, Final, NamedTuple

from cluster_simulation import Cluster, Costs, Work, simulate

TOLERANCE: Final = 0.15

# -- what was measured


class MeasuredRun(NamedTuple):
    """One run on one H200, 1.5B parameters in bf16, vLLM 0.26: us of CPU per token, and the rate.

    docs/vllm.md and docs/LOG.md say how they were measured.
    """

    name: str
    at_once: int
    engine: float
    api: float
    client: float
    tokens_per_second: float
    expected: bool = True  # False: known to be off, see docs/scale.md


H200: Final = (
    MeasuredRun("watched, an event per token, 64 paths", 64, 194, 97, 54, 5_261),
    MeasuredRun("watched, an event per token, 512 paths", 512, 83, 103, 61, 9_109),
    MeasuredRun("plain, 64 paths", 64, 183, 82, 54, 4_111, expected=False),
    MeasuredRun("plain, 512 paths", 512, 65, 93, 56, 10_706),
    MeasuredRun("log-probabilities as text, 64 paths", 64, 376, 769, 26, 1_301),
    MeasuredRun("watched, whole replies, 512 paths", 512, 51, 20.5, 2.9, 19_743),
    MeasuredRun("watched, whole replies inside vLLM too, 512 paths", 512, 25.6, 6.1, 2.2, 35_417),
)
STEP: Final = 0.0081
"""Seconds of a step without any path: 194 us x 64 paths and 83 us x 512 lie on the line 8.1 ms + 67 us per path."""


def costs_of(run: MeasuredRun) -> Costs:
    """The engine's time per token at this batch, divided into a fixed part and one per path."""
    step = min(STEP, run.engine * run.at_once / 1e6)
    return Costs(step, run.engine / 1e6 - step / run.at_once, run.api / 1e6, run.client / 1e6)


BUILT_IN: Final = """
[{"servers": 1, "parallel": 8, "tokens": 16384, "client_cpu": 1.878, "server_cpu": [11.31]},
 {"servers": 2, "parallel": 16, "tokens": 32768, "client_cpu": 3.103, "server_cpu": [10.81, 10.08]}]
"""
"""`python benchmarks/balance.py --parallel 8 --paths 32 --rounds 4 --json`, on two busy cores."""


def check(balance: Path | None = None) -> int:
    """Print simulated rates beside measured ones."""
    worst = 0.0
    for run in H200:
        rate = simulate(Cluster(costs_of(run), batch=run.at_once), Work(run.at_once)).tokens_per_second
        worst = max(worst, _print_check(f"H200, {run.name}", rate, run.tokens_per_second, run.expected))
    lines = [" ".join(BUILT_IN.split())] if balance is None else balance.read_text().splitlines()
    for name, rate, measured in cpu_runs(lines):
        worst = max(worst, _print_check(name, rate, measured))
    print(f"largest error: {worst:.1%} (bar: {TOLERANCE:.0%})")
    return int(worst > TOLERANCE)


def _print_check(name: str, simulated: float, measured: float, expected: bool = True) -> float:
    error = simulated / measured - 1
    note = "" if expected else "  known to be off, not counted"
    print(f"{name:58} measured {measured:9,.0f} tokens/s, simulated {simulated:9,.0f}  {error:+.1%}{note}")
    return abs(error) if expected else 0.0


def cpu_runs(lines: Sequence[str]) -> Iterator[tuple[str, float, float]]:
    """Runs of the built-in model with one and two servers on two cores: costs are those of one server only.

    Measured rates are those of processor time, as if the cores were free; see benchmarks/balance.py.
    """
    for line in lines:
        one, two = json.loads(line)
        width = one["parallel"]
        engine, client = (used / one["tokens"] for used in (one["server_cpu"][0], one["client_cpu"]))
        costs = Costs(0.0, engine, 0.0, client)
        for run in (one, two):
            cluster = Cluster(costs, servers=run["servers"], batch=width, cores=2)
            rate = simulate(cluster, Work(run["parallel"], tokens=128)).tokens_per_second
            free = max(*run["server_cpu"], run["client_cpu"], (sum(run["server_cpu"]) + run["client_cpu"]) / 2)
            yield f"built-in model, {run['servers']} servers, {run['parallel']} paths", rate, run["tokens"] / free


# -- the plan


@dataclass(frozen=True, slots=True)
class Assumptions:
    """What the plan needs beside measured costs."""

    tokens: int = 512  # per path
    batch: int = 512
    kv_bytes: int = 28_672  # of one token in the GPU's memory: 28 layers x 2 heads x 128 x 2 x 2 bytes
    kv_memory: float = 110e9  # of one GPU, for the cache
    front_share: float = 0.7  # of a core that a front process should use at most
    bytes_per_token: float = 4.0  # text; 1,440 with 20 log-probabilities
    bytes_per_path: float = 1_500.0  # request, headers, record
    memory_per_path: float = 0.37e6  # of a front: (214 - 120) MB / 256 paths, with signals of every token
    journal_seconds: float = 0.0039  # until a path is on disk
    hours_between_failures: float = 1_000.0
    price_per_hour: float = 3.0


TOKENS_PER_QUESTION: Final = {"sc": 26_694, "ddc": 8_961, "sure": 6_221}
"""`sureenough replay -s "sc ddc sure"`: 64 paths, the built-in pool (50 questions, a model of 1.5B parameters)."""


def plan(in_flight: int, costs: Costs, given: Assumptions) -> dict[str, Any]:
    """What so many paths in flight need, from a simulation of one server with its share of them."""
    resident = given.kv_memory / (given.kv_bytes * given.tokens / 2)
    batch = max(1, min(given.batch, int(resident)))
    gpus = ceil(in_flight / batch)
    cluster = Cluster(costs, batch=batch, hours_between_failures=given.hours_between_failures)
    one = simulate(replace(cluster, hours_between_failures=inf), Work(batch, given.tokens, spread=0.5))
    available = 1 / (1 + cluster.restart / (3600 * given.hours_between_failures))
    rate = one.tokens_per_second * gpus * available
    paths = rate / given.tokens
    fronts = ceil(max(rate * costs.client / given.front_share, 1))
    return {
        "paths in flight": in_flight, "paths per GPU": batch, "GPUs": gpus, "tokens/s": round(rate),
        "paths/s": round(paths), "front processes": fronts, "GPUs per front": round(gpus / fronts, 1),
        "network, Mbit/s": round(8e-6 * (rate * given.bytes_per_token + paths * given.bytes_per_path)),
        "with log-probabilities as text": round(8e-6 * rate * 1440),
        "memory of all fronts, GB": round((in_flight * given.memory_per_path + fronts * 120e6) / 1e9, 1),
        "journals": ceil(paths * given.journal_seconds),
        "failures per day": round(24 * gpus / given.hours_between_failures, 1),
        "health checks/s per server, all fronts on all": round(fronts / 5, 1),
        "USD per 1,000 questions": {
            name: round(1000 * tokens / (rate / gpus) / 3600 * given.price_per_hour, 3)
            for name, tokens in TOKENS_PER_QUESTION.items()
        },
    }  # fmt: skip


def main() -> int:
    """Check the model, or print the plan."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    verbs = parser.add_subparsers(dest="verb", required=True)
    checked = verbs.add_parser("check")
    checked.add_argument("balance", nargs="?", type=Path)
    planned = verbs.add_parser("plan")
    defaults = Assumptions()
    for name in Assumptions.__slots__:
        value = getattr(defaults, name)
        planned.add_argument("--" + name.replace("_", "-"), type=type(value), default=value)
    planned.add_argument("--in-flight", type=int, nargs="+", default=[10_000, 100_000, 1_000_000])
    args = vars(parser.parse_args())
    if args.pop("verb") == "check":
        return check(args["balance"])
    sizes = args.pop("in_flight")
    whole_replies = costs_of(H200[-1])
    for size in sizes:
        print(json.dumps(plan(size, whole_replies, Assumptions(**args)), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
