"""The progress of all watched paths of a client comes in one request."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from sureenough.core.pruning import Gate
from sureenough.engines.base import Prompt, WatchOptions
from sureenough.engines.openai.client import OpenAI
from sureenough.engines.watch import client
from sureenough.engines.watch.client import MAX_FAILURES, InterruptibleBody, ProgressPoller, Watcher
from sureenough.engines.watch.protocol import Progress
from sureenough.vllm import endpoint
from sureenough.vllm.reader import RecordsReader
from sureenough.vllm.records import PathRecords
from tests.vllm.stored import Client, add_token

LONG = 30.0  # nothing here takes that long
PATHS = 3
PROMPT = Prompt.user("?")


class Content:
    """The body of a response, which a test writes."""

    def __init__(self) -> None:
        self.pieces: asyncio.Queue[bytes | Exception] = asyncio.Queue()

    async def read(self, n: int) -> bytes:
        piece = await self.pieces.get()
        if isinstance(piece, Exception):
            raise piece
        return piece


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "PROGRESS_SECONDS", 0.01)
    monkeypatch.setattr(endpoint, "PROGRESS_SECONDS", 0.02)


def test_bytes_and_progress_come_in_any_order() -> None:
    async def use() -> None:
        content = Content()
        reply = InterruptibleBody(content)
        reply.wake()
        reply.wake()
        assert await reply.read(9) is None
        content.pieces.put_nowait(b"abc")
        assert await reply.read(9) == b"abc"
        reading = asyncio.create_task(reply.read(9))
        await asyncio.sleep(0)
        reply.wake()
        assert await reading is None
        content.pieces.put_nowait(ConnectionError("gone"))
        with pytest.raises(ConnectionError, match="gone"):
            await reply.read(9)
        content.pieces.put_nowait(b"")
        assert await reply.read(9) == b""
        await reply.aclose()

    asyncio.run(asyncio.wait_for(use(), LONG))


@pytest.mark.parametrize("broken", [True, False])
def test_a_reply_that_is_closed_or_cancelled_leaves_no_task_behind(broken: bool) -> None:
    async def use() -> None:
        before = asyncio.all_tasks()
        content = Content()
        reply = InterruptibleBody(content)
        reading = asyncio.create_task(reply.read(9))
        await asyncio.sleep(0.01)
        reading.cancel()
        await asyncio.wait({reading})
        if broken:
            content.pieces.put_nowait(ConnectionError("gone"))
            await asyncio.sleep(0.01)
        await reply.aclose()
        assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(use(), LONG))


@pytest.mark.parametrize("response", [None, [None, None]], ids=["no response", "another server's"])
def test_requests_that_fail_end_and_are_not_tried_again(response: Sequence[Progress | None] | None) -> None:
    async def use() -> None:
        before = asyncio.all_tasks()
        asked: list[Sequence[str]] = []

        async def fetch(keys: Sequence[str]) -> Sequence[Progress | None] | None:
            asked.append(keys)
            return response

        poller = ProgressPoller(fetch)
        async with poller.following("a" * 8, print), poller.following("b" * 8, print):
            while not poller.failed:
                await asyncio.sleep(0.01)
        assert len(asked) == MAX_FAILURES
        async with poller.following("c" * 8, print):
            await asyncio.sleep(0.1)
        assert len(asked) == MAX_FAILURES
        assert asyncio.all_tasks() == before

    asyncio.run(asyncio.wait_for(use(), LONG))


# -- client and server together


class Growing:
    """Stands for vLLM: paths grow in steps that a test takes, and end when it says so."""

    def __init__(self, records: PathRecords) -> None:
        self.records, self.keys, self.tokens = records, list[str](), 0
        self.ended = asyncio.Event()

    async def chat(self, request: Request) -> JSONResponse:
        key = (await request.json())["vllm_xargs"]["sure_key"]
        self.records.start_path(len(self.keys), key, trace=False)
        self.keys.append(key)
        if len(self.keys) == PATHS:
            self.grow()
        await self.ended.wait()
        message = {"role": "assistant", "content": "It is 7."}
        usage = {"prompt_tokens": 9, "completion_tokens": self.tokens}
        return JSONResponse({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage})

    def grow(self) -> None:
        """Two tokens of every path."""
        for before in (self.tokens, self.tokens + 1):
            for slot in range(len(self.keys)):
                add_token(self.records, slot, before, 3.0)
        self.tokens += 2


class Recorder:
    """A middleware that counts requests for progress, and may refuse them."""

    def __init__(self, app: Any, *, refuses: bool) -> None:
        self.app, self.polls, self.refuses = app, 0, refuses
        self.sent = list[bytes]()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["path"].endswith("/sureenough/paths"):
            self.polls += 1
            if self.refuses:
                await Response(b"[" * 5_000, 404)(scope, receive, send)
                return

        async def record(message: Any) -> None:
            if b"sureenough" in message.get("body", b"") and message.get("more_body"):
                self.sent.append(message["body"])
            await send(message)

        await self.app(scope, receive, record)


@asynccontextmanager
async def served(app: Any) -> AsyncIterator[str]:
    config = uvicorn.Config(app, port=0, log_config=None, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve())
    while not server.started:
        await asyncio.sleep(0.01)
    try:
        yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        await serving


@pytest.mark.parametrize("refused", [False, True])
@pytest.mark.parametrize("signals", [True, False])
def test_paths_are_counted_by_polls_or_at_their_ends(refused: bool, signals: bool) -> None:
    records = PathRecords(2 * PATHS)
    plugin = endpoint.Endpoints.__new__(endpoint.Endpoints)
    plugin.watches = True
    watched = replace(PROMPT, signals=signals, watch=WatchOptions(4, Gate()))

    async def path(engine: Any, seed: int, grown: list[int]) -> list[Any]:
        chunks = []
        async for chunk in engine.stream(watched, seed=seed):
            chunks.append(chunk)
            grown[seed] += chunk.unread
        return chunks

    async def use() -> None:
        vllm = Growing(records)
        plugin.records = RecordsReader(Client(records))
        app = Starlette(routes=[Route("/v1/chat/completions", vllm.chat, methods=["POST"])])
        plugin.attach_router(app)
        app.router.routes.reverse()  # vLLM itself puts a plug-in's routes in the place of its own
        recorder = Recorder(app, refuses=refused)
        async with served(recorder) as url, OpenAI(url, "tiny").open(parallel=PATHS) as engine:
            assert isinstance(engine.watcher, Watcher)
            grown = [0] * PATHS
            paths = [asyncio.create_task(path(engine, seed, grown)) for seed in range(PATHS)]
            while len(recorder.sent) < PATHS or recorder.polls < (MAX_FAILURES if refused else 1):
                await asyncio.sleep(0.01)
            for _ in range(3):
                vllm.grow()
                while not refused and min(grown) < vllm.tokens - 1:
                    await asyncio.sleep(0.01)
            events = len(recorder.sent)
            vllm.ended.set()
            for chunks in await asyncio.gather(*paths):
                assert sum(chunk.unread for chunk in chunks) == vllm.tokens
                assert "".join(chunk.text for chunk in chunks) == "It is 7."
                assert (chunks[-1].summary is not None) is signals
            assert events == PATHS  # one says that the path is watched; the next is due in 15 seconds

    asyncio.run(asyncio.wait_for(use(), LONG))
