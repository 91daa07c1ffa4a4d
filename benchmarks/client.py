"""What a token costs the client: read, decode, reduce, watch and schedule, against bare decoding of the same bytes.

A server in a process of its own streams ready-made chunks as fast as it can. What a process pays once (imports) is paid
before the clock runs. Servers under load send about 25 tokens per chunk; 5 and 1 are measured as well. With --cancel:
what it takes to end a run while all of its paths are streaming.
    python benchmarks/client.py [--smoke] [--cancel PATHS]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

import sureenough as se
from sureenough.core.events import Token
from sureenough.core.outcome import Outcome
from sureenough.engines import Fake
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.openai.wire import decode

STRATEGY = "ddc:tau=1,drop=0,trust=100,risk=p100"  # all three tests at every token, next to nothing pruned or stopped
PARTS = 97  # different chunks; prime, so that windows do not repeat with them
LIMITS = {25: (10.5, 4.0), 5: (25.0, 5.0), 1: (25.0, 6.0)}  # by tokens per chunk: microseconds, times bare decoding


def event(draw: random.Random, tokens: int) -> bytes:
    """One event of a chat stream, as vLLM sends it with 20 candidates per token."""
    content = []
    for _ in range(tokens):
        top = [
            {"token": f" tok{i}", "logprob": -draw.expovariate(0.2), "bytes": [32, 116, 111, 107]} for i in range(20)
        ]
        content.append({"token": " tok", "logprob": -0.5, "bytes": [32, 116, 111, 107], "top_logprobs": top})
    choice = {"index": 0, "delta": {"content": " tok" * tokens}, "logprobs": {"content": content}}
    chunk = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
    return b"data: " + json.dumps(chunk, separators=(",", ":")).encode() + b"\n\n"


def chunked(body: bytes) -> bytes:
    """A chunk in the chunked encoding of HTTP/1.1."""
    return b"%x\r\n%s\r\n" % (len(body), body)


async def serve(tokens: int, per_chunk: int) -> None:
    """Stream the same ready-made path to every client, each time from another chunk on."""
    draw = random.Random(0)
    parts = [chunked(event(draw, per_chunk)) for _ in range(PARTS)]
    last = b'data: {"choices":[{"index":0,"delta":{"content":"\\\\boxed{7}"},"finish_reason":"stop"}]}\n\n'
    end = chunked(last) + chunked(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                request = await reader.readuntil(b"\r\n\r\n")
                size = int(request.lower().split(b"content-length:")[1].split(b"\r\n")[0])
                await reader.readexactly(size)
                writer.write(head)
                first = draw.randrange(PARTS)
                for at in range(tokens // per_chunk):
                    writer.write(parts[(first + at) % PARTS])
                    await writer.drain()
                writer.write(end)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def bare(per_chunk: int, tokens: int) -> float:
    """Microseconds per token for decoding alone."""
    draw = random.Random(0)
    bodies = [event(draw, per_chunk)[6:-2] for _ in range(PARTS)]
    start = time.process_time()
    for at in range(tokens // per_chunk):
        decode(bodies[at % PARTS])
    return (time.process_time() - start) / tokens * 1e6


@contextmanager
def serving(tokens: int, per_chunk: int) -> Iterator[OpenAI]:
    """A client of a server in a process of its own."""
    command = [sys.executable, __file__, "--serve", str(tokens), str(per_chunk)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield OpenAI(f"http://127.0.0.1:{server.stdout.readline().strip()}/v1", "m")
        finally:
            server.kill()


def measure(paths: int, parallel: int, tokens: int, per_chunk: int) -> tuple[Outcome, float, float]:
    """An outcome, CPU microseconds per token, and seconds of wall clock."""
    with serving(tokens, per_chunk) as engine:
        cpu, wall = time.process_time(), time.perf_counter()
        out = se.ask("?", engine, STRATEGY, paths=paths, parallel=parallel, window=64)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return out, cpu / out.tokens.total * 1e6, wall


async def cancel(engine: OpenAI, paths: int) -> None:
    """Print the time from the cancel of a run to its outcome, when every connection is closed."""
    run = asyncio.create_task(se.aask("?", engine, "sc", paths=paths, parallel=paths, hurry=None))
    await asyncio.sleep(5)
    cpu, wall = time.process_time(), time.perf_counter()
    run.cancel()
    out = await run
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(
        f"{out.started} paths cancelled after {out.tokens.total:,} tokens: {1e3 * cpu:.0f} ms CPU, {1e3 * wall:.0f} ms"
    )


def warm_up() -> None:
    """Import what the first question imports, and wait until the threads of numerical libraries are idle."""
    import sureenough.engines.openai.http  # noqa: F401

    path = [Token("", 0.5, 9.0)] * 100
    se.ask("?", Fake(lambda seed: [path, [Token(r"\boxed{7}", 0.5, 9.0)]]), STRATEGY, paths=20, window=64)
    time.sleep(0.5)


def show(name: str, out: Outcome, cost: float, wall: float, floor: float) -> None:
    """Print a line of the table."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(
        f"{name:>16}  {cost:16.1f}  {floor:13.1f}  {cost / floor:5.1f}  {out.tokens.total / wall:8,.0f}  "
        f"{out.started:5}  {out.failed:4}  {peak:7.0f}"
    )


def main() -> None:
    """Print a line for each number of tokens per chunk; exit 1 if a limit is exceeded."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="small, and without limits")
    parser.add_argument("--serve", nargs=2, type=int, metavar=("TOKENS", "PER_CHUNK"), help=argparse.SUPPRESS)
    parser.add_argument("--cancel", type=int, metavar="PATHS", help="measure the cancel of a run instead")
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve(*options.serve))
    if options.cancel:
        warm_up()
        for _ in range(3):
            with serving(1 << 30, 1) as engine:
                asyncio.run(cancel(engine, options.cancel))
        return
    paths, parallel, tokens = (32, 16, 200) if options.smoke else (512, 256, 1000)
    broken = False
    warm_up()
    print("tokens per chunk  CPU us per token  bare decoding  ratio  tokens/s  paths  lost  peak MB")
    for per_chunk, (most, most_ratio) in LIMITS.items():
        before = bare(per_chunk, 20_000)
        out, cost, wall = measure(paths, parallel, tokens, per_chunk)
        floor = (before + bare(per_chunk, 20_000)) / 2  # as busy as the machine was meanwhile
        show(str(per_chunk), out, cost, wall, floor)
        complete = out.started == paths and out.failed == 0
        within = cost <= most and cost <= most_ratio * floor
        broken |= not complete or not (within or options.smoke)
    sys.exit(broken)


if __name__ == "__main__":
    main()
