"""What `record --ray` adds to the time of the same recording without it, on one node.

A server on this machine streams paths at a fixed pace, by default ten seconds each. The same questions are recorded
without and with --ray; printed are the ratio of the times from the first request to the last reply, and of the times
of the whole commands, which include the start of Python and of a runner.

    python benchmarks/ray_overhead.py [--seconds 10] [--rounds 6] [--smoke]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))
sys.path.remove(str(Path(__file__).parent))

from tests.engines.misbehaving import Manner, Server  # noqa: E402
from tests.in_thread import in_thread  # noqa: E402

PARALLEL, TOKENS = 8, 50


class TimedServer(Server):
    """Remembers when its first request came and its last reply ended."""

    began = ended = 0.0

    async def _reply(self, *request: Any) -> bool:
        self.began = self.began or time.monotonic()
        try:
            return await super()._reply(*request)
        finally:
            self.ended = time.monotonic()


@asynccontextmanager
async def paced(seconds: float) -> AsyncIterator[TimedServer]:
    """A server whose paths take so long."""
    manner = Manner(tokens=TOKENS, delay=seconds / (TOKENS + 3), by_prompt=True)
    server = TimedServer(lambda seed, nth: manner)
    listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, limit=1 << 20)
    server.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
    yield server
    listening.close()


def record(folder: Path, server: TimedServer, *more: str) -> tuple[float, float]:
    """Seconds of one recording: of the sampling, and of the whole command."""
    output = folder / "pool.parquet"
    output.unlink(missing_ok=True)
    server.began = 0.0
    words = ["record", str(folder / "sums.jsonl"), "-o", str(output), "--url", server.url, "--model", "tiny"]
    words += ["--paths", str(PARALLEL), "--parallel", str(PARALLEL), *more]
    started = time.monotonic()
    subprocess.run([sys.executable, "-m", "sureenough", *words], check=True, capture_output=True, cwd=ROOT)
    return server.ended - server.began, time.monotonic() - started


def main() -> None:
    """Start a cluster of one node, record without and with it, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10.0, help="per path")
    parser.add_argument("--rounds", type=int, default=6, help="paths one after the other; eight run at once")
    parser.add_argument("--smoke", action="store_true", help="two rounds of a second")
    options = parser.parse_args()
    seconds, rounds = (1.0, 2) if options.smoke else (options.seconds, options.rounds)
    ray = [sys.executable, "-m", "ray.scripts.scripts"]
    with tempfile.TemporaryDirectory(prefix="se-", dir="/tmp") as name, in_thread(paced(seconds)) as server:
        folder = Path(name)
        rows = [{"id": f"q{n}", "question": f"{n} + 1?", "gold": str(n + 1)} for n in range(rounds)]
        (folder / "sums.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        head = subprocess.Popen(
            [*ray, "start", "--head", "--block", "--port", "0", "--num-cpus", "2", "--include-dashboard", "false",
             "--object-store-memory", "80000000", "--temp-dir", str(folder / "ray")],
            env={**os.environ, "RAY_USAGE_STATS_ENABLED": "0"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            text=True,
        )  # fmt: skip
        try:
            address = _address(head)
            alone, spread = record(folder, server), record(folder, server, "--ray", address)
        finally:
            head.terminate()
            head.wait(60)
    print(f"{rounds * PARALLEL} paths of {seconds:g} s, {PARALLEL} at once, without and with --ray on one node:")
    for label, before, after in zip(("sampling", "whole command"), alone, spread, strict=True):
        print(f"{label}: {before:.1f} s and {after:.1f} s, ratio {after / before:.3f}")


def _address(head: subprocess.Popen[str]) -> str:
    """The address that `ray start` prints."""
    assert head.stdout is not None
    lines = []
    for line in head.stdout:
        lines.append(line)
        if address := re.search(r"--address='?([\w.:-]+)", line):  # which Ray may print in colour
            return address[1]
    raise SystemExit("ray did not start:\n" + "".join(lines[-20:]))


if __name__ == "__main__":
    main()
