"""An OpenAI-compatible server that does whatever a test asks of it: well-behaved, or badly in one of many ways."""

from __future__ import annotations

import asyncio
import json
import random
import re
import ssl
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

WORDS = ("so ", "then ", "x", " = ", "π", "7", "日本", "\n", "hence ", "é")
TOKENS = re.compile("|".join(map(re.escape, (*WORDS, "\\boxed{"))) + "|.")
QUESTION = 9
"""Prompt tokens of every question."""


@dataclass(frozen=True, kw_only=True)
class Manner:
    """How one request is answered."""

    tokens: int = 12  # before the answer
    answer: str | None = None  # by the seed where None
    by_prompt: bool = False  # paths differ from question to question, too
    per_chunk: int = 1
    bytes_a_write: int | None = None  # split events anywhere
    merged: bool = False  # many events in one write
    comments: bool = False
    crlf: bool = False
    role_first: bool = True
    usage: bool = True
    cached: int | None = None  # prompt tokens that the usage calls cached
    reasoned: Any = None  # tokens of the reply that it calls reasoning
    done: bool = True  # the closing [DONE]
    more_candidates: int = 0  # than asked for; fewer where negative
    logprobs: bool = True
    odd_values: bool = False  # NaN, -Infinity and null among the log-probabilities
    repeated: bool = False  # one token's candidates for a whole chunk
    scaled: bool = False  # log-probabilities after temperature
    unseen_end: bool = False  # an end token is counted but has no entry
    reasoning: bool = False  # in a field of its own
    finish: str = "stop"
    stop_reason: str | int | None = None  # what it says of the end
    obeys: bool = True  # ends a path at the limit it was told
    extends: str = "yes"  # continues a beginning; "no": refuses it; "drops": its template leaves the beginning out
    context: int | None = None  # tokens of a prompt and its reply together; requests for more are refused
    delay: float = 0.0  # seconds before each write
    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: str = '{"error": {"message": "as you wished"}}'
    kind: str = "text/event-stream"
    keep_alive: bool = True
    reused: bool = True  # False: a second request on a connection gets no response, as from llama.cpp
    # after so many events
    stall_after: int | None = None
    cut_after: int | None = None
    garbage_after: int | None = None
    error_after: int | None = None
    error_code: int = 500


class Server:
    """Counts what it is asked, what it sent and what is open."""

    healthy = False  # whether it has the endpoint for health checks

    def __init__(self, manner: Callable[[int, int], Manner]) -> None:
        self.manner = manner  # of the how-manieth request for a seed
        self.requests: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        self.paths: list[str] = []
        self.probes: list[str] = []  # request lines that ask for no completion
        self.running = 0
        self.closed_early = 0
        self.url = ""
        self._asked: dict[int, int] = {}

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection, for as many requests as it lasts."""
        try:
            reused = False
            while await self._answer(reader, writer, reused):
                reused = True
        except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):  # gone: they, or the loop
            pass
        finally:
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, reused: bool) -> bool:
        body = await self._request(reader)
        if body is None:
            content = b"nothing here"
            status = 200 if self.healthy and self.probes[-1].startswith("GET /health ") else 404
            writer.write(_head(status, {"Content-Type": "text/plain", "Content-Length": str(len(content))}) + content)
            return True
        seed = body["seed"]
        manner = self.manner(seed, self._asked.get(seed, 0))
        if reused and not manner.reused:
            return False
        self._asked[seed] = self._asked.get(seed, 0) + 1
        self.running += 1
        try:
            return await self._reply(body, manner, reader, writer)
        except ConnectionError:
            self.closed_early += 1
            return False
        finally:
            self.running -= 1

    async def _request(self, reader: asyncio.StreamReader) -> dict[str, Any] | None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        if "content-length" not in headers:
            self.probes.append(head[0])
            return None
        body: dict[str, Any] = json.loads(await reader.readexactly(int(headers["content-length"])))
        self.paths.append(head[0].split()[1])
        self.requests.append(body)
        self.headers.append(headers)
        return body

    async def _reply(
        self, body: dict[str, Any], manner: Manner, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        if manner.extends == "no" and body.get("continue_final_message"):
            manner = replace(manner, status=400, body='{"error": {"message": "Extra inputs are not permitted"}}')
        if manner.context is not None and (body.get("max_tokens") or 1) > room(body, manner.context):
            text = f"This model's maximum context length is {manner.context} tokens; your request is longer."
            manner = replace(manner, status=400, body=json.dumps({"error": {"message": text}}))
        if manner.status != 200 or manner.kind != "text/event-stream":
            content = manner.body.encode()
            head = {"Content-Type": "application/json", "Content-Length": str(len(content))} | manner.headers
            if manner.status == 200:
                head["Content-Type"] = manner.kind
            writer.write(_head(manner.status, head) + content)
            await writer.drain()
            return manner.keep_alive
        writer.write(_head(200, {"Content-Type": manner.kind, "Transfer-Encoding": "chunked"} | manner.headers))
        for write in writes(events(body, manner), manner):
            if write is None:
                writer.transport.abort()
                return False
            if not write or manner.delay:
                await self._linger(reader, manner.delay if write else 1e9)
            if gone(reader):
                self.closed_early += 1
                return False
            writer.write(b"%x\r\n%s\r\n" % (len(write), write))
            await writer.drain()
            await asyncio.sleep(0)
        writer.write(b"0\r\n\r\n")
        await writer.drain()
        return manner.keep_alive

    async def _linger(self, reader: asyncio.StreamReader, seconds: float) -> None:
        """Wait, but not for a client that has gone."""
        end = asyncio.get_running_loop().time() + seconds
        while not gone(reader) and (left := end - asyncio.get_running_loop().time()) > 0:
            await asyncio.sleep(min(left, 0.005))


def gone(reader: asyncio.StreamReader) -> bool:
    """Whether the client has left, politely or not."""
    return reader.at_eof() or reader.exception() is not None


@asynccontextmanager
async def serving(
    manner: Callable[[int, int], Manner] | Manner, *, tls: ssl.SSLContext | None = None
) -> AsyncIterator[Server]:
    """A server on a free port of this machine, gone afterwards."""
    server = Server((lambda seed, nth: manner) if isinstance(manner, Manner) else manner)
    listening = await asyncio.start_server(server.talk, "127.0.0.1", 0, limit=1 << 20, ssl=tls)
    try:
        server.url = f"http{'s' * (tls is not None)}://127.0.0.1:{listening.sockets[0].getsockname()[1]}/v1"
        yield server
    finally:
        listening.close()


async def idle(server: Server) -> None:
    """Wait until no request is open; tests bound it in time."""
    while server.running:
        await asyncio.sleep(0.002)


def events(body: dict[str, Any], manner: Manner) -> Iterator[str]:
    """The data of every event of a reply, made from the request's seed."""
    asked = json.dumps(body.get("messages") or body.get("prompt")) if manner.by_prompt else ""
    draw = random.Random(f"{body['seed']} {asked}" if asked else body["seed"])
    chat = "messages" in body
    k = (body.get("top_logprobs") if chat else body.get("logprobs")) or 0
    k = max(0, k + manner.more_candidates) if k and manner.logprobs else 0
    scale = 1 / (body["temperature"] or 1.0) if manner.scaled else 1.0
    answer = str(draw.choice([7, 7, 7, 8])) if manner.answer is None else manner.answer
    words = [draw.choice(WORDS) for _ in range(manner.tokens)] + ["\\boxed{", answer, "}"]
    sent = beginning_words(body, words) if manner.extends == "yes" else 0
    words = words[sent:]
    whole, words = len(words), words[: body.get("max_tokens") if manner.obeys else None]
    words = words[: None if manner.context is None else room(body, manner.context)]
    stops = [at for at, word in enumerate(words) if any(stop in word for stop in body.get("stop") or ())]
    words, finish = (
        (words[: stops[0]], "stop") if stops else (words, manner.finish if len(words) == whole else "length")
    )
    if chat and manner.role_first:
        yield json.dumps({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "logprobs": None}]})
    for start in range(0, len(words), manner.per_chunk):
        part = words[start : start + manner.per_chunk]
        last = start + manner.per_chunk >= len(words)
        entries = [entry(word, k, draw, manner, scale) for word in part]
        if manner.repeated:
            entries = [first | {"token": word} for first, word in zip([entries[0]] * len(part), part, strict=True)]
        name = "reasoning_content" if manner.reasoning and sent + start < manner.tokens else "content"
        choice: dict[str, Any] = {"index": 0, "finish_reason": finish if last else None}
        choice |= {"stop_reason": manner.stop_reason} if last and manner.stop_reason is not None else {}
        choice |= {"delta": {name: "".join(part)}} if chat else {"text": "".join(part)}
        if k:
            choice["logprobs"] = {"content": entries} if chat else plain(entries)
        yield json.dumps({"id": "c", "object": "chunk", "choices": [choice]}, ensure_ascii=False)
    made = len(words) + manner.unseen_end
    if manner.usage:
        details = {} if manner.cached is None else {"prompt_tokens_details": {"cached_tokens": manner.cached}}
        if manner.reasoned is not None:
            details["completion_tokens_details"] = {"reasoning_tokens": manner.reasoned}
        read = beginning_tokens(body) if manner.extends == "yes" else 0  # also if the reply does not follow from it
        counts = {"prompt_tokens": QUESTION + read, "completion_tokens": made}
        yield json.dumps({"choices": [], "usage": counts | details})
    if manner.done:
        yield "[DONE]"


def beginning_of(body: dict[str, Any]) -> str:
    """The part of the reply that the request begins with."""
    if body.get("continue_final_message"):
        return str(body["messages"][-1]["content"])
    return str(body["prompt"]).removeprefix("?") if "prompt" in body else ""


def room(body: dict[str, Any], context: int) -> int:
    """Tokens that the request leaves of the context."""
    return max(0, context - QUESTION - beginning_tokens(body))


def beginning_tokens(body: dict[str, Any]) -> int:
    """Tokens of the prompt beyond the question's."""
    return len(TOKENS.findall(beginning_of(body)))


def beginning_words(body: dict[str, Any], words: list[str]) -> int:
    """How many words of its path the request begins with."""
    beginning = beginning_of(body)
    for n, word in enumerate(words):
        if not beginning:
            return n
        if not beginning.startswith(word):
            break
        beginning = beginning[len(word) :]
    return 0 if beginning else len(words)


def entry(word: str, k: int, draw: random.Random, manner: Manner, scale: float = 1.0) -> dict[str, Any]:
    """A token and its candidates: unsorted, the sampled one first."""
    values: list[float | None] = [-draw.expovariate(0.2) * scale for _ in range(k)]
    if manner.odd_values and k > 3:
        values[1:4] = [float("nan"), float("-inf"), None]
    top = [{"token": f"t{i}", "logprob": value, "bytes": [116]} for i, value in enumerate(values)]
    return {"token": word, "logprob": -1.0, "bytes": list(word.encode()), "top_logprobs": top}


def plain(entries: list[dict[str, Any]]) -> dict[str, Any]:
    """The same as the older completions form."""
    maps = [{f"token_id:{i}": one["logprob"] for i, one in enumerate(e["top_logprobs"])} for e in entries]
    return {"tokens": [e["token"] for e in entries], "top_logprobs": maps, "token_logprobs": [-1.0] * len(entries)}


def writes(sent: Iterator[str], manner: Manner) -> Iterator[bytes | None]:
    """What goes out in one write each; empty: say nothing any more; None: cut the line."""
    blocks = _blocks(sent, manner)
    if manner.merged:
        whole = b"".join(block for block in blocks if block)
        blocks = iter([whole[i : i + 4000] for i in range(0, len(whole), 4000)])
    for block in blocks:
        if block and manner.bytes_a_write:
            yield from (block[i : i + manner.bytes_a_write] for i in range(0, len(block), manner.bytes_a_write))
        else:
            yield block


def _blocks(sent: Iterator[str], manner: Manner) -> Iterator[bytes | None]:
    end = "\r\n" if manner.crlf else "\n"
    for at, data in enumerate(sent):
        if manner.comments:
            yield f": keep-alive{end}{end}event: message{end}".encode()
        if at == manner.stall_after:
            yield b""
        if at == manner.cut_after:
            yield None
        wrong = {
            manner.garbage_after: "<html>Bad gateway</html>",
            manner.error_after: json.dumps({"error": {"message": "the engine died", "code": manner.error_code}}),
        }
        yield f"data: {wrong.get(at, data)}{end}{end}".encode()


def _head(status: int, headers: dict[str, str]) -> bytes:
    lines = [f"HTTP/1.1 {status} Whatever", *(f"{name}: {value}" for name, value in headers.items())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode()
