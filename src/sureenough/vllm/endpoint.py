"""Consensus inside vLLM's own server: `VLLM_PLUGINS=sureenough vllm serve MODEL`, and `model="MODEL@ddc"`.

vLLM loads `Endpoints` in its API server. A request with a strategy is answered by the same server code as
`sureenough serve` uses, over vLLM's engine in this process. All others go to vLLM's own handler, byte by byte. What is
ours alone is under /v1/sureenough, which vLLM's own key protects: the page, runs, and the records of watched paths.
"""

from __future__ import annotations

import asyncio
import json
import logging
from contextlib import suppress
from copy import copy
from dataclasses import replace
from functools import partial
from typing import Any, Final

from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.routing import Mount, Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sureenough import __version__
from sureenough.answers import resolve_kind
from sureenough.core.options import LIVE_DEFAULTS
from sureenough.engines.base import Engine
from sureenough.engines.watch.protocol import (
    ALIVE_SECONDS,
    KEY_PATTERN,
    LONGEST_WINDOW,
    MAX_KEYS,
    PROGRESS_SECONDS,
    PROTOCOL_VERSION,
    WATCH_HEADER,
    WATCHED_HEADER,
    K,
    WatchRequest,
    is_watchable,
    parse_watch_arguments,
)
from sureenough.errors import UsageError
from sureenough.server.app import RequestMiddleware
from sureenough.server.consensus import Backend, ServerState
from sureenough.server.requests import LISTED_STRATEGIES, asks_for_consensus, parse_body
from sureenough.server.responses import ApiError, unknown_model
from sureenough.server.routes import Routes
from sureenough.server.settings import ServerLimits, ServerSettings
from sureenough.templates import template_of
from sureenough.vllm import check_version
from sureenough.vllm.engine import ServedEngine, ServedModel
from sureenough.vllm.reader import RecordsReader

log: Final = logging.getLogger("vllm.sureenough")
PREFIX: Final = "/v1/sureenough"
ANSWERED: Final = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
"""Endpoints of vLLM at which a model's name may have a strategy."""
PARALLEL: Final = 64
"""Paths of a request at once, if it does not say."""


class ServedBackend(Backend):
    """The models of this server: those that vLLM was started with, and its LoRA adapters."""

    def __init__(self, served: ServedModel, window: int | None = None, template: str = "") -> None:
        self.served, self.template, self._window = served, template, window

    def engine(self, model: str, sampling: dict[str, Any]) -> Engine:
        extra = {name: value for name, value in sampling.items() if name in ("temperature", "top_p")}
        return ServedEngine(
            self.served, model, extra | sampling["extra"], max_path_tokens=sampling["max_path_tokens"],
            chat=sampling["chat"], window=self._window,
        )  # fmt: skip

    async def models(self) -> list[str]:
        return [card.id for card in (await self.served.names.show_available_models()).data]

    async def ready(self) -> bool:
        return not self.served.client.errored

    async def check_model(self, model: str) -> None:
        await super().check_model(model)
        known = await self.models()
        if model not in known:
            raise unknown_model(model, f"; this server offers {', '.join(known)}")


class Endpoints:
    """vLLM's interface of endpoint plug-ins: an object that adds routes, and then gets the engine."""

    name = "sureenough"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        check_version()
        self._server: ASGIApp | None = None
        self.records: RecordsReader | None = None
        self.watches = False

    def attach_router(self, app: Any) -> None:
        """Replace the routes at which names may have strategies, each by one that may call it, and add ours."""
        for route in list(app.router.routes):
            path, methods = getattr(route, "path", ""), getattr(route, "methods", None) or ()
            if path in ANSWERED and "POST" in methods:
                app.router.routes.append(_instead(route, partial(self._complete, path, route.app)))
            elif path == "/v1/models" and "GET" in methods:
                app.router.routes.append(_instead(route, self._list_models))
        app.router.routes.append(Mount(PREFIX, app=self._ours))

    async def init_state(self, engine_client: Any, state: Any, args: Any) -> None:
        """Open the server of consensus requests; if that fails, vLLM serves without it."""
        try:
            served = ServedModel(engine_client, state)
            settings = settings_of(served, args)
            opened = ServerState(settings, ServedBackend(served, template=template_of(resolve_kind(settings.kind))))
            await opened.opened().__aenter__()  # as long as the process runs
            routes = [Route(row.path, row.handler, methods=[row.method]) for row in Routes(opened, PREFIX).endpoints]
            self._server = RequestMiddleware(Router(routes=routes), opened, routes)
            self.records = served.records
            self.watches = served.not_watched is None
            log.info("sureenough answers %s@STRATEGY; its page is %s/", (await opened.backend.models())[0], PREFIX)
            if served.not_watched is not None:
                log.warning("sureenough reads log-probabilities instead of watching paths: %s", served.not_watched)
        except Exception:
            log.exception("sureenough is not active")

    async def consensus(self, path: str, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for this path as `sureenough serve` does."""
        if self._server is None:
            error = ApiError(503, "sureenough could not be started; see the server's log.")
            await error.response()(scope, receive, send)
        else:
            await self._server({**scope, "path": path, "root_path": ""}, receive, send)

    async def _complete(self, path: str, original: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Give a request with a strategy to the consensus server, a watched one to the monitor, and others to vLLM."""
        try:
            body = await read_body(receive)
        except ClientDisconnect:
            return
        watch = watch_request(scope) if self.watches else None
        if watch is not None and (rewritten := with_arguments(body, watch)) is not None:
            assert self.records is not None
            await WatchedReply(watch, self.records, send).stream(original, scope, replay(rewritten, receive))
        elif _asks_for_consensus(body):
            await self.consensus(path, scope, replay(body, receive), send)
        else:
            await original(scope, replay(body, receive), send)

    async def _list_models(self, scope: Scope, receive: Receive, send: Send) -> None:
        listed = await scope["app"].state.openai_serving_models.show_available_models()
        listed.data = [
            card.model_copy(update={"id": name})
            for card in listed.data
            for name in (card.id, *(f"{card.id}@{strategy}" for strategy in LISTED_STRATEGIES))
        ]
        await JSONResponse(listed.model_dump())(scope, receive, send)

    async def _ours(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is under the prefix: records for clients that watch paths, and all that `sureenough serve` has."""
        path = scope["path"].removeprefix(scope.get("root_path", "")).removeprefix(PREFIX) or "/"
        if path == "/monitor" or path.startswith("/paths"):
            response = await self._records(scope["method"], path, receive)
            await response(scope, receive, send)
        else:
            await self.consensus(path, scope, receive, send)

    async def _records(self, method: str, path: str, receive: Receive) -> JSONResponse:
        if self.records is None:
            return JSONResponse({"error": "sureenough could not be started; see the server's log"}, 503)
        match method, *path.strip("/").split("/"):
            case ["GET", "monitor"]:
                window = LONGEST_WINDOW if self.watches else 0
                return JSONResponse({"sureenough": __version__, "protocol": PROTOCOL_VERSION, "k": K, "window": window})
            case ["GET", "paths", key] if KEY_PATTERN.fullmatch(key) is not None:
                record = await self.records.record(key, None)
                return JSONResponse(record, 404 if "lost" in record else 200)
            case ["POST", "paths"]:
                keys = _json_object(await read_body(receive)).get("keys")
                if not isinstance(keys, list) or len(keys) > MAX_KEYS or not all(isinstance(key, str) for key in keys):
                    error = f'the body must be {{"keys": [...]}} with at most {MAX_KEYS} keys'
                    return JSONResponse({"error": error}, 400)
                paths = [one or (None, None) for one in await self.records.fetch_known(keys)]
                return JSONResponse({"tokens": [path[0] for path in paths], "tails": [path[1] for path in paths]})
        return JSONResponse({"error": f"not found; records are at {PREFIX}/paths/KEY"}, 404)


def settings_of(served: ServedModel, args: Any) -> ServerSettings:
    """The settings of the consensus server. Hosts and keys are vLLM's own concern; sampling is the model's."""
    defaults, at_once = served.chat.default_sampling_params, served.client.vllm_config.scheduler_config.max_num_seqs
    processes = getattr(args, "api_server_count", None) or getattr(args, "data_parallel_size", None) or 1
    limits = ServerLimits(parallel=max(PARALLEL, at_once))
    base = ServerSettings()
    return replace(
        base, hosts=("*",), insecure=True, limits=limits,
        parallel=max(LIVE_DEFAULTS.parallel, min(PARALLEL, at_once)), replica="vllm" if processes > 1 else "",
        temperature=defaults.get("temperature", base.temperature), top_p=defaults.get("top_p", base.top_p),
    )  # fmt: skip


def _instead(route: Any, app: ASGIApp) -> Any:
    """The same route with another application: its place in vLLM's documentation stays."""
    other = copy(route)
    other.app = app
    return other


def _asks_for_consensus(body: bytes) -> bool:
    if b"@" not in body and b'"sureenough"' not in body:
        return False
    try:
        return asks_for_consensus(parse_body(body))
    except ApiError:  # vLLM says what is wrong
        return False


async def read_body(receive: Receive) -> bytes:
    body, more = bytearray(), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def replay(body: bytes, receive: Receive) -> Receive:
    """Receive a body that has been read, and then what follows."""
    messages: list[Message] = [{"type": "http.request", "body": body}]

    async def replayed() -> Message:
        return messages.pop() if messages else await receive()

    return replayed


def _json_object(text: bytes) -> dict[str, Any]:
    """A JSON object; an empty one if it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


# A path for a remote client: vLLM makes its reply whole, the client gets it as a stream of very few events.
#
# A path that is watched here needs nothing on the wire before its end. So vLLM is asked for the whole reply, which
# spares it an event per token; the stream that the client asked for ends with one event that holds the text and the
# path's record. Before, it says that the path goes on; clients ask for the counts of all their paths at once.

WATCHED: Final = (WATCHED_HEADER.encode(), str(PROTOCOL_VERSION).encode())
HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), WATCHED]


def watch_request(scope: Scope) -> WatchRequest | None:
    """How the path of this request is to be watched, if its header says so."""
    message = _json_object(dict(scope["headers"]).get(WATCH_HEADER.encode(), b""))
    arguments = message.get("arguments")
    if not isinstance(arguments, dict) or message.get("protocol") != PROTOCOL_VERSION:
        return None
    with suppress(UsageError):
        request = parse_watch_arguments(arguments)
        if request is not None:
            return replace(request, record=message.get("record") is not False)
    return None


def with_arguments(body: bytes, watch: WatchRequest) -> bytes | None:
    """The body that vLLM gets, with how to watch its path, without log-probabilities, and for a whole reply.

    None if the request is not for a stream, or cannot be watched.
    """
    request, arguments = _json_object(body), watch.to_arguments()
    theirs = request.get("vllm_xargs") or {}
    if not request.get("stream") or not isinstance(theirs, dict) or not is_watchable(request, arguments):
        return None
    for name in ("logprobs", "top_logprobs", "stream", "stream_options"):
        request.pop(name, None)
    return json.dumps({**request, "vllm_xargs": theirs | arguments}).encode()


class WatchedReply:
    """The reply to one watched request."""

    def __init__(self, request: WatchRequest, records: RecordsReader, send: Send) -> None:
        self._request, self._records, self._send = request, records, send
        self._start: Message = {"type": "http.response.start", "status": 500, "headers": []}  # of vLLM's whole reply
        self._body = bytearray()
        self._started = False

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """Let vLLM handle the request; it notices by itself if the client leaves."""
        handling = asyncio.ensure_future(app(scope, receive, self._keep))
        try:
            # The first event tells the client that the path is watched.
            while not (await asyncio.wait({handling}, timeout=ALIVE_SECONDS if self._started else PROGRESS_SECONDS))[0]:
                await self._send_event({"sureenough": {"alive": True}})
        finally:
            handling.cancel()
        await handling
        if self._start["status"] != 200 and not self._started:
            await self._send(self._start)
            await self._send({"type": "http.response.body", "body": bytes(self._body)})
            return
        await self._send_event(await self._last_event())
        await self._send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    async def _keep(self, message: Message) -> None:
        """Keep what vLLM's application sends."""
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._body += message.get("body", b"")

    async def _last_event(self) -> dict[str, Any]:
        status = self._start["status"]
        try:
            whole = json.loads(self._body)
            if status != 200:
                error = whole.get("error", whole)
                message = error.get("message", error) if isinstance(error, dict) else error
                return {"error": {"message": str(message), "code": status}}
            event = as_event(whole)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return {"error": {"message": "vLLM's reply was not a completion", "code": 500}}
        if not self._request.record:
            return event
        tokens = (event.get("usage") or {}).get("completion_tokens")
        return {**event, "sureenough": {"record": await self._records.record(self._request.key, tokens)}}

    async def _send_event(self, event: dict[str, Any]) -> None:
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        body = b"data: " + json.dumps(event).encode() + b"\n\n"
        await self._send({"type": "http.response.body", "body": body, "more_body": True})


def as_event(reply: dict[str, Any]) -> dict[str, Any]:
    """A whole completion in the form of a stream's event."""
    choice = reply["choices"][0]
    event: dict[str, Any] = {"index": 0, "finish_reason": choice["finish_reason"]}
    if "message" in choice:
        delta = {name: value for name, value in choice["message"].items() if value is not None}
        calls = delta.get("tool_calls")
        if calls:
            delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
        event["delta"] = delta
    else:
        event["text"] = choice["text"]
    return {**reply, "choices": [event]}
