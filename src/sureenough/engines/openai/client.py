"""Any OpenAI-compatible server as an engine: its address, its model, and how paths are sampled and waited for."""

from __future__ import annotations

import asyncio
import re
from collections import defaultdict
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, nullcontext, suppress
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from sureenough.engines.base import ClosedEngine, End, Engine, ExtendOptions, Part, Prompt, TokenStream
from sureenough.engines.openai.errors import (
    LONGEST_WAIT,
    ConnectError,
    ServerBusy,
    ServerErrors,
    StreamError,
    TransportError,
    api_key,
    backoff,
    basic_auth,
    is_about_access,
    is_about_length,
    parse_url,
    proxy_for,
    without_secrets,
)
from sureenough.engines.openai.reply import LINE_CANDIDATES, ReasoningFields, ReplyParser
from sureenough.engines.openai.wire import InvalidReply, request
from sureenough.engines.watch.client import WatchedPath, Watcher
from sureenough.errors import CannotExtend, EngineError, EngineRejected, UsageError

if TYPE_CHECKING:
    import aiohttp
    from yarl import URL

    from sureenough.engines.openai.http import Transport


COUNTERS: Final = {
    "vllm:generation_tokens_total": "vllm:num_requests_running",
    "sglang:generation_tokens_total": "sglang:num_running_reqs",
    "llamacpp:tokens_predicted_total": "llamacpp:requests_processing",
}
"""A server's metrics of tokens generated, and those of requests that run."""
_METRICS: Final = frozenset(COUNTERS.keys() | COUNTERS.values())
_LINE: Final = re.compile(
    r"^([a-z:_]+)(?:\{[^}\n]*\})? ([0-9]{1,30}(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?)$", re.MULTILINE
)


class ServerCounters(NamedTuple):
    generated: int
    running: int


# The open connections of an `OpenAI` engine: one streamed request per path; closing the stream cancels it.
#
# A request is sent again only before its path's first token; a stream that breaks later is a lost path.

CHECK_SECONDS: Final = 2.0
"""To wait for the response to a check."""
SETTLE_SECONDS: Final = 10.0
"""To wait for the end of everything that a server runs."""
LARGEST_ERROR: Final = 65_536
"""Bytes of an error response that are read."""
SHORT_WAIT: Final = 2.0
"""Seconds. The longest pause that a server may want if another one can be tried."""


class OpenAIConnection(Engine):
    def __init__(self, engine: OpenAI, transport: Transport, address: URL, errors: ServerErrors) -> None:
        self.engine, self.transport, self.address, self.errors = engine, transport, address, errors
        self.window, self.max_path_tokens = engine.window, engine.max_path_tokens
        self.longest_wait = LONGEST_WAIT
        self.says_stop_texts = False  # the server says at which of them a reply ended
        self.reasoning_fields = ReasoningFields()
        self.counters_at_open: ServerCounters | None = None
        self.watcher: Watcher | None = None

    def with_engine(self, engine: OpenAI) -> OpenAIConnection:
        """The same connections for another model or other sampling."""
        other = OpenAIConnection(engine, self.transport, self.address, self.errors)
        other.watcher = self.watcher  # remembers whether what the server reports can be read
        return other

    def impatient(self) -> OpenAIConnection:
        if not self.engine.retries:
            return self
        other = self.with_engine(replace(self.engine, retries=1))  # one, for a connection that was closed meanwhile
        other.longest_wait = SHORT_WAIT
        return other

    def server_address(self) -> str:
        return self.errors.shown

    def model_name(self) -> str:
        return self.engine.model

    def sampling(self) -> dict[str, Any]:
        return self.engine.sampling()

    async def generated_tokens(self) -> int | None:
        """Tokens that the server generated since this was opened, by its own count, once nothing runs any more."""
        if self.counters_at_open is None or (counters := await self.settled_counters()) is None:
            return None
        return counters.generated - self.counters_at_open.generated

    async def settled_counters(self) -> ServerCounters | None:
        """The server's counters once nothing runs and they no longer change; None if that takes too long."""
        last = None
        with suppress(TimeoutError):
            async with asyncio.timeout(SETTLE_SECONDS):
                while (counters := await self.counters()) is not None and (counters.running or counters != last):
                    last = counters
                    await asyncio.sleep(0.25)
                return counters
        return None

    async def counters(self) -> ServerCounters | None:
        """The counters of the server; None if it has none that we know."""
        totals = defaultdict[str, float](float)  # over the models of the server
        for name, value in _LINE.findall((await self.fetch("/metrics") or b"").decode("utf-8", "replace")):
            if name in _METRICS:
                totals[name] += float(value)
        for generated, running in COUNTERS.items():
            if generated in totals and running in totals:
                return ServerCounters(int(totals[generated]), int(totals[running]))
        return None

    async def responds(self) -> bool:
        """Whether the server responds to a request for its models, which costs it nothing."""
        return await self.fetch("models", seconds=CHECK_SECONDS) is not None

    async def fetch(self, endpoint: str, body: bytes | None = None, *, seconds: float = 10.0) -> bytes | None:
        """The body of the response to a request beside those for paths; None if the server does not work."""
        method = "GET" if body is None else "POST"
        try:
            response = await self.transport.fetch(method, self.endpoint(endpoint), body, seconds=seconds)
        except TransportError:
            return None
        return response.body if response.status < 500 else None

    def stream(self, prompt: Prompt, *, seed: int) -> TokenStream:
        engine = self.engine
        body = request(prompt, seed, model=engine.model, chat=engine.chat, k=engine.k, sampling=engine.sampling())
        parser = partial(ReplyParser, engine.k, fields=self.reasoning_fields)
        return self.generate(prompt, body, engine.max_path_tokens, parser)

    async def extend(self, prompt: Prompt, beginning: str, options: ExtendOptions, *, seed: int) -> TokenStream:
        """Continue a beginning, which a chat server receives as the start of the last message.

        If the server's context has less room than `max_tokens`, its own limit applies; with none, the reply is empty
        and ends as one that was cut.
        """
        engine, sampling = self.engine, self.engine.sampling()
        sampling |= options.sampling(sampling)
        # Without confidence, candidates are needed only to find a stop text that the server does not say; 0 might be
        # taken for no log-probabilities.
        few = LINE_CANDIDATES if options.stop and not self.says_stop_texts else 1
        k = engine.k if options.confidence else few
        to_body = partial(request, prompt, seed, model=engine.model, chat=engine.chat, k=k, beginning=beginning)
        prompt = replace(prompt, watch=None)
        parser = partial(ReplyParser, k, beginning=beginning, stops=options.stop, fields=self.reasoning_fields)
        unlimited = {name: value for name, value in sampling.items() if name != "max_tokens"}
        if not engine.chat:
            unlimited["max_tokens"] = None  # without it, many servers allow 16 tokens
        for parameters in (sampling, unlimited):
            generated = self.generate(prompt, to_body(sampling=parameters), options.max_tokens, parser)
            try:
                async with aclosing(generated) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except EngineRejected as error:
                refusal = error
                if not is_about_length(error):
                    break
        if not beginning or is_about_access(refusal):
            raise refusal
        if not is_about_length(refusal):
            raise CannotExtend(
                f"the server does not continue a beginning (continue_final_message): {refusal}", status=refusal.status
            )
        yield End("length")

    async def generate(
        self, prompt: Prompt, body: bytes, limit: int | None, new_parser: Callable[..., ReplyParser]
    ) -> AsyncGenerator[Part, None]:
        """The chunks of one reply; the request is sent again while its first token has not arrived."""
        engine, attempt = self.engine, 0
        while True:
            watch = None if self.watcher is None else self.watcher.path(prompt, engine.k, engine.sampling())
            parser = new_parser(signals=prompt.signals, limit=limit, mask=self.errors.mask())
            try:
                async with aclosing(self.read(body, parser, watch)) as chunks:
                    async for chunk in chunks:
                        yield chunk
                return
            except (GeneratorExit, asyncio.CancelledError):
                if watch is not None and parser.finish is None:
                    await watch.cancelled()
                raise
            except InvalidReply as error:
                raise self.errors.invalid_reply(error) from None
            except ServerBusy as busy:
                if attempt >= 2 * engine.retries or (busy.retry_after or 0.0) > self.longest_wait:
                    raise
                wait = backoff(attempt, busy.retry_after)
            except TransportError as error:
                if parser.begun:
                    raise self.errors.broken_off(error) from None
                # Where nothing has ever responded, many paths would each try again for seconds.
                dead = isinstance(error, ConnectError) and not self.transport.reached
                if attempt >= engine.retries or dead:
                    raise self.errors.unreachable(error) from None
                # A kept-alive connection that the server closed meanwhile is not a failure: no pause.
                stale = attempt == 0 and not isinstance(error, ConnectError)
                wait = 0.0 if stale else backoff(attempt, None)
            attempt += 1
            await asyncio.sleep(wait)

    async def read(
        self, body: bytes, parser: ReplyParser, watch: WatchedPath | None = None
    ) -> AsyncGenerator[Part, None]:
        from sureenough.engines.openai.http import READ_PIECE

        limits, loop = self.engine.timeouts, asyncio.get_running_loop()
        url = self.endpoint("chat/completions" if self.engine.chat else "completions")
        headers = None if watch is None else watch.headers
        try:
            async with (
                asyncio.timeout(limits.first_token) as timer,
                self.transport.request("POST", url, body, headers) as response,
            ):
                await self._check(response)
                reading: AbstractAsyncContextManager[Any] = nullcontext(response.content)
                if watch is not None and watch.accepted(response.headers):
                    parser.leave_to(watch)
                    reading = watch.reading(response.content)
                async with reading as reader:
                    while (raw := await reader.read(READ_PIECE)) != b"":
                        raw = raw or b""  # None: a watched path has grown
                        await self.transport.turns.take(len(raw))
                        chunk = parser.feed(raw)
                        if chunk is not None:
                            timer.reschedule(None)  # whoever reads the path may take their time
                            yield chunk
                            timer.reschedule(loop.time() + limits.stall)
                        parser.raise_error()  # what came before it has been passed on
                        if parser.full or parser.done:
                            break
                if parser.done:
                    await self.transport.finish(response)
            parser.end_of_stream()
        except (TimeoutError, TransportError) as error:
            if parser.finish is None and isinstance(error, TimeoutError):
                raise self.errors.stalled(limits.stall if parser.begun else limits.first_token, parser.begun) from None
            if parser.finish is None:  # else the path is whole, and only its connection was lost
                raise
        except StreamError as error:
            if parser.begun or error.status is None or error.status < 400:
                raise self.errors.broken_off(error) from None
            raise self._refusal(error.status, str(error).encode(), {}) from None
        if parser.finish is None and not parser.done:
            raise self.errors.broken_off(None) if parser.begun else TransportError("the response was empty")
        self.says_stop_texts |= parser.stop_text is not None
        yield parser.last()

    def endpoint(self, name: str) -> URL:
        """The URL of an endpoint such as `models`, or of one outside of /v1, such as `/metrics`."""
        base = self.address.path.rstrip("/")
        path = base.removesuffix("/v1") + name if name.startswith("/") else f"{base}/{name}"
        return self.address.with_path(path, keep_query=True)

    async def _check(self, response: aiohttp.ClientResponse) -> None:
        if response.status != 200:
            body = await self.transport.read_body(response, LARGEST_ERROR)
            raise self._refusal(response.status, body, response.headers)
        content_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type != "text/event-stream":
            raise self.errors.wrong_protocol(content_type)

    def _refusal(self, status: int, body: bytes, headers: Mapping[str, str]) -> EngineError:
        return self.errors.refusal(status, body, headers, model=self.engine.model, k=self.engine.k)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Seconds to wait for a connection, for a path's first token, and between its tokens."""

    connect: float = 10.0
    first_token: float = 300.0
    stall: float = 60.0

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if not getattr(self, name) > 0:
                raise UsageError(f"{name} is {getattr(self, name)} seconds; it must be above 0", argument=name)


def check_sampling(temperature: float, top_p: float) -> None:
    if not 0 <= temperature < inf:
        raise UsageError(
            f"temperature is {temperature}; it must be a finite number of at least 0", argument="temperature"
        )
    if not 0 < top_p <= 1:
        raise UsageError(f"top_p is {top_p}; it must be above 0 and at most 1", argument="top_p")


@dataclass(frozen=True, slots=True, repr=False)
class OpenAI(ClosedEngine):
    """A model behind an OpenAI-compatible server: vLLM, SGLang, llama.cpp, LM Studio, hosted APIs."""

    base_url: str  # up to and including /v1
    model: str
    _: KW_ONLY
    temperature: float = 0.6
    top_p: float = 0.95
    max_path_tokens: int | None = None
    chat: bool = True  # False: plain completions
    k: int = 20  # candidates per token
    window: int | None = None  # tokens per window that suit this model
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: int = 4  # before a path's first token; twice as many if the server is busy
    extra: Mapping[str, Any] = field(default_factory=dict)  # further fields of the request
    inside: bool = True  # let the server watch its own paths if it can
    metrics: bool = False  # read the server's counters, for tokens after cancels; for servers that no one else uses
    proxies: bool = True  # use the environment's proxies
    reuse: bool = True  # use a connection for one path after another
    api_key: str | None = None  # instead of the environment's

    def __post_init__(self) -> None:
        address = parse_url(self.base_url)
        if not address.host or address.scheme not in ("http", "https"):
            shown = without_secrets(address)
            raise UsageError(f"{shown} is not a URL of a server; it looks like http://localhost:8000/v1")
        if address.port == 0:
            raise UsageError(f"{without_secrets(address)} has port 0; ports go from 1 to 65535")
        if not self.model:
            raise UsageError("model is empty; give the name under which the server offers it", argument="model")
        check_sampling(self.temperature, self.top_p)
        for name, least in (("k", 1), ("retries", 0), ("max_path_tokens", 1)):
            value = getattr(self, name)
            if value is not None and not least <= value < inf:
                raise UsageError(f"{name} is {value}; it must be at least {least}", argument=name)

    def server_address(self) -> str:
        return str(without_secrets(parse_url(self.base_url)))

    def __repr__(self) -> str:
        return f"OpenAI({self.server_address()!r}, {self.model!r})"

    @asynccontextmanager
    async def open(self, *, parallel: int) -> AsyncIterator[OpenAIConnection]:
        from sureenough.engines.openai.http import Transport  # aiohttp takes a fifth of a second to import

        key, address = api_key(self.api_key), parse_url(self.base_url)
        proxy = proxy_for(address) if self.proxies else None
        headers = {"Accept": "text/event-stream", "Content-Type": "application/json"}
        authorization = basic_auth(address) if key is None else f"Bearer {key}"
        if authorization is not None:
            headers["Authorization"] = authorization
        # The user and password leave the URL here, so that they cannot reach a log.
        bare = address.with_user(None)
        errors = ServerErrors(address, key, proxy)
        async with Transport(bare, headers, parallel, self.timeouts.connect, proxy, reuse=self.reuse) as transport:
            connection = OpenAIConnection(self, transport, bare, errors)
            if self.inside:
                connection.watcher = Watcher(connection.fetch)
            if self.metrics:
                connection.counters_at_open = await connection.settled_counters()
            yield connection

    def model_name(self) -> str:
        return self.model

    def sampling(self) -> dict[str, Any]:
        limit = {} if self.max_path_tokens is None else {"max_tokens": self.max_path_tokens}
        return {"temperature": self.temperature, "top_p": self.top_p, **limit, **self.extra}
