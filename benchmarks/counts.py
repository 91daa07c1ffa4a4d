"""What counts of growing paths cost the API server and the client: an event per path, or one request for all paths.

    python benchmarks/counts.py [--paths 512] [--smoke]

Paths of a made-up vLLM grow in one process, the middleware serves them in a second one, and this one reads them. CPU
time is taken while all paths grow and nothing else happens. The API server must need at least FLOOR times less with one
request.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import aclosing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import uvicorn

from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt, WatchOptions
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.watch import client
from sureenough.engines.watch.protocol import SOCKET_ENV
from sureenough.vllm.kernels.steps import RESULT_COLUMNS
from sureenough.vllm.middleware import RecordsMiddleware
from sureenough.vllm.records import PathRecords, serve_records

STEP = 0.014  # seconds per token of a path: 36,000 tokens per second with 512 paths
START, MEASURED = 6.0, 15.0  # seconds; a reply brings a count every 15 seconds in any case
FLOOR = 2.0


def key(number: int) -> str:
    """Paths have known names here, so that the engine can start all of them."""
    return f"path-{number:08}"


def run_engine(socket_path: str, paths: int) -> None:
    """Every path grows by a token per step, from the start."""
    records, slots = PathRecords(paths), np.arange(paths)
    for slot in range(paths):
        records.start_path(slot, key(slot), trace=False)
    serve_records(records, socket_path)
    for token in range(1 << 20):
        records.add_step(slots, np.full(paths, token, dtype=np.int32), np.ones((paths, RESULT_COLUMNS)))
        time.sleep(STEP)


async def never_ending(scope: Any, receive: Any, send: Any) -> None:
    """What vLLM does while it generates; it ends when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def run_api_server(socket_path: str, port: int) -> None:
    """The middleware in a server of its own."""
    os.environ[SOCKET_ENV] = socket_path
    uvicorn.run(RecordsMiddleware(never_ending), port=port, log_level="error", lifespan="off")


async def read_paths(options: argparse.Namespace, polled: bool, api_server: psutil.Process) -> dict[str, float]:
    """CPU seconds per second while all paths are read."""
    prompt = replace(Prompt.user("?"), watch=WatchOptions(64, Gate()))

    async def read(engine: Any) -> None:
        async with aclosing(engine.stream(prompt, seed=0)) as chunks:
            async for _ in chunks:
                pass

    server, paths = OpenAI(f"http://127.0.0.1:{options.port}/v1", "m", max_path_tokens=1 << 20), options.paths
    async with server.open(parallel=paths) as engine:
        assert isinstance(engine.watcher, client.Watcher)
        engine.watcher.poller.failed = not polled
        tasks = [asyncio.create_task(read(engine)) for _ in range(paths)]
        await asyncio.sleep(START)
        before = time.perf_counter(), time.process_time(), sum(api_server.cpu_times()[:2])
        await asyncio.sleep(options.seconds)
        wall, own, others = (
            now - then
            for now, then in zip(
                (time.perf_counter(), time.process_time(), sum(api_server.cpu_times()[:2])), before, strict=True
            )
        )
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    return {"client": own / wall, "api server": others / wall}


def wait_until_open(port: int, seconds: float = 60.0) -> None:
    """Wait for the server."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
            return
        time.sleep(0.2)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure both ways in turn."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--paths", type=int, default=512)
    parser.add_argument("--port", type=int, default=8047)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=MEASURED, help="measured, of every turn")
    parser.add_argument("--smoke", action="store_true", help="one short turn")
    options = parser.parse_args(arguments)
    if options.smoke:
        options.turns, options.seconds = 1, 6.0
    costs: dict[str, list[float]] = {"an event per path": [], "one request": []}
    numbers = iter(range(1 << 30))
    client.secrets.token_urlsafe = lambda _: key(next(numbers) % options.paths)  # type: ignore[attr-defined]
    with tempfile.TemporaryDirectory() as folder:
        socket_path, spawn = str(Path(folder) / "records.sock"), multiprocessing.get_context("spawn")
        engine = spawn.Process(target=run_engine, args=(socket_path, options.paths), daemon=True)
        api_server = spawn.Process(target=run_api_server, args=(socket_path, options.port), daemon=True)
        engine.start()
        api_server.start()
        wait_until_open(options.port)
        for way in list(costs) * options.turns:
            shares = asyncio.run(read_paths(options, way == "one request", psutil.Process(api_server.pid)))
            tokens = options.paths / STEP
            per_token = {name: round(share / tokens * 1e6, 2) for name, share in shares.items()}
            costs[way].append(per_token["api server"])
            print(json.dumps({"way": way, "us per token": per_token, "share of a core": shares}), flush=True)
        api_server.kill()
        engine.kill()
    ratio = statistics.median(costs["an event per path"]) / statistics.median(costs["one request"])
    print(f"the API server needs {ratio:.1f} times less with one request; the floor is {FLOOR}")
    sys.exit(ratio < FLOOR)


if __name__ == "__main__":
    main()
