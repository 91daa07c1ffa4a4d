"""The upstream: an OpenAI-compatible server, a model on this machine, or an engine of another package.

Connections are opened once and shared by all requests; a request chooses the model and the sampling, nothing else.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from sureenough import reasoner
from sureenough.answers import resolve_kind
from sureenough.engines.base import Engine, SharedEngine, opened
from sureenough.engines.load_balancer import LoadBalancer, ServerLoad, checked, choose
from sureenough.engines.local.engine import Local
from sureenough.engines.openai.client import OpenAI, OpenAIConnection, Timeouts
from sureenough.engines.openai.errors import ConnectError, TransportError
from sureenough.errors import EngineError, EngineRejected, EngineUnavailable
from sureenough.server.requests import SAMPLING_FIELDS, check_strategy, split_model_name
from sureenough.server.responses import ApiError, bad_request, unknown_model, upstream_unavailable
from sureenough.server.settings import ServerSettings
from sureenough.templates import template_of

if TYPE_CHECKING:
    import aiohttp

    from sureenough.engines.openai.http import FetchedResponse

MODELS_SECONDS: Final = 30.0  # seconds for which a list of models is reused
READY_SECONDS: Final = 2.0  # seconds for which the result of a readiness probe is reused
LOCAL_PATHS: Final = 32  # paths at once of a model on this machine, over all requests; further ones wait
_NO_SAMPLING: Final = frozenset(
    "response_format user metadata store service_tier safety_identifier prompt_cache_key".split()
)
OWN_FIELDS: Final = (SAMPLING_FIELDS - _NO_SAMPLING) | {"temperature", "top_p", "max_tokens", "max_completion_tokens"}
"""Fields of a request that say how tokens are sampled."""


class UpstreamResponse(NamedTuple):
    """The beginning of a response, and the connections to the server that sends it."""

    connection: OpenAIConnection
    response: aiohttp.ClientResponse


class Upstream:
    """The upstream, with its connections open."""

    def __init__(
        self, connections: Sequence[OpenAIConnection], unshared: Sequence[OpenAIConnection],
        loads: Sequence[ServerLoad], settings: ServerSettings, template: str, local: bool
    ) -> None:  # fmt: skip
        self._connections, self._unshared, self._loads = connections, unshared, loads
        self.settings, self.template, self.local = settings, template, local
        self._models: list[str] = []
        self._listed_at = -MODELS_SECONDS
        self._listing = asyncio.Lock()
        self._probe: asyncio.Task[bool] | None = None
        self._probed: tuple[float, bool] | None = None  # when, and whether it was ready

    def server_loads(self) -> Sequence[ServerLoad]:
        """What each of several servers does."""
        return self._loads if len(self._loads) > 1 else ()

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        """The engine for one request."""
        base = self._connections[0].engine
        changes = {"model": model, **sampling, "extra": {**base.extra, **sampling["extra"]}}
        engines = [one.with_engine(replace(one.engine, **changes)) for one in self._connections]
        return engines[0] if len(engines) == 1 else LoadBalancer(engines, self._loads)

    @property
    def offered(self) -> tuple[str, ...]:
        """The models that are offered, if that is known without a request to the upstream."""
        return self.settings.models or ((self._connections[0].engine.model,) if self.local else ())

    def notes(self, model: str, question: str) -> tuple[str, ...]:
        """What a reader of the answer should know before there is one.

        The built-in model may be that of another `serve`; the template is not the model's own then, and its words would
        be called unknown.
        """
        if model != reasoner.NAME:
            return ()
        return reasoner.notes(question) if self.local else (reasoner.LIMITS,)

    @asynccontextmanager
    async def exchange(self, endpoint: str, content: bytes) -> AsyncIterator[UpstreamResponse]:
        """Send a request to an endpoint such as `chat/completions`, of another server if one cannot be reached.

        A request that a server has received is not sent again: it may have been generated, and would be paid for twice.
        So each has a connection of its own, since a kept one may be closed by the server just before the request.

        Raises:
            TransportError: no server can be reached, or none responds, or the response broke off.
        """
        tried = set[int]()
        while True:
            index = choose(self._loads, tried=tried)
            one, load, failed = self._unshared[index], self._loads[index], False
            request = one.transport.request("POST", one.endpoint(endpoint), content, {"Accept": "*/*"})
            load.begin()
            try:
                async with request as response:
                    if response.status >= 500:
                        failed = True
                        load.add_failure(gone=False)
                    yield UpstreamResponse(one, response)
                return
            except TransportError as error:
                failed, unsent = True, isinstance(error, ConnectError)
                load.add_failure(gone=unsent)
                tried.add(index)
                if not unsent or len(tried) == len(self._unshared):
                    raise
            finally:
                load.end(failed=failed)

    def redact(self, text: str) -> str:
        """Text of the upstream without its key and its address; one address may be the beginning of another."""
        for one in sorted(self._connections, key=lambda one: len(one.shown), reverse=True):
            text = one.errors.without_addresses(text)
        return text

    async def models(self) -> list[str]:
        """The models that are offered: those of the settings, else those that the upstream lists."""
        if self.offered:
            return list(self.offered)
        async with self._listing:
            if time.monotonic() - self._listed_at > MODELS_SECONDS:
                (_, self._models), self._listed_at = await self._list(), time.monotonic()
        return self._models

    async def _list(self) -> tuple[str, list[str]]:
        """The address of the first server that responds, and its models."""
        server, response = await self._fetch_models()
        if response.status != 200:
            fix = "; check the key" if response.status in (401, 403) else "; check the URL, which usually ends in /v1"
            raise EngineUnavailable(f"{server} returned status {response.status} for its list of models{fix}")
        try:
            return server, [str(model["id"]) for model in msgspec.json.decode(response.body)["data"]]
        except (msgspec.DecodeError, KeyError, TypeError, RecursionError):
            raise EngineRejected(f"{server}'s list of models cannot be read") from None

    async def _fetch_models(self) -> tuple[str, FetchedResponse]:
        tried = set[int]()
        while True:
            index = choose(self._loads, tried=tried)
            one = self._connections[index]
            tried.add(index)
            is_last = len(tried) == len(self._connections)
            try:
                response = await one.transport.fetch("GET", one.endpoint("models"), seconds=10)
            except TransportError as error:
                if is_last:
                    raise one.errors.unreachable(error) from None
                continue
            if response.status < 500 or is_last:
                return one.shown, response

    async def problem(self) -> str | None:
        """What is wrong with the upstream, as far as its list of models tells; None if nothing is."""
        try:
            server, listed = await self._list()
        except EngineError as error:
            return str(error)
        missing = [] if self.local else [model for model in self.settings.models if model not in listed]
        return f"{server} does not list {', '.join(missing)}, only {', '.join(listed[:5])}" if missing else None

    async def check_model(self, model: str) -> None:
        """Refuse a model that is not offered, as far as that is known, and a model with an unknown strategy."""
        base, at, spec = model.rpartition("@")
        listed: Sequence[str] = self.offered
        if at and not listed:
            with suppress(EngineError):
                listed = await self.models()
        if at and base in listed and model not in listed:
            check_strategy(spec)
        if self.offered and model not in self.offered:
            raise unknown_model(model, f"; this server offers {', '.join(self.offered)}")

    async def ready(self) -> bool:
        """Whether the upstream responds, by a probe that is at most a few seconds old; one is in flight at a time."""
        if self._probed is None or time.monotonic() - self._probed[0] > READY_SECONDS:
            if self._probe is None or self._probe.done():
                self._probe = asyncio.create_task(self._send_probe())
            if self._probed is None or time.monotonic() - self._probed[0] > 3 * READY_SECONDS:
                return await asyncio.shield(self._probe)  # the last result is too old
        return self._probed[1]

    async def _send_probe(self) -> bool:
        ready = any(await asyncio.gather(*(one.responds() for one in self._connections)))
        self._probed = time.monotonic(), ready
        return ready


@asynccontextmanager
async def open_upstream(settings: ServerSettings) -> AsyncIterator[Upstream | EngineUpstream]:
    """The upstream of these settings, for as long as the server runs."""
    # The most paths of all requests, one connection for each request that is passed through, and a few for probes.
    at_once = settings.limits.requests * (max(settings.parallel, settings.limits.parallel) + 1) + 8
    judge = resolve_kind(settings.kind)
    if settings.engine is not None:
        template = settings.template or template_of(judge, settings.engine.template)
        async with opened(settings.engine, at_once) as ready:
            shared, longest = SharedEngine(ready), settings.limits.path_tokens
            shared.max_path_tokens = min(longest, ready.max_path_tokens or longest)
            yield EngineUpstream(shared, settings.models[0], template)
        return
    times = Timeouts(first_token=settings.first_token, stall=settings.stall)
    if settings.upstream is not None:
        engines = [
            OpenAI(url, settings.models[0] if settings.models else "any", window=settings.window, timeouts=times,
                   retries=settings.retries, key=settings.upstream_key)
            for url in (settings.upstream, *settings.more_upstreams)
        ]  # fmt: skip
        async with AsyncExitStack() as stack:
            connections = [await stack.enter_async_context(engine.open(parallel=at_once)) for engine in engines]
            plain = [replace(engine, reuse=False).open(parallel=settings.limits.requests) for engine in engines]
            unshared = [await stack.enter_async_context(opening) for opening in plain]
            loads = [ServerLoad(connection.shown) for connection in connections]
            await stack.enter_async_context(checked(loads, connections))
            own = settings.template or template_of(judge)
            yield Upstream(connections, unshared, loads, settings, own, local=False)
        return
    model = Local(
        settings.models[0] if settings.models else None, slots=LOCAL_PATHS, window=settings.window, timeouts=times
    )
    if model.builtin:
        await asyncio.to_thread(reasoner.hint, "")  # its vocabulary, which takes a moment
    async with model.open(parallel=LOCAL_PATHS) as local:
        connection = local.connection
        connected = connection.with_engine(replace(connection.engine, metrics=False, retries=settings.retries))
        own = settings.template or template_of(judge, model.template)
        yield Upstream([connected], [connected], [ServerLoad(connected.shown)], settings, own, local=True)


def unreachable(error: TransportError) -> ApiError:
    """The response if the upstream cannot be reached."""
    return upstream_unavailable(f"The upstream cannot be reached ({type(error).__name__}).")


class EngineUpstream:
    """The engine, open for as long as the server runs."""

    def __init__(self, engine: Engine, name: str, template: str) -> None:
        self._engine, self.name, self.template = engine, name, template

    @property
    def offered(self) -> tuple[str, ...]:
        return (self.name,)

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        """The engine for one request."""
        return self._engine

    def notes(self, model: str, question: str) -> tuple[str, ...]:
        """Nothing is known of the engine's model."""
        return ()

    def redact(self, text: str) -> str:
        """An engine in this process has no address or key that we know of."""
        return text

    def server_loads(self) -> Sequence[ServerLoad]:
        """An engine has no servers that we know of."""
        return ()

    async def models(self) -> list[str]:
        return [self.name]

    async def problem(self) -> str | None:
        return None

    async def ready(self) -> bool:
        return True

    async def check_model(self, model: str) -> None:
        """Refuse a model that is not the engine, and an unknown strategy."""
        base, at, spec = model.rpartition("@")
        if at and base == self.name:
            check_strategy(spec)
        if model != self.name:
            raise unknown_model(model, f"; this server offers {self.name}")

    def check_request(self, body: dict[str, Any], strategy: str) -> None:
        """Refuse what only a server could do: a reply without a vote, and sampling by the request."""
        if split_model_name(body["model"]).strategy is None and body.get("sureenough") is None:
            raise bad_request(
                f"{self.name} is an engine without a server of its own: choose a strategy, as in "
                f"{self.name}@{strategy}.",
                "model",
            )
        given = next((name for name in sorted(OWN_FIELDS & body.keys()) if body[name] is not None), None)
        if given is not None:
            raise bad_request(
                f"{given} cannot be set: the engine {self.name} decides how its tokens are sampled.",
                given,
                "unsupported_parameter",
            )
