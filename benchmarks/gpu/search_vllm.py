"""Table 2 and a pool with probes, on vLLM servers that this starts: nothing but `bench search` and `record`.

python benchmarks/gpu/search_vllm.py run MODEL --dataset FILE --out FOLDER --seconds 900 [options of both commands]
python benchmarks/gpu/search_vllm.py tables FOLDER

A search takes hundreds of requests, so what limits it is the work of clients and servers per request and per token.
Every strategy and the recording are commands of their own, side by side, each search on a server of its own; servers
pass tokens on in groups of 64 (--stream-interval). When the time is over, commands end as after Ctrl-C: every question
that a strategy has finished is kept, and the same command continues. The table is over the questions that all
strategies have finished.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass
from pathlib import Path

from vllm_runner import Process, spawn, stop

SEARCHES = ("predictive+sc", "phi+sc")
MOST_STARTS = 4
"""Of a server or a command; one that fails more often stays away."""
CLOSE_SECONDS = 90
"""For the pool, whose answers are compared before it is written."""
SIZES = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]
"""Batch sizes with CUDA graphs: fewer of them load faster."""


@dataclass
class Command:
    """A command that is started, and started again if it fails."""

    name: str
    words: list[str]
    server: Command | None = None  # the server that it needs
    port: int = 0  # of a server
    process: Process | None = None
    starts: int = 0
    done: bool = False
    awaits: Path | None = None  # a file without which it is not started

    def step(self, folder: Path) -> None:
        """Start it if it does not run and should; notice its end."""
        code = self.process.poll() if self.process is not None else None
        if self.process is not None and code is None:
            return
        if self.process is not None:
            print(f"{time.strftime('%X')} {self.name} ended with exit code {code}", flush=True)
            self.process, self.done = None, code == 0 and self.server is not None
        missing = self.awaits is not None and not self.awaits.exists()
        if self.over or missing or (self.server is not None and not self.server.responds()):
            return
        self.starts += 1
        print(f"{time.strftime('%X')} {self.name}: {' '.join(self.words)}", flush=True)
        self.process = spawn(self.words, folder / f"{self.name}.log", folder / f"{self.name}.log")

    @property
    def over(self) -> bool:
        """Whether it has succeeded, or failed too often."""
        return self.done or (self.starts >= MOST_STARTS and self.process is None)

    def responds(self) -> bool:
        """Whether the server has loaded its model."""
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{self.port}/health", timeout=5).close()
        except OSError:
            return False
        return True

    def interrupt(self) -> None:
        """As Ctrl-C does it."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)


def server(options: argparse.Namespace, number: int, extra: list[str]) -> Command:
    """A server with the monitor inside."""
    port = options.port + number
    words = [sys.executable, "-m", "sureenough", "serve-vllm", options.model, "--served-model-name", options.name]
    words += ["--host", "127.0.0.1", "--port", str(port), "--stream-interval", "64", "--max-num-seqs", "512"]
    words += ["--max-model-len", str(options.context), "--disable-uvicorn-access-log", *extra]
    if options.cache_gb:
        graphs = json.dumps({"cudagraph_capture_sizes": SIZES})
        # vLLM does not start if less than this share of the GPU is free, although it takes only the cache's size.
        words += ["--kv-cache-memory-bytes", str(int(options.cache_gb * 2**30)), "--gpu-memory-utilization", "0.05"]
        words += ["--max-num-batched-tokens", "8192", "--compilation-config", graphs]
    awaits = Path(options.model) / "config.json" if options.await_model else None
    return Command(f"server{number}", words + options.vllm.split(), port=port, awaits=awaits)


def plan(options: argparse.Namespace, passed: list[str]) -> list[Command]:
    """The servers, then the commands that use them."""
    folder, python = options.out, [sys.executable, "-m", "sureenough"]
    searches = [f"{name}:runs={options.searches}" for name in SEARCHES]
    # Every strategy is a command of its own: if the time is over early, all have finished some questions.
    groups = [(name, 64, options.at_once) for name in searches]
    groups += [(name, 16, max(1, options.at_once // 2)) for name in options.others.split()]
    servers = [server(options, number, []) for number in range(options.servers)]
    commands = []
    for number, (strategy, parallel, at_once) in enumerate(groups):
        chosen = servers[number % len(servers)]
        name = strategy.partition(":")[0].replace("+", "-")
        words = [*python, "bench", "search", "--dataset", options.dataset, "-s", strategy, "--paths", "64"]
        words += ["--limit", str(options.limit)] if options.limit else []
        words += ["--parallel", str(parallel), "--at-once", str(at_once), "-o", str(folder / name)]
        commands.append(Command(name, [*words, *engine(options, chosen), *passed], chosen))
    if options.pool:  # 20 log-probabilities per token are the work of several API servers
        several = ["--api-server-count", str(options.api_servers)] if options.api_servers > 1 else []
        own = server(options, options.servers, several)
        servers.append(own)
        words = [*python, "record", options.pool, "-o", str(folder / "pool"), "--rows-per-part", "1000"]
        words += ["--paths", str(options.pool_paths), "--parallel", "128", "--probes", "every=64", "--no-text"]
        commands.append(Command("record", [*words, *engine(options, own), *passed], own))
    return [*servers, *commands]


def engine(options: argparse.Namespace, chosen: Command) -> list[str]:
    """The options for an engine on a server."""
    url, longest = f"http://127.0.0.1:{chosen.port}/v1", str(options.max_path_tokens)
    return ["--url", url, "--model", options.name, "--max-path-tokens", longest]


def run(options: argparse.Namespace, passed: list[str]) -> None:
    """Keep all commands running until they are done or the time is over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.out.mkdir(parents=True, exist_ok=True)
    end, commands = time.monotonic() + options.seconds, plan(options, passed)
    clients = [command for command in commands if command.server is not None]
    try:
        while time.monotonic() < end and not all(client.over for client in clients):
            for command in commands:
                command.step(options.out)
            time.sleep(1)
        for client in clients:
            client.interrupt()
        patience = time.monotonic() + CLOSE_SECONDS
        while time.monotonic() < patience and any(one.process and one.process.poll() is None for one in clients):
            time.sleep(0.2)
    finally:
        stop([command.process for command in commands if command.process is not None])
    tables(options.out)


def tables(folder: Path) -> None:
    """The table of all runs in these folders, and what the pool's probes would save."""
    from sureenough.bench.experiments import EXPERIMENTS
    from sureenough.bench.experiments.experiment import Inputs
    from sureenough.bench.live import read_runs
    from sureenough.cli.bench_view import tables as printed

    runs = [run for file in sorted(folder.glob("*/live/runs.jsonl")) for run in read_runs(file)]
    for strategy in dict.fromkeys(run.strategy for run in runs):
        own = [run for run in runs if run.strategy == strategy]
        print(f"{strategy}: {len(own)} questions, {sum(run.tokens['total'] for run in own):,} tokens")
    if runs:
        result = EXPERIMENTS["search"].run(Inputs(live_runs=runs))
        (folder / "results").mkdir(exist_ok=True)
        (folder / "results" / "search.json").write_bytes(result.to_json())
        print(printed(result, folder), flush=True)
    if (folder / "pool").is_dir():
        jobs = str(min(4, len(os.sched_getaffinity(0))))
        command = [sys.executable, "-m", "sureenough", "bench", "probes", "--pool", str(folder / "pool"), "-o"]
        subprocess.run([*command, str(folder / "probes"), "--jobs", jobs], check=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("model", help="run: the name or folder of a model; tables: the folder of a run")
    parser.add_argument("--dataset", help="questions of the searches: a FILE, or NAME=FILE")
    parser.add_argument("--limit", type=int, help="only the first of them")
    parser.add_argument("--pool", help="questions to record, with probes after every 64 tokens")
    parser.add_argument("--pool-paths", type=int, default=16, help="paths per question of the pool")
    parser.add_argument("--api-servers", type=int, default=4, help="API servers for the pool")
    parser.add_argument("--out", type=Path, default=Path("runs/search-vllm"), help="folder of results")
    parser.add_argument("--seconds", type=float, default=3600, help="limit of the whole run, with loading")
    parser.add_argument("--searches", type=int, default=8, help="searches per question")
    parser.add_argument("--others", default="sc ddc sure mur+sc", help="strategies beside the searches")
    parser.add_argument("--at-once", type=int, default=8, help="questions at once per search")
    parser.add_argument("--servers", type=int, default=2, help="servers for the searches")
    parser.add_argument("--name", default="m", help="of the model in tables")
    parser.add_argument("--context", type=int, default=4096, help="tokens of a prompt and its path")
    parser.add_argument("--max-path-tokens", type=int, default=1024)
    parser.add_argument("--cache-gb", type=float, help="cache of each server, if several share a GPU")
    parser.add_argument("--port", type=int, default=8050, help="of the first server")
    parser.add_argument("--await-model", action="store_true", help="wait until MODEL/config.json is written")
    parser.add_argument("--vllm", default="", help="further options of vLLM, in one string")
    options, passed = parser.parse_known_args()
    if options.what == "tables":
        tables(Path(options.model))
    elif options.dataset is None:
        parser.error("run needs --dataset")
    else:
        run(options, passed)


if __name__ == "__main__":
    main()
