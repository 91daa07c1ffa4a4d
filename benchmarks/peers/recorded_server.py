"""An OpenAI-compatible server that sends recorded paths, and counts what it generates.

The n-th request about a question gets its n-th recorded path, whatever sampling the request asks for, so every client
sees the same paths. Each path grows at the same rate, however many there are, and stops growing when its client closes
the connection. Tokens are counted here, as they are generated.

    python benchmarks/peers/recorded_server.py pool.parquet [--rate 400]
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import AsyncGenerator
from dataclasses import asdict, dataclass, field
from typing import Any

from aiohttp import web

import sureenough as se

TICK = 0.02
MODEL = "recorded"
CANDIDATES = 20


@dataclass
class Tally:
    """What was requested about a question, and generated for it."""

    requests: int = 0
    tokens: int = 0
    prompt: int = 0
    cut: int = 0  # paths that their client closed
    seeds: set[int] = field(default_factory=set)
    temperatures: set[float] = field(default_factory=set)


class Reply:
    """A recorded path as tokens of one character each, with as many candidates as clients read.

    The pool has two numbers per token: the highest probability, and the mean log-probability of the 20 likeliest.
    One likeliest token and 19 equal ones have the same two numbers.
    """

    def __init__(self, path: se.RecordedPath) -> None:
        self.text = path.text or ""
        self.finish = path.finish or "stop"
        self.first = [math.log(max(float(peak), 1e-30)) for peak in path.peak]
        self.other = [
            -(CANDIDATES * float(conf) + first) / (CANDIDATES - 1)
            for conf, first in zip(path.conf, self.first, strict=True)
        ]

    def logprobs(self, start: int, end: int) -> str:
        """The field `logprobs` of some tokens, as JSON; text is quicker to make than thousands of dictionaries."""
        entries = []
        for text, first, other in zip(self.text[start:end], self.first[start:end], self.other[start:end], strict=True):
            token = f'"token":{json.dumps(text)},"logprob":{first}'
            others = f',{{"token":"?","logprob":{other}}}' * (CANDIDATES - 1)
            entries.append(f'{{{token},"top_logprobs":[{{{token}}}{others}]}}')
        return f'{{"content":[{",".join(entries)}]}}'


class RecordedServer:
    """The questions of a pool, and a tally for each."""

    def __init__(self, pool: str, rate: float) -> None:
        self.rate = rate
        self.replies = {question.text or "": [Reply(path) for path in question.paths] for question in se.Pool(pool)}
        self.ids = {question.text or "": question.id for question in se.Pool(pool)}
        self.reset()

    def reset(self) -> None:
        """Start counting anew, with each question's first path."""
        self.tallies = {text: Tally() for text in self.replies}

    def question(self, prompt: str) -> str:
        """The question that a prompt contains; the longest one if there are several."""
        matches = [text for text in self.replies if text in prompt]
        if not matches:
            raise web.HTTPBadRequest(text=json.dumps({"error": {"message": "the pool does not have this question"}}))
        return max(matches, key=len)

    def next_reply(self, text: str, body: dict[str, Any]) -> tuple[Reply, int]:
        """The question's next path, and how much of it may be sent."""
        tally, replies = self.tallies[text], self.replies[text]
        reply = replies[tally.requests % len(replies)]
        tally.requests += 1
        if body.get("seed") is not None:
            tally.seeds.add(body["seed"])
        if body.get("temperature") is not None:
            tally.temperatures.add(body["temperature"])
        limit = body.get("max_completion_tokens") or body.get("max_tokens") or len(reply.text)
        return reply, min(limit, len(reply.text))

    async def grow(self, text: str, limit: int) -> AsyncGenerator[tuple[int, int], None]:
        """The parts of a path as they are generated."""
        start, sent, tally = time.monotonic(), 0, self.tallies[text]
        try:
            while sent < limit:
                await asyncio.sleep(TICK)
                due = min(limit, int((time.monotonic() - start) * self.rate))
                tally.tokens += due - sent
                if due > sent:
                    yield sent, due
                sent = due
        finally:
            tally.cut += sent < limit

    async def chat(self, request: web.Request) -> web.StreamResponse:
        """A chat completion, streamed or whole."""
        body = await request.json()
        prompt = "\n".join(str(message.get("content") or "") for message in body["messages"])
        text = self.question(prompt)
        self.tallies[text].prompt += len(prompt) * (body.get("n") or 1)
        if body.get("stream"):
            return await self._stream(request, body, text, len(prompt))
        choices = await asyncio.gather(*(self._whole(body, text, index) for index in range(body.get("n") or 1)))
        used = usage(len(prompt), sum(tokens for _, tokens in choices))
        whole = envelope("chat.completion", ",".join(choice for choice, _ in choices), used)
        return web.Response(text=whole, content_type="application/json")

    async def _whole(self, body: dict[str, Any], text: str, index: int) -> tuple[str, int]:
        reply, limit = self.next_reply(text, body)
        async for _ in self.grow(text, limit):
            pass
        message = json.dumps({"role": "assistant", "content": reply.text[:limit]})
        logprobs = reply.logprobs(0, limit) if body.get("logprobs") else "null"
        finish = reply.finish if limit == len(reply.text) else "length"
        choice = f'{{"index":{index},"message":{message},"logprobs":{logprobs},"finish_reason":"{finish}"}}'
        return choice, limit

    async def _stream(self, request: web.Request, body: dict[str, Any], text: str, prompt: int) -> web.StreamResponse:
        reply, limit = self.next_reply(text, body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        parts = self.grow(text, limit)
        try:
            await response.prepare(request)
            async for start, end in parts:
                events = [event(delta(reply, place, bool(body.get("logprobs")))) for place in range(start, end)]
                await response.write("".join(events).encode())
            finish = reply.finish if limit == len(reply.text) else "length"
            last = event(f'{{"index":0,"delta":{{}},"finish_reason":"{finish}"}}')
            if (body.get("stream_options") or {}).get("include_usage"):
                last += event("", usage(prompt, limit))
            await response.write(f"{last}data: [DONE]\n\n".encode())
        except ConnectionError:  # the client has closed the stream
            pass
        finally:
            await parts.aclose()
        return response

    def app(self) -> web.Application:
        """Routes of the API, and two for the benchmark."""
        app = web.Application(client_max_size=64 << 20)
        app.add_routes([
            web.get("/v1/models", self._models),
            web.post("/v1/chat/completions", self.chat),
            web.post("/reset", self._reset),
            web.get("/tally", self._tally),
        ])  # fmt: skip
        return app

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"object": "list", "data": [{"id": MODEL, "object": "model", "created": 0}]})

    async def _reset(self, request: web.Request) -> web.Response:
        self.reset()
        return web.json_response({})

    async def _tally(self, request: web.Request) -> web.Response:
        tallies = {self.ids[text]: asdict(tally) for text, tally in self.tallies.items()}
        return web.json_response(tallies, dumps=lambda table: json.dumps(table, default=sorted))


def delta(reply: Reply, place: int, with_logprobs: bool) -> str:
    """The choice of a chunk with one token, as vLLM and llama.cpp send them."""
    content = json.dumps(reply.text[place])
    logprobs = reply.logprobs(place, place + 1) if with_logprobs else "null"
    return f'{{"index":0,"delta":{{"content":{content}}},"logprobs":{logprobs},"finish_reason":null}}'


def event(choices: str, used: dict[str, int] | None = None) -> str:
    """A chunk as a server-sent event."""
    return f"data: {envelope('chat.completion.chunk', choices, used)}\n\n"


def envelope(kind: str, choices: str, used: dict[str, int] | None) -> str:
    """The fields around the choices of a reply."""
    rest = f'"id":"recorded","object":"{kind}","created":0,"model":"{MODEL}","usage":{json.dumps(used)}'
    return f'{{{rest},"choices":[{choices}]}}'


def usage(prompt: int, tokens: int) -> dict[str, int]:
    """The usage of a reply; every character is a token."""
    return {"prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens}


async def main() -> None:
    """Serve until the process ends; the first line printed is the address."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pool")
    parser.add_argument("--rate", type=float, default=400.0, help="tokens per second of each path")
    arguments = parser.parse_args()
    server = RecordedServer(arguments.pool, arguments.rate)
    runner = web.AppRunner(server.app(), handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    print(f"http://127.0.0.1:{runner.addresses[0][1]}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main())
