"""Table 2 on vLLM: nothing but `bench search`, several side by side.

python benchmarks/gpu/search_vllm.py run MODEL --dataset FILE --out FOLDER --seconds 900 [options of `bench search`]
python benchmarks/gpu/search_vllm.py tables FOLDER [FOLDER …] [--dataset FILE]

A search takes hundreds of requests, so what limits it is the work of a process per request and per token. Every command
has a vLLM of its own in its process (vllm_engine.py), without a server between them; they share the GPU. When the time
is over, commands end as after Ctrl-C: every question that a strategy has finished is kept, and the same command
continues. The table is over the questions that all strategies have finished. With their dataset, which has the right
answers, the lines above it also say how many single paths are right.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from search_tables import show
from vllm_engine import VARIABLE
from vllm_processes import Process, spawn, stop

MOST_STARTS = 3
"""Of a command; one that fails more often stays away."""
CLOSE_SECONDS = 90
SIZES = [1, 2, 4, 8, 16, 32, 64, 96, 128, 192, 256, 384, 512]
"""Batch sizes with CUDA graphs: fewer of them load faster."""


@dataclass
class Command:
    """A command that is started, and started again if it fails."""

    name: str
    words: list[str]
    awaits: Path | None = None  # a file without which it is not started
    process: Process | None = None
    starts: int = 0
    done: bool = False

    def step(self, folder: Path) -> None:
        """Start it if it does not run and should; notice its end."""
        if self.process is not None:
            code = self.process.poll()
            if code is None:
                return
            print(f"{time.strftime('%X')} {self.name} ended with exit code {code}", flush=True)
            self.process, self.done = None, code in (0, 2)  # what a command refuses, it would refuse again
        if self.over or (self.awaits is not None and not self.awaits.exists()):
            return
        self.starts += 1
        print(f"{time.strftime('%X')} {self.name}: {' '.join(self.words)}", flush=True)
        self.process = spawn(self.words, folder / f"{self.name}.log", folder / f"{self.name}.log")

    @property
    def over(self) -> bool:
        """Whether it has succeeded or was refused, or has failed too often."""
        return self.done or (self.starts >= MOST_STARTS and self.process is None)

    @property
    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None


def engine(options: argparse.Namespace) -> dict[str, Any]:
    """The arguments of every command's engine."""
    arguments = {"name": options.name, "go": options.go, "model": options.model, "max_model_len": options.context}
    arguments |= {"max_path_tokens": options.max_path_tokens, "max_num_seqs": 512, "disable_log_stats": True}
    if options.cache_gb:
        # vLLM does not start if less than this share of the GPU is free, although it takes only the cache's size.
        arguments |= {"kv_cache_memory_bytes": int(options.cache_gb * 2**30), "gpu_memory_utilization": 0.05}
        arguments |= {"compilation_config": {"cudagraph_capture_sizes": SIZES}}
    arguments |= options.vllm
    return arguments


def plan(options: argparse.Namespace, passed: list[str]) -> list[Command]:
    """One command per group of strategies, which run one after another."""
    folder, python = options.out, [sys.executable, "-m", "sureenough"]
    awaits = Path(options.model) / "config.json" if options.await_model else None
    commands = []
    for strategies in options.strategies:
        name = strategies.split()[-1].partition(":")[0].replace("+", "-")
        words = [*python, "bench", "search", "--plan", str(folder / "plan.toml"), "-s", strategies, "--paths", "64"]
        words += ["--limit", str(options.limit)] if options.limit else []
        words += ["--parallel", "64", "-o", str(folder / name)]
        commands.append(Command(name, [*words, "--engine", "vllm_engine:engine", *passed], awaits))
    return commands


def run(options: argparse.Namespace, passed: list[str]) -> None:
    """Keep all commands running until they are done or the time is over."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    options.out.mkdir(parents=True, exist_ok=True)
    template = f", template = {json.dumps(options.template)}" if options.template else ""
    questions = f"datasets = [{{dataset = {json.dumps(options.dataset)}{template}}}]"
    (options.out / "plan.toml").write_text(f"at_once = {options.at_once}\n{questions}\n")
    here = [str(Path(__file__).parent), *filter(None, [os.environ.get("PYTHONPATH")])]
    os.environ |= {VARIABLE: json.dumps(engine(options)), "PYTHONPATH": os.pathsep.join(here)}
    end, commands = time.monotonic() + options.seconds, plan(options, passed)
    try:
        while time.monotonic() < end and not all(command.over for command in commands):
            for command in commands:
                command.step(options.out)
            time.sleep(1)
        for command in commands:
            if command.process is not None and command.runs:
                command.process.send_signal(signal.SIGINT)
        patience = time.monotonic() + CLOSE_SECONDS
        while time.monotonic() < patience and any(command.runs for command in commands):
            time.sleep(0.2)
    finally:
        stop([command.process for command in commands if command.process is not None])
    show([options.out], keep=True)


def json_object(text: str) -> dict[str, Any]:
    """An option whose value is a JSON object."""
    value = json.loads(text)  # argparse reports its ValueError
    if not isinstance(value, dict):
        raise argparse.ArgumentTypeError(f"{text} is not a JSON object")
    return value


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("run", "tables"))
    parser.add_argument("model", nargs="+", help="run: the name or folder of a model; tables: folders of runs")
    parser.add_argument("--dataset", help="questions of the searches: a FILE, or NAME=FILE")
    parser.add_argument("--template", help="their prompt, with {question}")
    parser.add_argument("--limit", type=int, help="only the first of them")
    parser.add_argument(
        "--strategies", nargs="+", default=["sure ddc predictive+sc", "sc mur+sc phi+sc"], help="one text per command"
    )
    parser.add_argument("--out", type=Path, default=Path("runs/search-vllm"), help="folder of results")
    parser.add_argument("--seconds", type=float, default=3600, help="limit of the whole run, with loading")
    parser.add_argument("--at-once", type=int, default=8, help="questions at once per command")
    parser.add_argument("--name", default="m", help="of the model in tables")
    parser.add_argument("--context", type=int, default=4096, help="tokens of a prompt and its path")
    parser.add_argument("--max-path-tokens", type=int, default=1024)
    parser.add_argument("--cache-gb", type=float, help="cache of each command, if several share a GPU")
    parser.add_argument("--await-model", action="store_true", help="wait until MODEL/config.json is written")
    parser.add_argument("--go", help="load the models, and wait until this file exists")
    parser.add_argument("--vllm", type=json_object, default={}, help="further arguments of vLLM's engine, as JSON")
    options, passed = parser.parse_known_args()
    if options.what == "tables":
        show([Path(folder) for folder in options.model], dataset=options.dataset)
    elif options.dataset is None:
        parser.error("run needs --dataset")
    else:
        options.model = options.model[0]
        run(options, passed)


if __name__ == "__main__":
    main()
