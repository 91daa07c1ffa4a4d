"""A middleware of vLLM's own server: marks requests to be watched if their header says so, and serves records.

    vllm serve MODEL --logits-processors sureenough.vllm.processor:WatchProcessor \
        --middleware sureenough.vllm.middleware.RecordsMiddleware

Records are at GET .../sureenough/paths/KEY?tokens=N, token counts of several paths at POST .../sureenough/paths, and
GET .../sureenough says what the monitor can do.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, MutableMapping
from copy import deepcopy
from importlib import import_module
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs

from sureenough import __version__
from sureenough.engines.watch.protocol import (
    MAX_KEYS,
    POLLED_SECONDS,
    PROTOCOL_VERSION,
    SOCKET_ENV,
    WATCH_HEADER,
    WATCHED_HEADER,
    K,
    is_watchable,
    longest_window,
)
from sureenough.vllm.records import ProgressReader, RecordReader, request_progress, request_record

FEWEST: Final = 16
"""Tokens that are worth a call of their own."""
INCOMPLETE: Final = "\N{REPLACEMENT CHARACTER}"


def decode_whole_texts() -> None:
    """Make vLLM's detokenizer decode many tokens at once, if this vLLM has the one that we know."""
    try:
        module: Any = import_module("vllm.v1.engine.detokenizer")
        original = module.FastIncrementalDetokenizer
    except (ImportError, AttributeError):
        return
    if not issubclass(original, WholeTexts):
        module.FastIncrementalDetokenizer = type(original.__name__, (WholeTexts, original), {})


class WholeTexts:
    """A mixin before vLLM's detokenizer, which calls `update` with the new tokens of a request."""

    stop: Any
    token_ids: list[int]
    output_text: str
    tokenizer: Any
    stream: Any
    spaces_between_special_tokens: bool

    def update(self, new_token_ids: list[int], stop_terminated: bool) -> Any:
        """Decode many tokens at once, except one that stops the request, which vLLM may leave out of the text."""
        if len(new_token_ids) >= FEWEST and not self.stop and self.spaces_between_special_tokens:
            together = len(new_token_ids) - bool(stop_terminated)
            text = self._decode(new_token_ids[:together])
            if text is not None:
                self.token_ids.extend(new_token_ids[:together])
                self.output_text += text
                new_token_ids = new_token_ids[together:]
        return super().update(new_token_ids, stop_terminated)  # type: ignore[misc]

    def _decode(self, ids: list[int]) -> str | None:
        """The text that these tokens add; None if vLLM must decode them one by one."""
        try:
            stream = deepcopy(self.stream)  # the original stays as it is if this fails, even a replacement in Python
            text: str | None = stream.step(self.tokenizer, ids)
        except Exception:  # tokenizers has no errors of its own types
            return None
        if text is None or INCOMPLETE in text:
            return None
        self.stream = stream
        return text


# A watched path's reply: vLLM makes it whole, the client gets it as a stream of very few events.
#
# A path that is watched here needs nothing on the wire before its end. So vLLM is asked for the whole reply, which
# spares it an event per token; the stream that the client asked for ends with one event that holds the text and the
# path's record. Before, it says how many tokens there are: every 15 seconds to clients that ask for the counts of all
# their paths at once, every half second to others.

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]
Receive = Callable[[], Awaitable[Scope]]
WATCHED: Final = (WATCHED_HEADER.encode(), str(PROTOCOL_VERSION).encode())
HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), WATCHED]
KEEP_ALIVE_SECONDS: Final = 15.0
"""Time after which a path whose tokens cannot be counted any more is said to go on."""


class WatchHeader(NamedTuple):
    """What a client wants of the monitor."""

    arguments: dict[str, Any]  # of the request that vLLM gets
    record: bool  # whether the reply has the path's record; without, the path is worth something even if it is lost
    polled: bool  # whether the client asks for the progress of all its paths at once


class WatchedReply:
    """The reply to one watched request."""

    def __init__(self, header: WatchHeader, records: RecordReader, progress: ProgressReader, send: Send) -> None:
        self._header, self._key = header, str(header.arguments.get("sure_key"))
        self._records, self._progress, self._send = records, progress, send
        self._start: Scope = {"type": "http.response.start", "status": 500, "headers": []}  # of vLLM's whole reply
        self._body = bytearray()
        self._started = False
        self._tokens = 0
        self._sent_at = 0.0

    async def stream(self, app: Any, scope: Scope, receive: Receive) -> None:
        """Let vLLM handle the request; it notices by itself if the client leaves."""
        handling = asyncio.ensure_future(app(scope, receive, self._keep))
        try:
            with self._progress.following(self._key):
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

    async def _keep(self, message: Scope) -> None:
        """Keep what vLLM's application sends."""
        if message["type"] == "http.response.start":
            self._start = message
        else:
            self._body += message.get("body", b"")

    @property
    def _interval(self) -> float:
        """Seconds until the next event. The first one tells the client that the path is watched."""
        return POLLED_SECONDS if self._header.polled and self._started else self._progress.interval

    async def _send_progress(self) -> None:
        progress = await self._progress.progress(self._key)
        is_quiet = asyncio.get_running_loop().time() - self._sent_at > KEEP_ALIVE_SECONDS
        if progress is not None and progress.tokens > self._tokens:
            self._tokens = progress.tokens
            await self._send_event({"sureenough": progress._asdict()})
        elif progress is None and self._tokens and not self._header.record and is_quiet:
            await self._send_event({"sureenough": {"alive": True}})  # the monitor lost it, which must not end it

    async def _last_event(self) -> dict[str, Any]:
        status = self._start["status"]
        try:
            whole = json.loads(self._body)
            if status != 200:
                inner = whole.get("error", whole)
                message = inner.get("message", inner) if isinstance(inner, dict) else inner
                return {"error": {"message": str(message), "code": status}}
            event = as_event(whole)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return {"error": {"message": "vLLM's reply was not a completion", "code": 500}}
        if not self._header.record:
            return event
        tokens = event["usage"]["completion_tokens"]
        return {**event, "sureenough": {"record": await self._records.read(self._key, tokens)}}

    async def _send_event(self, event: dict[str, Any]) -> None:
        if not self._started:
            self._started = True
            await self._send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        self._sent_at = asyncio.get_running_loop().time()
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
    return {**reply, "choices": [event], "usage": {"completion_tokens": None, **(reply.get("usage") or {})}}


LARGEST_QUERY: Final = 100 * MAX_KEYS
"""Bytes of a request for the token counts of paths."""


class RecordsMiddleware:
    """Answers requests under /sureenough and passes all others on."""

    def __init__(self, app: Any) -> None:
        self.app = app
        self._socket_path = os.environ.get(SOCKET_ENV)
        self._progress, self._records = ProgressReader(self._socket_path or ""), RecordReader(self._socket_path or "")
        if self._socket_path:
            decode_whole_texts()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Handle one ASGI request."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
        elif scope.get("path", "").removeprefix("/v1").startswith("/sureenough"):
            await _respond(self._socket_path, scope, receive, send)
        else:
            header = _watch_header(scope) if scope["method"] == "POST" and self._socket_path else None
            await (self.app(scope, receive, send) if header is None else self._watch(header, scope, receive, send))

    async def _watch(self, header: WatchHeader, scope: Scope, receive: Receive, send: Send) -> None:
        """The same request with the arguments in its body, without log-probabilities, and for a whole reply."""
        body = await _read_body(receive)
        # There may be no logits processor. A path that would be lost without one says so by its record.
        can_count = header.record or os.path.exists(self._socket_path or "")
        request = _rewritten(body, header.arguments) if can_count else None
        messages = [{"type": "http.request", "body": body if request is None else request, "more_body": False}]

        async def receive_rewritten() -> Scope:
            return messages.pop() if messages else await receive()

        if request is None:
            await self.app(scope, receive_rewritten, send)
        else:
            reply = WatchedReply(header, self._records, self._progress, send)
            await reply.stream(self.app, scope, receive_rewritten)


def monitor_info() -> dict[str, Any]:
    """What this server's monitor can do."""
    return {"sureenough": __version__, "protocol": PROTOCOL_VERSION, "k": K, "window": longest_window()}


def _watch_header(scope: Scope) -> WatchHeader | None:
    """The request's header, if there is one and this monitor can use it."""
    try:
        message = json.loads(dict(scope["headers"])[WATCH_HEADER.encode()])
        arguments = dict(message["arguments"])
        usable = message["protocol"] == PROTOCOL_VERSION and arguments["sure_window"] <= longest_window()
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    wishes = message.get("record") is not False, message.get("polled") is True
    return WatchHeader(arguments, *wishes) if usable else None


async def _read_body(receive: Receive, limit: int | None = None) -> bytes:
    body, more = bytearray(), True
    while more and (limit is None or len(body) <= limit):
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return bytes(body)


def _rewritten(body: bytes, arguments: dict[str, Any]) -> bytes | None:
    """The body that vLLM gets; None if the request is not for a stream, or cannot be watched."""
    try:
        request = json.loads(body)
        merged = {**(request.get("vllm_xargs") or {}), **arguments}
    except (ValueError, AttributeError, TypeError, RecursionError):
        return None  # vLLM itself reports what is wrong with it
    if not request.get("stream") or not is_watchable(request, arguments):
        return None
    for name in ("logprobs", "top_logprobs", "stream", "stream_options"):
        request.pop(name, None)
    return json.dumps({**request, "vllm_xargs": merged}).encode()


async def _respond(socket_path: str | None, scope: Scope, receive: Receive, send: Send) -> None:
    path, method = scope["path"].removeprefix("/v1"), scope["method"]
    if socket_path is None:
        await _send_json(send, 503, {"error": f"set {SOCKET_ENV} to a path before starting the server"})
    elif path == "/sureenough" and method == "GET":
        await _send_json(send, 200, monitor_info())
    elif path == "/sureenough/paths" and method == "POST":
        keys = _keys(await _read_body(receive, LARGEST_QUERY))
        if keys is None:
            await _send_json(send, 400, {"error": f'the body must be {{"keys": [...]}} with at most {MAX_KEYS} keys'})
        else:
            paths = [progress or (None, None) for progress in await request_progress(socket_path, keys)]
            counts = {"tokens": [tokens for tokens, _ in paths], "tails": [tail for _, tail in paths]}
            await _send_json(send, 200, counts)
    elif path.startswith("/sureenough/paths/") and method == "GET":
        value = parse_qs(scope.get("query_string", b"").decode("latin-1")).get("tokens", [""])[0]
        tokens = int(value) if value.isascii() and value.isdigit() and len(value) < 10 else None
        record = await request_record(socket_path, path.removeprefix("/sureenough/paths/"), tokens)
        await _send_json(send, 404 if "lost" in record else 200, record)
    else:
        await _send_json(send, 404, {"error": "not found; the paths are /sureenough and /sureenough/paths/KEY"})


def _keys(body: bytes) -> list[str] | None:
    try:
        keys = json.loads(body)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    valid = isinstance(keys, list) and len(keys) <= MAX_KEYS and all(isinstance(key, str) for key in keys)
    return keys if valid else None


async def _send_json(send: Send, status: int, content: dict[str, Any]) -> None:
    body = json.dumps(content).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
