"""Throughput of the local engine by the number of parallel paths, and the client's share of the CPU.

Client and server are one process: the client is its main thread, the server all the others.
    python benchmarks/local.py [--smoke] [--model FILE.gguf] [--threads N]
"""

from __future__ import annotations

import argparse
import sys
import time
from typing import NamedTuple

import sureenough as se
from sureenough.engines.base import Prompt

STRATEGY = "ddc:tau=1,drop=0,trust=0"  # everything is watched, almost nothing is pruned, and nothing stops early
PROMPT = Prompt.user("Compute (12+7)*3-5.")


class Measured(NamedTuple):
    """The measurements at one number of parallel paths."""

    out: se.Outcome
    wall: float
    client: float  # CPU seconds of the main thread
    process: float  # CPU seconds of all threads


def measure(engine: se.Local, parallel: int, paths: int) -> Measured:
    """Run this many paths in the main thread."""
    wall, client, process = time.perf_counter(), time.thread_time(), time.process_time()
    out = se.ask(PROMPT, engine, STRATEGY, paths=paths, parallel=parallel, window=64)
    return Measured(out, time.perf_counter() - wall, time.thread_time() - client, time.process_time() - process)


def main() -> None:
    """Print a line for each number of parallel paths; exit 1 if paths were lost or tokens are not accounted for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small")
    parser.add_argument("--model", help="a GGUF file; the built-in model by default")
    parser.add_argument("--threads", type=int, help="all cores by default")
    parser.add_argument("--tokens", type=int, default=256, help="tokens per path")
    parser.add_argument("--rounds", type=int, default=1, help="paths per slot")
    options = parser.parse_args()
    widths, tokens = ((1, 4), 32) if options.smoke else ((1, 8, 32, 64), options.tokens)
    engine = se.Local(
        options.model, slots=widths[-1], threads=options.threads, max_path_tokens=tokens, extra={"ignore_eos": True}
    )
    measure(engine, widths[-1], 16)  # starts the server, and warms it up
    print("parallel paths  tokens/s  per path  client us/token  client's share of CPU  CPU used  lost")
    broken = False
    for parallel in widths:
        paths = max(16, parallel * options.rounds)
        out, wall, client, process = measure(engine, parallel, paths)
        made = out.tokens.total
        print(
            f"{parallel:14}  {made / wall:8,.0f}  {made / wall / parallel:8.0f}  {client / made * 1e6:15.0f}  "
            f"{client / process:21.1%}  {process / wall:8.2f}  {out.failed:4}",
            flush=True,
        )
        broken |= out.failed > 0 or out.started != paths or made > paths * tokens or not out.tokens.overrun_known
    sys.exit(broken)


if __name__ == "__main__":
    main()
