"""What watching inside the server saves: CPU time per token of the server's processes and of the client, both ways.

    .ci/vllm python benchmarks/inside.py
    .ci/vllm python benchmarks/inside.py --tokens 1900 --paths 4 --turns 3    # the API server alone, per path and step

The same paths are watched inside the server and by log-probabilities as text, in turn. On a CPU the model's own step is
most of the engine's work, so its share says little; text costs time in the API server and in the client.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time
from collections import Counter

import httpx
import psutil

import sureenough as se
from sureenough.datasets.load import load
from sureenough.engines.openai.client import OpenAI

QUESTION = load("arith").problems[4].question  # of level 5: the built-in model needs a few hundred tokens for it
STRATEGY = "ddc-no-width:warmup=8,drop=0,trust=100,risk=p100"
"""All tests of DDC at every token, none of which fails, so that both ways sample the same number of tokens."""


async def bytes_per_token(url: str, model: str) -> float:
    """Bytes that a server sends per token with 20 log-probabilities."""
    body = {
        "model": model, "messages": [{"role": "user", "content": QUESTION}], "max_tokens": 200, "stream": True,
        "logprobs": True, "top_logprobs": 20, "ignore_eos": True,
    }  # fmt: skip
    async with httpx.AsyncClient(timeout=120) as client:
        return len((await client.post(f"{url}/chat/completions", json=body)).content) / 200


def cpu_seconds(server: int | None) -> dict[str, float]:
    """CPU seconds so far: this client, the API server, and its engines, which are its children."""
    seconds = {"client": time.process_time()}
    if server is not None:
        api_server = psutil.Process(server)
        seconds["api server"] = sum(api_server.cpu_times()[:2])
        seconds["engine"] = sum(sum(child.cpu_times()[:2]) for child in api_server.children(recursive=True))
    return seconds


def run(options: argparse.Namespace, *, inside: bool) -> Counter[str]:
    """One question: CPU seconds of every process, seconds of wall time, and tokens."""
    engine = OpenAI(
        options.url, options.model, temperature=1.0, top_p=1.0, max_path_tokens=400, inside=inside, extra={"top_k": 20}
    )
    start, before = time.perf_counter(), cpu_seconds(options.pid)
    out = se.ask(QUESTION, engine, STRATEGY, paths=options.paths, parallel=options.parallel, window=64)
    spent = {name: seconds - before[name] for name, seconds in cpu_seconds(options.pid).items()}
    return Counter({**spent, "wall": time.perf_counter() - start, "tokens": float(out.tokens.total)})


def run_long(options: argparse.Namespace) -> None:
    """Paths of so many tokens that all run at once: what the API server needs for each path and for each step."""
    engine = OpenAI(
        options.url, options.model, max_path_tokens=options.tokens, extra={"ignore_eos": True, "seed": None}
    )
    for turn in range(options.turns + 1):
        before, start = cpu_seconds(options.pid), time.perf_counter()
        se.ask(QUESTION, engine, "sc:weigh=learned", paths=options.paths, parallel=options.paths, window=64, hurry=None)
        used, wall = cpu_seconds(options.pid)["api server"] - before["api server"], time.perf_counter() - start
        if turn:  # the first one loads what is loaded once
            per_path, per_step = used / options.paths * 1e3, used / options.tokens * 1e6
            print(f"api server: {used:.2f} s in {wall:.0f} s; {per_path:.2f} ms per path, {per_step:,.0f} us per step")


def main() -> None:
    """Measure both ways in turn, and print sums."""
    pid = os.environ.get("SUREENOUGH_VLLM_PID")
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("SUREENOUGH_VLLM_URL", "http://127.0.0.1:8000/v1"))
    parser.add_argument(
        "--pid", type=int, default=None if pid is None else int(pid), help="process id of a server on this machine"
    )
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--paths", type=int, default=64)
    parser.add_argument("--parallel", type=int, default=32)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument(
        "--tokens", type=int, help="watched paths of exactly this length; only the API server is measured"
    )
    options = parser.parse_args()
    if options.tokens:
        run_long(options)
        return
    print(f"{asyncio.run(bytes_per_token(options.url, options.model)):.0f} bytes per token with 20 log-probabilities")
    sums = {True: Counter[str](), False: Counter[str]()}
    run(options, inside=True)
    for _ in range(options.turns):
        for inside, total in sums.items():
            total.update(run(options, inside=inside))
    for inside, total in sums.items():
        way, rate = "watched inside" if inside else "by log-probabilities", total["tokens"] / total["wall"]
        shares = [
            (name, total[name] / total["tokens"] * 1e6) for name in ("client", "api server", "engine") if name in total
        ]
        parts = ", ".join(f"{name} {share:,.0f}" for name, share in shares)
        print(f"{way:21} {rate:6,.0f} tokens/s; us of CPU per token: {parts}")


if __name__ == "__main__":
    main()
