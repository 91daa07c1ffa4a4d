"""vLLM with the monitor inside, on a GPU: what watched paths reach of vLLM's own speed, and questions by strategy.

    python benchmarks/gpu/watched_vllm.py all MODEL [--dataset FILE.jsonl]     # everything below, one after the other
    python benchmarks/gpu/watched_vllm.py offline MODEL            # vLLM's own `generate`: the speed to reach
    python benchmarks/gpu/watched_vllm.py inprocess MODEL          # watched paths of `se.VLLM`
    sureenough serve-vllm MODEL --served-model-name m ...  # then, beside it:
    python benchmarks/gpu/watched_vllm.py http m           # watched paths over HTTP, and CPU time
    python benchmarks/gpu/watched_vllm.py questions m --dataset FILE.jsonl

Every phase prints lines of JSON and needs no network. Rates are medians of three. With --engine load_format=dummy and a
folder that holds a config.json and a tokenizer, no weights are needed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import sureenough as se
from sureenough import answers
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.vllm.in_process import VLLM

QUESTION = (
    "Find the number of ordered pairs of positive integers (a, b) with a + b = 1000 such that neither a nor b has a "
    "zero digit. Put the final answer in \\boxed{}."
)
STRATEGY = "sc:weigh=learned"
"""Reads the confidence of every path, prunes none and has no warm-up that runs alone: all ways sample the same."""
SAMPLING: dict[str, Any] = {"temperature": 0.6, "top_p": 0.95}
STRATEGIES = ("sc", "ac", "deepconf-low", "ddc", "sure")


def report(**values: Any) -> None:
    """One line of JSON."""
    print(
        json.dumps({name: round(value, 4) if isinstance(value, float) else value for name, value in values.items()}),
        flush=True,
    )


def offline(options: argparse.Namespace) -> None:
    """The speed of vLLM's own `generate`, with and without a seed per path, and with or without the monitor."""
    from vllm import LLM, SamplingParams

    from sureenough.engines.vllm.protocol import LOGITS_PROCESSOR, WatchRequest

    llm = LLM(options.model, **watching(options.watched, LOGITS_PROCESSOR), **engine_arguments(options))
    messages = [{"role": "user", "content": QUESTION}]
    for seeded in options.seeds:
        rates, cpu = [], []
        for turn in range(options.turns + 1):
            keys = [turn * 10_000 + path for path in range(options.paths)]
            watched = [WatchRequest(f"path-{key:08}", 64).to_arguments() for key in keys]
            sampling = [
                SamplingParams(
                    **SAMPLING,
                    max_tokens=options.max_path_tokens,
                    seed=key if seeded else None,
                    extra_args=arguments if options.watched else None,
                )
                for key, arguments in zip(keys, watched, strict=True)
            ]
            start, used = time.perf_counter(), all_cpu_seconds()
            outputs = llm.chat([messages] * options.paths, sampling, use_tqdm=False)
            tokens = sum(len(output.outputs[0].token_ids) for output in outputs)
            rates.append(tokens / (time.perf_counter() - start))
            cpu.append((all_cpu_seconds() - used) / tokens * 1e6)
        report(
            phase="offline",
            watched=options.watched,
            seeded=seeded,
            rate=statistics.median(rates[1:]),
            cpu_us=statistics.median(cpu[1:]),
            rates=[round(rate) for rate in rates[1:]],
        )


def watching(watched: bool, processor: str) -> dict[str, Any]:
    """The argument of vLLM's engine that puts the monitor inside."""
    return {"logits_processors": [processor]} if watched else {}


def all_cpu_seconds() -> float:
    """CPU seconds so far of this process and those that it started."""
    import psutil

    own = psutil.Process()
    return sum(sum(process.cpu_times()[:2]) for process in [own, *own.children(recursive=True)])


def engine_arguments(options: argparse.Namespace) -> dict[str, Any]:
    """Arguments of vLLM's engine that all phases share."""
    given = dict(pair.split("=", 1) for pair in options.engine)
    arguments = {name: json.loads(value) if value[:1] in "0123456789tf" else value for name, value in given.items()}
    return {"max_model_len": 4096, "max_num_seqs": 512, "gpu_memory_utilization": 0.6, **arguments}


async def watched(engine: Any, options: argparse.Namespace, seed: int) -> se.Outcome:
    """One question with all its paths at once."""
    return await se.aask(
        QUESTION,
        engine,
        STRATEGY,
        paths=options.paths,
        parallel=options.paths,
        window=64,
        seed=seed,
        planned=False,
        gives_up=False,
    )


def inprocess(options: argparse.Namespace) -> None:
    """Watched paths of the engine in this process; the client's CPU time is that of this process."""

    async def measure() -> None:
        vllm = VLLM(options.model, max_path_tokens=options.max_path_tokens, **SAMPLING, **engine_arguments(options))
        async with vllm as loaded:
            for seeded in options.seeds:
                engine = loaded if seeded else loaded.sampled(seed=None)
                rates, cpu = [], []
                for turn in range(options.turns + 1):
                    start, used = time.perf_counter(), time.process_time()
                    out = await watched(engine, options, turn)
                    rates.append(out.tokens.total / (time.perf_counter() - start))
                    cpu.append((time.process_time() - used) / out.tokens.total * 1e6)
                report(
                    phase="inprocess",
                    seeded=seeded,
                    rate=statistics.median(rates[1:]),
                    cpu_us=statistics.median(cpu[1:]),
                )

    asyncio.run(measure())


def server_processes(port: int) -> Iterator[Any]:
    """The process that listens at this port, and its children."""
    import psutil

    for connection in psutil.net_connections("tcp"):
        if connection.laddr and connection.laddr.port == port and connection.status == "LISTEN" and connection.pid:
            server = psutil.Process(connection.pid)
            return iter([server, *server.children(recursive=True)])
    return iter(())


def cpu_seconds(port: int) -> Counter[str]:
    """CPU seconds so far: the client, the API server, the engine."""
    seconds = Counter({"client": time.process_time()})
    for index, process in enumerate(server_processes(port)):
        seconds["engine" if index else "server"] += sum(process.cpu_times()[:2])
    return seconds


def http(options: argparse.Namespace) -> None:
    """Watched paths over HTTP, and the CPU time of every process per token."""
    for seeded in options.seeds:
        extra = {} if seeded else {"seed": None}
        engine = OpenAI(options.url, options.model, max_path_tokens=options.max_path_tokens, extra=extra, **SAMPLING)
        rows = []
        for turn in range(options.turns + 1):
            start, before = time.perf_counter(), cpu_seconds(options.port)
            out = asyncio.run(watched(engine, options, turn))
            seconds, used = time.perf_counter() - start, cpu_seconds(options.port)
            rows.append({name: (used[name] - before[name]) / out.tokens.total * 1e6 for name in used})
            rows[-1]["rate"] = out.tokens.total / seconds
        medians = {name: statistics.median(row[name] for row in rows[1:]) for name in rows[0]}
        report(phase="http", seeded=seeded, paths=options.paths, **medians)


def questions(options: argparse.Namespace) -> None:
    """Seconds and tokens per question by strategy and width."""
    lines = [json.loads(line) for line in Path(options.dataset).read_text().splitlines()][:: options.every]
    engine = OpenAI(
        options.url, options.model, max_path_tokens=options.max_path_tokens, extra={"seed": None}, **SAMPLING
    )
    for strategy in options.strategies.split(","):
        for name, planned in (("all at once", False), ("hurry 0.25", True)):
            rows = []
            for number, line in enumerate(lines[: options.questions]):
                start = time.perf_counter()
                out = se.ask(
                    line["question"],
                    engine,
                    strategy,
                    paths=options.paths,
                    parallel=options.paths,
                    window=64,
                    seed=number,
                    planned=planned,
                )
                right = answers.grade(str(line["answer"]), out.answer)
                rows.append((time.perf_counter() - start, out.tokens.total, out.tokens.discarded, right))
                report(
                    phase="question", number=number, strategy=strategy, width=name, paths=options.paths,
                    seconds=rows[-1][0], tokens=rows[-1][1], discarded=rows[-1][2], right=right,
                )  # fmt: skip
            seconds = [row[0] for row in rows]
            report(
                phase="questions",
                strategy=strategy,
                width=name,
                paths=options.paths,
                questions=len(rows),
                accuracy=sum(row[3] for row in rows) / len(rows),
                tokens=statistics.mean(row[1] for row in rows),
                discarded=statistics.mean(row[2] for row in rows),
                mean=statistics.mean(seconds),
                median=statistics.median(seconds),
                largest=max(seconds),
            )


def everything(options: argparse.Namespace) -> None:
    """All phases, each in a process of its own so that the GPU's memory is free again."""
    script, own = str(Path(__file__).resolve()), sys.argv[3:]
    for phase in ("offline", "inprocess"):
        subprocess.run([sys.executable, script, phase, options.model, *own], check=False)
    arguments = engine_arguments(options) | {"served_model_name": "m", "host": "127.0.0.1", "port": options.port}
    command = [sys.executable, "-m", "sureenough", "serve-vllm", options.model]
    for name, value in arguments.items():
        command += [f"--{name.replace('_', '-')}", *([] if value is True else [str(value)])]
    server = subprocess.Popen(command, stdout=sys.stderr)
    try:
        wait_until_healthy(options.port, server)
        phases = [["http", "m"]]
        if options.dataset:
            phases += [["questions", "m", "--paths", "64"], ["questions", "m", "--paths", "512", "--questions", "10"]]
        for words in phases:
            subprocess.run([sys.executable, script, *words[:2], *own, *words[2:]], check=False)
    finally:
        server.terminate()
        server.wait(timeout=60)


def wait_until_healthy(port: int, server: subprocess.Popen[bytes], seconds: float = 600) -> None:
    """Wait until the server responds."""
    end = time.monotonic() + seconds
    while time.monotonic() < end and server.poll() is None:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=2).close()
        except OSError:
            time.sleep(1)
        else:
            return
    raise SystemExit("the server did not start; its own output is above")


def main() -> None:
    """Run one phase."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("phase", choices=("all", "offline", "inprocess", "http", "questions"))
    parser.add_argument("model")
    parser.add_argument("--paths", type=int, default=512)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--max-path-tokens", type=int, default=1024)
    parser.add_argument(
        "--engine", nargs="*", default=[], metavar="NAME=VALUE", help="further arguments of vLLM's engine"
    )
    parser.add_argument("--no-seeds", dest="seeds", action="store_const", const=(False,), default=(False, True))
    parser.add_argument("--watched", action="store_true", help="offline: with the monitor inside")
    parser.add_argument("--port", type=int, default=8000)
    parser.add_argument("--dataset", help="JSON lines with question and answer")
    parser.add_argument("--questions", type=int, default=20)
    parser.add_argument("--every", type=int, default=1, help="take every n-th line of the dataset")
    parser.add_argument("--strategies", default=",".join(STRATEGIES))
    options = parser.parse_args()
    options.url = f"http://127.0.0.1:{options.port}/v1"
    phases = {"all": everything, "offline": offline, "inprocess": inprocess, "http": http, "questions": questions}
    phases[options.phase](options)


if __name__ == "__main__":
    main()
