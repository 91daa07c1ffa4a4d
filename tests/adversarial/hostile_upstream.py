"""A hostile upstream: every fault by name, and a server that has one of them at random per request, by seed.

`python -m tests.adversarial.hostile_upstream SHARE` serves until it is killed and prints its URL; SHARE of its replies
are faulty.
"""

from __future__ import annotations

import asyncio
import base64
import gzip
import json
import random
import struct
import sys
from collections.abc import Awaitable, Callable
from math import inf, nan
from typing import Any

from tests.engines.raw_server import (
    CHUNKED_HEAD,
    STREAM_HEAD,
    Answer,
    RawServer,
    chunked,
    raw_server,
    stream_body,
    text_event,
    token_event,
)

Fault = Callable[[RawServer, asyncio.StreamWriter, random.Random], Awaitable[None]]
USAGE = '{"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 6}}'
FLOOD = 48 << 20
"""Bytes after which a client that still reads an endless reply has no limit."""
PIECE = 1 << 18
FAULTS: dict[str, Fault] = {}


def fault(function: Fault) -> Fault:
    """Add a fault under its function's name."""
    FAULTS[getattr(function, "__name__", "")] = function
    return function


def tokens(draw: random.Random, *, finish: str | None = "stop", values: list[float] | None = None) -> list[str]:
    """The events of a short path that answers 7, mostly."""
    answer = draw.choice(["7", "7", "7", "8"])
    words = ["so ", "it ", "is ", "\\boxed{", answer]
    return [*(token_event(word, values=values) for word in words), token_event("}", finish=finish, values=values)]


def whole(events: list[str], head: bytes = STREAM_HEAD) -> bytes:
    """A reply with a length."""
    content = stream_body(*events)
    return head + b"Content-Length: %d\r\n\r\n" % len(content) + content


@fault
async def healthy(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(whole([*tokens(draw), USAGE, "[DONE]"]))


@fault
async def stale_bytes(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    stale = whole([token_event("\\boxed{666}", finish="stop"), "[DONE]"])
    writer.write(whole([*tokens(draw), USAGE, "[DONE]"]))
    await asyncio.sleep(draw.choice([0, 0.01]))
    writer.write(stale[: draw.choice([30, len(stale)])])


@fault
async def huge_error_body(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    status = draw.choice([b"400 Bad", b"404 Not Found", b"500 Error", b"401 Unauthorized"])
    writer.write(b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n\r\n")
    await server.flood(writer, b"x" * PIECE, most=FLOOD)


@fault
async def endless_data_lines(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(STREAM_HEAD + b"\r\n")
    await server.flood(writer, b"data: " + b"x" * PIECE + b"\n", most=FLOOD)


@fault
async def endless_line(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(STREAM_HEAD + b"\r\n" + stream_body(tokens(draw)[0]) + b"data: ")
    await server.flood(writer, b"x" * PIECE, most=FLOOD)


@fault
async def unrequested_gzip(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    body = gzip.compress(stream_body(*tokens(draw), "[DONE]"))
    writer.write(STREAM_HEAD + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(body) + body)


@fault
async def endless_trailers(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(CHUNKED_HEAD + chunked(stream_body(*tokens(draw, finish=None))) + b"0\r\n")
    await server.flood(writer, b"X-Trailer: x\r\n" * 1000, most=FLOOD)


@fault
async def endless_head(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(b"HTTP/1.1 200 OK\r\n")
    await server.flood(writer, b"X-Header: x\r\n" * 1000, most=FLOOD)


@fault
async def surrogate_halves(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    halves = draw.choice([["\ud83d", "\ude00"], ["\ud83d"], ["\ude00", "\ud83d"]])
    words = ["so ", *halves, "\\boxed{", draw.choice(["7", "\ud83d", "\ude00\ud83d"]), "}"]
    writer.write(whole([*(token_event(word) for word in words), token_event("", finish="stop"), "[DONE]"]))


@fault
async def done_then_silence(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(CHUNKED_HEAD + chunked(stream_body(*tokens(draw), "[DONE]")))
    await asyncio.sleep(0.01)
    writer.write(chunked(stream_body(token_event("\\boxed{666}", finish="stop"))))


@fault
async def silence(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    """Nothing at all, or nothing after the first tokens."""
    if draw.random() < 0.5:
        writer.write(CHUNKED_HEAD + chunked(stream_body(*tokens(draw)[:3])))


@fault
async def bad_content_length(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    length = draw.choice([b"abc", "²".encode(), b"9" * 5000, b"-1", b"1, 2", b"0x10"])
    writer.write(STREAM_HEAD + b"Content-Length: " + length + b"\r\n\r\n" + stream_body(*tokens(draw)))


@fault
async def bad_chunks(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(CHUNKED_HEAD + chunked(stream_body(*tokens(draw)[:2])) + draw.choice([b"zz\r\n", b"-1\r\n", b"\x00"]))


@fault
async def not_http(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    lines = [b"SSH-2.0-x", b"HTTP/1.1 two", b"HTTP/1.1 200 x\r\nno colon", b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000]
    writer.write(draw.choice([*lines, draw.randbytes(300)]) + b"\r\n\r\n")
    writer.close()


@fault
async def deep_nesting(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    depth = draw.choice([500, 900, 970, 990, 200_000])
    where = draw.choice(["%s", '{"error": %s}', '{"choices": %s}', '{"choices": [], "other": %s}'])
    nested = where % ("[" * depth + "]" * depth)
    writer.write(whole([tokens(draw)[0], nested, "[DONE]"]))


@fault
async def odd_finish_reasons(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    finish = draw.choice(["abort", "content_filter", "error", "x" * 100_000, "\x1b[2J", " stop"])
    writer.write(whole([*tokens(draw, finish=finish), "[DONE]"]))


@fault
async def equal_candidates(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(whole([*tokens(draw, values=[0.0] + [-9999.0] * 19), USAGE, "[DONE]"]))


@fault
async def missing_log_probabilities(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    """None at all, or none after the first tokens, in a text without end."""
    if draw.random() < 0.5:
        writer.write(whole([text_event("so \\boxed{7"), text_event("}", finish="stop"), "[DONE]"]))
        return
    writer.write(CHUNKED_HEAD + chunked(stream_body(*tokens(draw, finish=None))))
    await server.flood(writer, chunked(stream_body(*[text_event("on and ")] * 100)), most=FLOOD)


@fault
async def odd_log_probabilities(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    odd = [float("nan"), float("inf"), float("-inf"), 1e308, -1e308, 5.0, *[-1.0] * 14]
    writer.write(whole([*tokens(draw, values=draw.sample(odd, 20)), USAGE, "[DONE]"]))


@fault
async def negative_usage(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    count = draw.choice([-9, -(2**40), 2**40, 2**80])
    usage = {"choices": [], "usage": {"prompt_tokens": count, "completion_tokens": count}}
    writer.write(whole([*tokens(draw), json.dumps(usage), "[DONE]"]))


WATCHED_HEAD = STREAM_HEAD + b"sureenough-watched: 2\r\n"
SIGNALS = [base64.b64encode(struct.pack("<4d", 0.5, 1.0, 0.5, x)).decode() for x in (1.0, 65_505.0, inf, nan, -1.0)]
RECORD: dict[str, Any] = {
    "tokens": 2, "lowest": 1.0, "tail": 1.0, "tier": 0, "mean_peak": 0.5, "mean_conf": 1.0, "signals": SIGNALS[0]
}  # fmt: skip
ODD: tuple[Any, ...] = (nan, inf, -1, 10**40, None, [])
ODD_FIELDS: list[dict[str, Any]] = [
    {}, *({"signals": one} for one in SIGNALS), *({name: odd} for name in RECORD for odd in ODD), {"tier": 1},
    {"lost": "no"},
]  # fmt: skip


@fault
async def odd_records(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    """It says that it watches the path, and reports anything of it."""
    count = {"tokens": draw.choice([0, 1, -1, nan, 10**40]), "tail": draw.choice([nan, -inf, 1e300])}
    record = RECORD | draw.choice(ODD_FIELDS)
    if draw.random() < 0.2:
        del record["signals"]
    end = json.loads(text_event("so \\boxed{7}", finish="stop")) | {"sureenough": {"record": record}}
    writer.write(whole([json.dumps({"sureenough": count}), json.dumps(end), "[DONE]"], WATCHED_HEAD))


@fault
async def huge_tokens(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    writer.write(CHUNKED_HEAD)
    event = draw.choice([token_event, text_event])("x" * 1_900_000)
    await server.flood(writer, chunked(stream_body(event)), most=FLOOD)


@fault
async def line_feed_in_header(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    value = draw.choice([b"a\nb", b"a\x0bb", b"a\x00b", b"a\rb", b"\x1b]52;c;eA==\x07"])
    writer.write(whole([*tokens(draw), "[DONE]"], STREAM_HEAD + b"X-Request-Id: " + value + b"\r\n"))


@fault
async def cut_off(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    sent = whole([*tokens(draw), "[DONE]"])
    writer.write(sent[: draw.randrange(len(sent))])
    await writer.drain()
    writer.transport.abort()


@fault
async def an_error_that_quotes_the_request(
    server: RawServer, writer: asyncio.StreamWriter, draw: random.Random
) -> None:
    quoted = (server.heads[-1] if server.heads else b"").decode("latin-1")
    content = json.dumps({"error": {"message": f"no: {quoted}", "code": draw.choice([400, 503, None])}}).encode()
    status = draw.choice([b"400 Bad", b"403 No", b"404 No", b"500 Bad", b"503 Busy", b"599 Odd", b"999 Odd"])
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\nRetry-After: 0\r\n"
    writer.write(head + b"Content-Length: %d\r\n\r\n" % len(content) + content)


@fault
async def an_error_inside_the_stream(server: RawServer, writer: asyncio.StreamWriter, draw: random.Random) -> None:
    code: Any = draw.choice([None, 400, 503, -1, 10**30, "x", []])
    error = json.dumps({"error": {"message": "\x1b[2Jno", "code": code}})
    writer.write(whole([*tokens(draw)[: draw.choice([0, 2])], error]))


async def list_models(writer: asyncio.StreamWriter) -> None:
    """The reply to requests other than for completions: health checks must not depend on faults."""
    content = b'{"object": "list", "data": [{"id": "tiny", "object": "model"}]}'
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(content))
    writer.write(content)


def with_fault(name: str) -> Answer:
    """A server that has this fault at every request, with variants by the request's seed."""

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        await (FAULTS[name](server, writer, random.Random(body.get("seed"))) if body else list_models(writer))

    return answer


def with_random_faults(share: float) -> Answer:
    """A server of which this share of requests meets a fault, by the request's seed."""

    async def answer(server: RawServer, writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
        draw = random.Random(body.get("seed"))
        name = draw.choice(list(FAULTS)) if draw.random() < share else "healthy"
        await (FAULTS[name](server, writer, draw) if body else list_models(writer))

    return answer


async def main(share: float) -> None:
    """Serve until killed."""
    async with raw_server(with_random_faults(share)) as server:
        print(server.url, flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(float(sys.argv[1])))
