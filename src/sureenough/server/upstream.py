"""The upstream: an OpenAI-compatible server, a model on this machine, or an engine of another package.

Connections are opened once and shared by all requests; a request chooses the model and the sampling, nothing else.

A request with a plain model name is sent to the upstream unchanged, and so is the response to it. Only the key differs:
the client's key ends here, and the upstream's secrets are masked should a response quote them.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

import msgspec
from starlette.types import Message, Receive, Scope, Send

from sureenough import reasoner
from sureenough.answers import resolve_kind
from sureenough.engines.base import Engine, SharedEngine
from sureenough.engines.load_balancer import Fate, LoadBalancer, ServerLoad, checked, choose
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import LARGEST_ERROR, OpenAI, OpenAIConnection, Timeouts
from sureenough.engines.openai.errors import ConnectError, TransportError
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable
from sureenough.server.consensus import Backend
from sureenough.server.responses import (
    JSON,
    ApiError,
    bad_request,
    body,
    start,
    until_disconnected,
    upstream_key_rejected,
    upstream_unavailable,
)
from sureenough.server.settings import ServerSettings
from sureenough.templates import template_of

if TYPE_CHECKING:
    import aiohttp


MODELS_SECONDS: Final = 30.0  # seconds for which a list of models is reused
READY_SECONDS: Final = 2.0  # seconds for which it is known whether the upstream responds
LOCAL_PATHS: Final = 32  # paths at once of a model on this machine, over all requests; further ones wait
FORWARDED: Final = ("content-type", "cache-control", "x-request-id", "retry-after", "openai-processing-ms")
"""Headers of the upstream's response that the client receives."""
CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]+")


T = TypeVar("T")


class Recent(Generic[T]):
    """A result that is requested again when it is some seconds old; one request is in flight at a time."""

    def __init__(self, seconds: float, request: Callable[[], Awaitable[T]]) -> None:
        self._seconds, self._request = seconds, request
        self._requesting = asyncio.Lock()
        self._result: tuple[T, float] | None = None  # and when it came

    async def get(self) -> T:
        async with self._requesting:
            if self._result is None or time.monotonic() - self._result[1] > self._seconds:
                self._result = await self._request(), time.monotonic()
            return self._result[0]


class UpstreamServer(NamedTuple):
    paths: OpenAIConnection
    single: OpenAIConnection  # of single requests, each on a connection of its own
    load: ServerLoad


class Upstream(Backend):
    """The upstream: one or more servers with the same models, or an engine; without both, nothing can be sampled."""

    def __init__(
        self, settings: ServerSettings, template: str = "", offered: Sequence[str] = (),
        servers: Sequence[UpstreamServer] = (), engine: Engine | None = None,
    ) -> None:  # fmt: skip
        self.settings, self.template = settings, template
        self.offered = offered  # the models, if they are known without a request to the upstream
        self._servers, self._engine = servers, engine
        self.loads = [server.load for server in servers]
        self._listed = Recent(MODELS_SECONDS, self._list)
        self._responds = Recent(READY_SECONDS, self._probe)

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        if self._engine is not None:
            return self._engine
        base = self._servers[0].paths.engine
        changes = {**sampling, "model": model, "extra": {**base.extra, **sampling["extra"]}}
        engines = [one.with_engine(replace(one.engine, **changes)) for one, *_ in self._servers]
        return engines[0] if len(engines) == 1 else LoadBalancer(engines, self.loads)

    def notes(self, model: str, question: str) -> tuple[str, ...]:
        """What a reader of the answer should know before there is one.

        The built-in model may be that of another `serve`; the template is not the model's own then, and its words would
        be called unknown.
        """
        if model != reasoner.NAME:
            return ()
        return reasoner.notes(question) if self.settings.local else (reasoner.LIMITS,)

    def _by_load(self) -> Iterator[UpstreamServer]:
        """Every server once, beginning with the one that should get the next request."""
        tried = set[int]()
        while len(tried) < len(self._servers):
            index = choose(self.loads, tried=tried)
            tried.add(index)
            yield self._servers[index]

    @asynccontextmanager
    async def exchange(
        self, endpoint: str, content: bytes
    ) -> AsyncIterator[tuple[OpenAIConnection, aiohttp.ClientResponse]]:
        """Send a request to an endpoint such as `chat/completions`, of another server if one refuses it or is gone.

        One that a server may have begun is not sent again: it would be paid for twice. So each has a connection of its
        own, since a kept one may be closed by the server just before the request.

        Raises:
            TransportError: no server can be reached, or none responds, or the response broke off.
        """
        unreachable, refused = TransportError(), list[ServerLoad]()
        for _, one, load in self._by_load():
            request = one.transport.request("POST", one.endpoint(endpoint), content, {"Accept": "*/*"})
            fate: Fate = "finished"
            load.begin()
            try:
                async with request as response:
                    if 300 <= response.status < 500 and any(
                        other.available for other in self.loads if other not in (load, *refused)
                    ):
                        fate = "refused"
                        refused.append(load)
                        continue
                    fate = "failed" if response.status >= 500 else fate
                    for other in refused if response.status < 300 else ():
                        other.skip()
                    yield one, response
                return
            except ConnectError as error:
                unreachable, fate = error, "gone"
            except TransportError:
                fate = "failed"
                raise
            finally:
                load.end(fate)
        raise unreachable

    def passthrough(self, endpoint: str, content: bytes, slot: ExitStack) -> PassthroughResponse:
        if self._engine is not None:
            name = self.settings.models[0]
            message = f"{name} is an engine without a server of its own: choose a strategy, as in "
            raise bad_request(f"{message}{name}@{self.settings.strategy}.", "model")
        return PassthroughResponse(self, endpoint, content, slot)

    def redact(self, text: str) -> str:
        """Text of the upstream without its key and its address; one address may be the beginning of another."""
        for server in sorted(self._servers, key=lambda server: len(server.paths.server_address()), reverse=True):
            text = server.paths.errors.without_addresses(text)
        return text

    async def models(self) -> list[str]:
        return list(self.offered) if self.offered or not self._servers else (await self._listed.get())[1]

    async def _list(self) -> tuple[str, list[str]]:
        """The first server that lists its models, and these; if none does, the problem of the first is raised."""
        problems: list[EngineError] = []
        for one, *_ in self._by_load():
            server = one.server_address()
            try:
                response = await one.transport.fetch("GET", one.endpoint("models"), seconds=10)
                if response.status == 200:
                    listed = msgspec.json.decode(response.body)["data"]
                    return server, [one.errors.clean(str(model["id"])) for model in listed]
                fix = "check the key" if response.status in (401, 403) else "check the URL, which usually ends in /v1"
                message = f"{server} returned status {response.status} for its list of models; {fix}"
                problems.append(EngineUnavailable(message))
            except TransportError as error:
                problems.append(one.errors.unreachable(error))
            except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
                problems.append(EngineRejected(f"{server}'s list of models cannot be read"))
        raise problems[0]

    async def problem(self) -> str | None:
        """What is wrong with the upstream, as far as its list of models tells; None if nothing is."""
        if self.settings.upstream is None:
            return None
        try:
            server, listed = await self._list()
        except EngineError as error:
            return str(error)
        missing = [model for model in self.settings.models if model not in listed]
        return f"{server} does not list {', '.join(missing)}, only {', '.join(listed[:5])}" if missing else None

    async def ready(self) -> bool:
        """Whether a server of the upstream responds, by a probe of the last few seconds."""
        return await self._responds.get()

    async def _probe(self) -> bool:
        return not self._servers or any(await asyncio.gather(*(one.responds() for one, *_ in self._servers)))


@asynccontextmanager
async def open_upstream(settings: ServerSettings) -> AsyncIterator[Upstream]:
    # The most paths of all requests, one connection for each request that is passed through, and a few for probes.
    at_once = settings.limits.requests * (max(settings.parallel, settings.limits.parallel) + 1) + 8
    judge = resolve_kind(settings.kind)
    times = Timeouts(first_token=settings.first_token, stall=settings.stall)
    async with AsyncExitStack() as stack:
        if settings.engine is not None:
            ready = await stack.enter_async_context(settings.engine.open(parallel=at_once))
            longest = settings.limits.path_tokens
            shared = SharedEngine(ready)
            shared.max_path_tokens = min(longest, ready.max_path_tokens or longest)
            template = settings.template or template_of(judge, settings.engine.template)
            yield Upstream(settings, template, settings.models, engine=shared)
        elif settings.upstream is not None:
            engines = [
                OpenAI(url, settings.models[0] if settings.models else "any", window=settings.window, timeouts=times,
                       retries=settings.retries, api_key=settings.upstream_key)
                for url in (settings.upstream, *settings.more_upstreams)
            ]  # fmt: skip
            connections = [await stack.enter_async_context(engine.open(parallel=at_once)) for engine in engines]
            single = [
                await stack.enter_async_context(replace(engine, reuse=False).open(parallel=settings.limits.requests))
                for engine in engines
            ]
            loads = [ServerLoad(connection.server_address()) for connection in connections]
            await stack.enter_async_context(checked(loads, connections))
            servers = list(map(UpstreamServer, connections, single, loads))
            yield Upstream(settings, settings.template or template_of(judge), settings.models, servers)
        else:
            file = settings.models[0] if settings.models else None
            model = Local(file, slots=LOCAL_PATHS, window=settings.window, timeouts=times)
            connection = (await stack.enter_async_context(model.open(parallel=LOCAL_PATHS))).connection
            one = connection.with_engine(replace(connection.engine, metrics=False, retries=settings.retries))
            template = settings.template or template_of(judge, model.template)
            server = UpstreamServer(one, one, ServerLoad(one.server_address()))
            yield Upstream(settings, template, settings.models or (one.engine.model,), [server])


class PassthroughResponse:
    """An ASGI application for one request, which holds a slot until its response is complete."""

    def __init__(self, upstream: Upstream, endpoint: str, content: bytes, slot: ExitStack) -> None:
        self.upstream, self.seconds = upstream, upstream.settings.limits.seconds
        self.endpoint, self.content, self.slot = endpoint, content, slot

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the request on and the response back; the upstream's stream is closed if the client disconnects."""
        with self.slot:
            await until_disconnected(receive, self._forward(send))

    async def _forward(self, send: Send) -> None:
        exchange = self.upstream.exchange(self.endpoint, self.content)
        try:
            async with asyncio.timeout(self.seconds), exchange as (connection, response):
                if 300 <= response.status < 400:  # its body, too, may say where to
                    raise ApiError(502, "The upstream redirects to another address.", code="upstream_error")
                if response.status >= 400:
                    await self._send_error(connection, response, send)
                    return
                await send(self._start(response))
                mask = connection.errors.mask(of_bytes=True)
                while part := await response.content.readany():
                    await send(body(mask.feed(part.decode("latin-1")).encode("latin-1"), more=True))
                self.slot.close()  # first: a client that has its response must find a slot for the next request
                await send(body(mask.held.encode("latin-1")))
        except TimeoutError:
            raise ApiError(504, f"The upstream took more than {self.seconds:g} s.", code="timeout") from None
        except TransportError as error:
            raise upstream_unavailable(f"The upstream cannot be reached ({type(error).__name__}).") from None

    async def _send_error(self, connection: OpenAIConnection, response: aiohttp.ClientResponse, send: Send) -> None:
        """The upstream's error without its secrets; one about its key is for the operator to fix."""
        status = response.status
        if status in (401, 403):
            raise upstream_key_rejected()
        content = await connection.transport.read_body(response, LARGEST_ERROR)
        text = self.upstream.redact(content.decode("utf-8", "replace"))
        if JSON not in response.headers.get("content-type", ""):
            code = status if status < 500 or status == 503 else 502
            raise ApiError(code, f"The upstream returned status {status}: {text[:500]}", code="upstream_error")
        await send(self._start(response))
        await send(body(text.encode()))

    def _start(self, response: aiohttp.ClientResponse) -> Message:
        """The head, with a status that can be sent: nothing above 599, and no interim response."""
        status = response.status if 200 <= response.status < 600 else 502
        return start(status, forwarded(response.headers, self.upstream.redact))


def forwarded(headers: Mapping[str, str], redact: Callable[[str], str]) -> list[tuple[bytes, bytes]]:
    """The forwarded headers; a line break or another control character in a value would break our own head."""
    values = ((name, CONTROL.sub(" ", redact(headers.get(name, ""))).strip()) for name in FORWARDED)
    return [(name.encode(), value.encode("latin-1", "replace")) for name, value in values if value]
