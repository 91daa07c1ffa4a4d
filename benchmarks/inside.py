"""What watching inside the server saves it: the same paths, watched inside and by log-probabilities as text.

    .ci/vllm python benchmarks/inside.py

A tiny model on a CPU: its own step is small, so what is sent weighs much. Rates depend on the machine.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import time

import httpx

import sureenough as se
from sureenough.engines.openai import OpenAI

STRATEGY = "ddc:warmup=8,tau=0.9999999,drop=0,trust=100,risk=p100"
"""All tests of DDC at every token, none of which fails: both ways make the same number of tokens."""


async def bytes_a_token(url: str, model: str) -> float:
    """Bytes that a server sends for a token with 20 log-probabilities."""
    body = {
        "model": model, "messages": [{"role": "user", "content": "Count."}], "max_tokens": 200, "stream": True,
        "logprobs": True, "top_logprobs": 20, "ignore_eos": True,
    }  # fmt: skip
    async with httpx.AsyncClient(timeout=120) as client:
        return len((await client.post(f"{url}/chat/completions", json=body)).content) / 200


def seconds(url: str, model: str, *, inside: bool, paths: int, parallel: int) -> tuple[float, int]:
    """Of one run, and its tokens."""
    engine = OpenAI(url, model, temperature=1.0, top_p=1.0, max_path_tokens=400, inside=inside, extra={"top_k": 20})
    start = time.perf_counter()
    out = se.ask("Count.", engine, STRATEGY, paths=paths, parallel=parallel, window=64)
    return time.perf_counter() - start, out.tokens.total


def main() -> None:
    """Both ways in turn, three times; the fastest of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", default=os.environ.get("SUREENOUGH_VLLM_URL", "http://127.0.0.1:8000/v1"))
    parser.add_argument("--model", default="tiny")
    parser.add_argument("--paths", type=int, default=64)
    parser.add_argument("--parallel", type=int, default=32)
    options = parser.parse_args()
    sent = asyncio.run(bytes_a_token(options.url, options.model))
    print(f"{sent:.0f} bytes a token with 20 log-probabilities")
    rates: dict[bool, float] = {}
    for _ in range(3):
        for inside in (True, False):
            took, made = seconds(
                options.url, options.model, inside=inside, paths=options.paths, parallel=options.parallel
            )
            rates[inside] = max(rates.get(inside, 0.0), made / took)
    print(f"{rates[True]:,.0f} tokens a second watched inside, {rates[False]:,.0f} by log-probabilities: "
          f"{rates[True] / rates[False]:.1f} times")  # fmt: skip


if __name__ == "__main__":
    main()
