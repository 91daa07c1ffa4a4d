"""A middleware of vLLM's own server: marks requests to be watched if their header says so, and serves records.

    vllm serve MODEL --logits-processors sureenough.vllm.processor:WatchProcessor \
        --middleware sureenough.vllm.middleware.RecordsMiddleware

Records are at GET .../sureenough/paths/KEY, token counts of several paths at POST .../sureenough/paths, and
GET .../sureenough says what the monitor can do.
"""

from __future__ import annotations

import asyncio
import json
import os
from contextlib import suppress
from copy import deepcopy
from dataclasses import replace
from importlib import import_module
from typing import Any, Final

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from sureenough import __version__
from sureenough.engines.watch.protocol import (
    KEY_PATTERN,
    MAX_KEYS,
    POLLED_SECONDS,
    PROTOCOL_VERSION,
    SOCKET_ENV,
    WATCH_HEADER,
    WATCHED_HEADER,
    K,
    WatchRequest,
    is_watchable,
    longest_window,
    parse_watch_arguments,
)
from sureenough.errors import UsageError
from sureenough.vllm.records import MonitorReader, engine_sockets

FEWEST: Final = 16
"""Tokens that are worth a call of their own."""
INCOMPLETE: Final = "\N{REPLACEMENT CHARACTER}"


def decode_whole_texts() -> None:
    """Make vLLM's detokenizer decode many tokens at once, if this vLLM has the one that we know."""
    with suppress(ImportError, AttributeError):
        module: Any = import_module("vllm.v1.engine.detokenizer")
        original = module.FastIncrementalDetokenizer
        if not issubclass(original, WholeTexts):
            module.FastIncrementalDetokenizer = type(original.__name__, (WholeTexts, original), {})


class WholeTexts:
    """A mixin before vLLM's detokenizer, which calls `update` with the new tokens of a request."""

    def update(self: Any, new_token_ids: list[int], stop_terminated: bool) -> Any:
        """Decode many tokens at once, except one that stops the request, which vLLM may leave out of the text."""
        if len(new_token_ids) >= FEWEST and not self.stop and self.spaces_between_special_tokens:
            together = len(new_token_ids) - bool(stop_terminated)
            stream: Any = None
            text: str | None = None
            with suppress(Exception):  # tokenizers has no errors of its own types, and not all decoders can be copied
                stream = deepcopy(self.stream)  # the original stays as it is if this fails
                text = stream.step(self.tokenizer, new_token_ids[:together])
            if text is not None and INCOMPLETE not in text:
                self.stream = stream
                self.token_ids.extend(new_token_ids[:together])
                self.output_text += text
                new_token_ids = new_token_ids[together:]
        return super().update(new_token_ids, stop_terminated)  # type: ignore[misc]


# A watched path's reply: vLLM makes it whole, the client gets it as a stream of very few events.
#
# A path that is watched here needs nothing on the wire before its end. So vLLM is asked for the whole reply, which
# spares it an event per token; the stream that the client asked for ends with one event that holds the text and the
# path's record. Before, it says how many tokens there are: every 15 seconds to clients that ask for the counts of all
# their paths at once, every half second to others.

WATCHED: Final = (WATCHED_HEADER.encode(), str(PROTOCOL_VERSION).encode())
HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), WATCHED]


class WatchedReply:
    """The reply to one watched request."""

    def __init__(self, request: WatchRequest, monitor: MonitorReader, send: Send) -> None:
        self._request, self._monitor, self._send = request, monitor, send
        self._start: Message = {"type": "http.response.start", "status": 500, "headers": []}  # of vLLM's whole reply
        self._body = bytearray()
        self._started = False
        self._tokens = 0

    async def stream(self, app: ASGIApp, scope: Scope, receive: Receive) -> None:
        """Let vLLM handle the request; it notices by itself if the client leaves."""
        handling = asyncio.ensure_future(app(scope, receive, self._keep))
        try:
            with self._monitor.following(self._request.key):
                while not (await asyncio.wait({handling}, timeout=self._interval))[0]:
                    await self._send_progress()
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

    @property
    def _interval(self) -> float:
        """Seconds until the next event. The first one tells the client that the path is watched."""
        return POLLED_SECONDS if self._request.polled and self._started else self._monitor.interval

    async def _send_progress(self) -> None:
        progress = await self._monitor.progress(self._request.key)
        if progress is not None and progress.tokens > self._tokens:
            self._tokens = progress.tokens
            await self._send_event({"sureenough": progress._asdict()})
        elif progress is None and self._tokens and not self._request.record:
            await self._send_event({"sureenough": {"alive": True}})  # the monitor lost it, which must not end it

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
        return {**event, "sureenough": {"record": await self._monitor.record(self._request.key, tokens)}}

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


LARGEST_QUERY: Final = 100 * MAX_KEYS
"""Bytes of a request for the token counts of paths."""


class RecordsMiddleware:
    """Answers requests under /sureenough, watches paths, and passes all other requests on."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self._socket_path = os.environ.get(SOCKET_ENV, "")
        self._monitor = MonitorReader(self._socket_path)
        if self._socket_path:
            decode_whole_texts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http" or not self._socket_path:
            await self.app(scope, receive, send)
        elif (path := scope["path"].removeprefix("/v1")).startswith("/sureenough"):
            response = await self._respond(scope["method"], path.strip("/"), receive)
            await response(scope, receive, send)
        elif scope["method"] == "POST" and (request := self._watch_request(scope)):
            await self._watch(request, scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _watch_request(self, scope: Scope) -> WatchRequest | None:
        """How the path of this request is to be watched, if its header says so and there is a monitor for it."""
        message = _json_object(dict(scope["headers"]).get(WATCH_HEADER.encode(), b""))
        arguments = message.get("arguments")
        if not isinstance(arguments, dict) or message.get("protocol") != PROTOCOL_VERSION:
            return None
        with suppress(UsageError):
            request = parse_watch_arguments(arguments)
            if request is not None and engine_sockets(self._socket_path):
                return replace(request, record=message.get("record") is not False, polled=message.get("polled") is True)
        return None

    async def _watch(self, request: WatchRequest, scope: Scope, receive: Receive, send: Send) -> None:
        """The same request with the arguments in its body, without log-probabilities, and for a whole reply."""
        body = await _read_body(receive)
        rewritten = _rewritten(body, request.to_arguments())
        messages = [{"type": "http.request", "body": rewritten or body, "more_body": False}]

        async def receive_rewritten() -> Message:
            return messages.pop() if messages else await receive()

        if rewritten is None:
            await self.app(scope, receive_rewritten, send)
        else:
            reply = WatchedReply(request, self._monitor, send)
            await reply.stream(self.app, scope, receive_rewritten)

    async def _respond(self, method: str, path: str, receive: Receive) -> JSONResponse:
        match method, *path.split("/"):
            case ["GET", "sureenough"]:
                window = longest_window()
                return JSONResponse({"sureenough": __version__, "protocol": PROTOCOL_VERSION, "k": K, "window": window})
            case ["GET", "sureenough", "paths", key] if KEY_PATTERN.fullmatch(key) is not None:
                record = await self._monitor.record(key, None)
                return JSONResponse(record, 404 if "lost" in record else 200)
            case ["POST", "sureenough", "paths"]:
                keys = _json_object(await _read_body(receive, LARGEST_QUERY)).get("keys")
                if not isinstance(keys, list) or len(keys) > MAX_KEYS or not all(isinstance(key, str) for key in keys):
                    error = f'the body must be {{"keys": [...]}} with at most {MAX_KEYS} keys'
                    return JSONResponse({"error": error}, 400)
                paths = [progress or (None, None) for progress in await self._monitor.request_progress(keys)]
                return JSONResponse({"tokens": [path[0] for path in paths], "tails": [path[1] for path in paths]})
        return JSONResponse({"error": "not found; the paths are /sureenough and /sureenough/paths/KEY"}, 404)


async def _read_body(receive: Receive, limit: int | None = None) -> bytes:
    body, more = bytearray(), True
    while more and (limit is None or len(body) <= limit):
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _json_object(text: bytes) -> dict[str, Any]:
    """A JSON object; an empty one if it is something else."""
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _rewritten(body: bytes, arguments: dict[str, Any]) -> bytes | None:
    """The body that vLLM gets; None if the request is not for a stream, or cannot be watched."""
    request = _json_object(body)
    theirs = request.get("vllm_xargs") or {}
    if not request.get("stream") or not isinstance(theirs, dict) or not is_watchable(request, arguments):
        return None
    for name in ("logprobs", "top_logprobs", "stream", "stream_options"):
        request.pop(name, None)
    return json.dumps({**request, "vllm_xargs": theirs | arguments}).encode()
