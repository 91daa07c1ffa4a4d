"""Any OpenAI-compatible server as an engine: one streamed request a path; closing the stream cancels it.

A request is tried again only before its path's first token; after that a broken stream is a lost path. The key comes
from the environment and is never shown.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import KW_ONLY, dataclass, field
from math import inf
from typing import Any, Final

import httpx

from sureenough.core.events import Token
from sureenough.engines.base import Chunk, Prompt
from sureenough.engines.openai.address import api_key, parse_url, proxy_for
from sureenough.engines.openai.errors import BUSY, ServerBusy, ServerErrors
from sureenough.engines.openai.lanes import Lanes
from sureenough.engines.openai.parser import ReplyParser, StreamCut
from sureenough.engines.openai.retry import LONGEST_WAIT, Stalled, StallTimer, backoff, retry_after
from sureenough.engines.openai.server_counters import ServerCounters, counters_at_rest
from sureenough.engines.openai.sse import SSEParser
from sureenough.engines.openai.wire import request
from sureenough.engines.vllm.client import MonitorClient, is_watched
from sureenough.engines.vllm.protocol import WatchRequest
from sureenough.errors import UsageError

LONGEST_PATH: Final = 32_768
"""Tokens after which a path is closed where the caller set no limit; servers with less room end it themselves."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to wait for a connection, for a path's first token, and between its tokens."""

    connect: float = 10.0
    first_token: float = 300.0
    stall: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is {getattr(self, name)} seconds; it must be above 0")


def check_sampling(temperature: float, top_p: float) -> None:
    """Values that no server could draw tokens by."""
    if not 0 <= temperature < inf:
        raise UsageError(f"temperature is {temperature}; it must be at least 0")
    if not 0 < top_p <= 1:
        raise UsageError(f"top_p is {top_p}; it must be above 0 and at most 1")


@dataclass(frozen=True, slots=True, repr=False)
class OpenAI:
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, LM Studio, hosted APIs."""

    url: str  # up to and with /v1
    model: str
    _: KW_ONLY
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    chat: bool = True  # False: plain completions
    k: int = 20  # candidates a token
    window: int | None = None  # what this model suggests
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: int = 4  # before a path's first token; twice as many where the server says that it is busy
    extra: Mapping[str, Any] = field(default_factory=dict)  # further fields of the request
    inside: bool = True  # let a server that can watch its own paths
    metrics: bool = False  # read the server's counters, to learn what it made after cancels; for servers of one's own
    proxies: bool = True  # whether the environment's proxies are used
    reuse: bool = True  # whether a connection serves one path after another
    key: str | None = None  # in place of the environment's

    def __post_init__(self) -> None:
        address = parse_url(self.url)
        if not address.host or address.scheme not in ("http", "https"):
            raise UsageError(f"{address.copy_with(userinfo=b'')} is no URL; it looks like http://localhost:8000/v1")
        if address.port is not None and not 0 < address.port < 65536:
            raise UsageError(f"{address.copy_with(userinfo=b'')} cannot be: ports go from 1 to 65535")
        if not self.model:
            raise UsageError("which model? Give the name under which the server offers it")
        check_sampling(self.temperature, self.top_p)
        for name, value, least in (("k", self.k, 1), ("retries", self.retries, 0)):
            if not least <= value < inf:
                raise UsageError(f"{name} is {value}; it must be at least {least}")
        if self.max_path_tokens is not None and self.max_path_tokens < 1:
            raise UsageError(f"max_path_tokens is {self.max_path_tokens}; it must be at least 1")

    def __repr__(self) -> str:
        return f"OpenAI({ServerErrors(parse_url(self.url), self.model, None).shown!r}, {self.model!r})"

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[OpenAIConnection]:
        """Connections for so many paths at once."""
        key = api_key(self.key)
        address = parse_url(self.url)
        # Our own lanes serve plain HTTP, where one's own server is; TLS and proxies are left to httpx's pool, held to
        # `parallel` connections, which is all that a run ever has open.
        proxy = proxy_for(address) if self.proxies else None
        elsewhere = address.scheme == "https" or proxy is not None
        limits = httpx.Limits(max_connections=parallel, max_keepalive_connections=parallel)
        lanes = None if elsewhere else Lanes()
        # Reads are watched by `Watch`; a connection is waited for as long as the others run.
        times = httpx.Timeout(None, connect=self.timeouts.connect, write=self.timeouts.stall)
        login = (address.username, address.password) if address.userinfo else None
        headers = {"Accept": "text/event-stream", "Accept-Encoding": "identity", "Content-Type": "application/json"}
        if not self.reuse:
            headers["Connection"] = "close"
        if key is not None:
            headers["Authorization"] = f"Bearer {key}"
            login = None
        async with httpx.AsyncClient(
            limits=limits, timeout=times, headers=headers, auth=login, transport=lanes, trust_env=self.proxies
        ) as client:
            # User and password leave the URL here, so that no log of a client shows them.
            server = ServerErrors(address, self.model, key, proxy)
            connected = OpenAIConnection(self, client, address.copy_with(userinfo=b""), server)
            if self.metrics:
                connected.before = await counters_at_rest(client, connected.address)
            yield connected

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path on a connection of its own; a run opens the engine once for all its paths."""
        async with self.open(parallel=1) as connected, aclosing(connected.stream(prompt, seed=seed)) as chunks:
            async for chunk in chunks:
                yield chunk

    def sampling(self) -> dict[str, Any]:
        """How tokens are drawn, as the request says it."""
        limit = {} if self.max_path_tokens is None else {"max_tokens": self.max_path_tokens}
        return {"temperature": self.temperature, "top_p": self.top_p, **limit, **self.extra}


class OpenAIConnection:
    """An engine with its connections open."""

    def __init__(self, engine: OpenAI, client: httpx.AsyncClient, address: httpx.URL, server: ServerErrors) -> None:
        self.engine, self.client, self.address, self.server = engine, client, address, server
        self.window = engine.window
        self.before: ServerCounters | None = None
        self.inside = MonitorClient(client, address)

    def asking(self, engine: OpenAI) -> OpenAIConnection:
        """The same connections for another model or other sampling."""
        other = OpenAIConnection(engine, self.client, self.address, self.server.of(engine.model))
        other.inside = self.inside  # what is known of its monitor
        return other

    async def made(self) -> int | None:
        """Tokens that the server made since this was opened, by its own count, once it is at rest."""
        after = None if self.before is None else await counters_at_rest(self.client, self.address)
        return None if after is None or self.before is None else after.made - self.before.made

    async def stream(self, prompt: Prompt, *, seed: int) -> AsyncGenerator[Sequence[Token], None]:
        """Grow one path; the same request is sent again while its first token has not come."""
        engine, attempt = self.engine, 0
        body = request(prompt, seed, model=engine.model, chat=engine.chat, k=engine.k, sampling=engine.sampling())
        while True:
            asked = self.inside.watch_request(prompt, engine.k) if engine.inside else None
            reading = ReplyParser(engine.k, prompt.signals, engine.max_path_tokens or LONGEST_PATH)
            try:
                async with aclosing(self.read(body, reading, asked)) as chunks:
                    async for chunk in chunks:
                        if asked is not None and reading.watched and chunk.finish is not None:
                            chunk.summary = await self.inside.fetch_summary(asked, reading.made)
                        yield chunk
                return
            except ServerBusy as busy:
                if (busy.asked or 0.0) > LONGEST_WAIT:
                    raise self.server.too_long(busy) from None
                if attempt >= 2 * engine.retries:
                    raise busy.error from None
                wait = backoff(attempt, busy.asked)
            except httpx.TransportError as error:
                if reading.begun:
                    raise self.server.cut(error) from None
                if attempt >= engine.retries:
                    raise self.server.unreachable(error) from None
                # A kept-alive connection that the server closed meanwhile: nothing is wrong, ask again at once.
                stale = attempt == 0 and isinstance(
                    error, httpx.RemoteProtocolError | httpx.ReadError | httpx.WriteError
                )
                wait = 0.0 if stale else backoff(attempt, None)
            attempt += 1
            await asyncio.sleep(wait)

    async def read(
        self, body: bytes, reading: ReplyParser, asked: WatchRequest | None = None
    ) -> AsyncGenerator[Chunk, None]:
        """One request and its reply, as chunks."""
        head = asked.to_header() if asked is not None else None
        times, events = self.engine.timeouts, SSEParser()
        closed = False
        try:
            with StallTimer(times.first_token) as watch:
                watch.waiting = True
                async with self.client.stream("POST", self.url, content=body, headers=head) as response:
                    await self.check(response)
                    if asked is not None and is_watched(response.headers):
                        reading.leave_to_server()
                    packed = "content-encoding" in response.headers
                    async for raw in response.aiter_bytes() if packed else response.aiter_raw():
                        watch.waiting = False
                        error = reading.take_all(events.feed(raw))
                        chunk = reading.chunk()
                        if chunk is not None:
                            watch.narrow(times.stall)
                            yield chunk
                            if reading.full or self.unheard_of(reading):
                                closed = True
                                break
                        if error is not None:  # what came before it is counted first
                            raise error
                        watch.waiting = True
        except httpx.DecodingError:
            raise httpx.RemoteProtocolError("the reply is packed in a way that cannot be undone") from None
        except Stalled:
            raise self.server.silent(watch.limit, reading.begun) from None
        except StreamCut as error:
            if reading.begun or error.status is None or error.status < 400:
                raise self.server.cut(error) from None
            raise self.refusal(error.status, str(error).encode(), httpx.Headers()) from None
        if not closed:
            for data in events.end():
                reading.take(data)
            if reading.finish is None and not reading.done:
                raise self.server.cut(None) if reading.begun else httpx.RemoteProtocolError("the reply was empty")
        last = reading.last()
        last.closed = closed
        yield last

    def unheard_of(self, reading: ReplyParser) -> bool:
        """Whether a path is at our limit, which the server was not told; one that was told it ends the path itself."""
        if self.engine.max_path_tokens is not None or reading.finish is not None or reading.tokens < reading.limit:
            return False
        reading.finish = "length"
        return True

    @property
    def url(self) -> httpx.URL:
        """Where completions are asked for."""
        verb = "chat/completions" if self.engine.chat else "completions"
        return self.address.copy_with(path=f"{self.address.path.rstrip('/')}/{verb}")

    async def check(self, response: httpx.Response) -> None:
        """Refuse replies that are no stream of events."""
        status = response.status_code
        if status != 200:
            body = (await response.aread())[:65_536]
            raise self.refusal(status, body, response.headers)
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if kind != "text/event-stream":
            raise self.server.wrong_protocol(kind)

    def refusal(self, status: int, body: bytes, headers: httpx.Headers) -> Exception:
        """What a status that is no 200 means: the end, or asking again later."""
        request_id = headers.get("x-request-id")
        error = self.server.refused(status, body, headers.get("location"), self.engine.k, request_id)
        return ServerBusy(retry_after(headers.get("retry-after"), time.time()), error) if status in BUSY else error
