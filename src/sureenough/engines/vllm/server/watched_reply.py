"""A watched path's reply: vLLM makes it whole, the client gets it as a stream of very few events.

A path that is watched here needs nothing on the wire before its end. So vLLM is asked for the whole reply, which spares
it an event per token; the stream that the client asked for ends with one event that holds the text and the path's
record. Before, it says how many tokens there are: every 15 seconds to clients that ask for the counts of all their
paths at once, every half second to others.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Final

from sureenough.engines.vllm.protocol import POLLED_HEADER, POLLED_SECONDS, PROTOCOL_VERSION, WATCHED_HEADER
from sureenough.engines.vllm.server.records_socket import ProgressReader, RecordReader

Scope = MutableMapping[str, Any]
Send = Callable[[Scope], Awaitable[None]]
Receive = Callable[[], Awaitable[Scope]]
WATCHED: Final = (WATCHED_HEADER.encode(), str(PROTOCOL_VERSION).encode())
HEADERS: Final = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache"), WATCHED]
POLLED: Final = (POLLED_HEADER.encode(), b"1")
KEEP_ALIVE_SECONDS: Final = 15.0
"""Time after which a path whose tokens cannot be counted any more is said to go on."""


class _WholeReply:
    """The messages that vLLM's application sends."""

    def __init__(self) -> None:
        self.start: Scope = {"type": "http.response.start", "status": 500, "headers": []}
        self.body = bytearray()

    async def send(self, message: Scope) -> None:
        """Keep one message."""
        if message["type"] == "http.response.start":
            self.start = message
        else:
            self.body += message.get("body", b"")


class WatchedReply:
    """The reply to one watched request."""

    def __init__(
        self, key: str, records: RecordReader, progress: ProgressReader, send: Send, record: bool, polled: bool
    ) -> None:
        self._key, self._records, self._progress, self._send = key, records, progress, send
        self._record = record  # False: the path is worth something without its record
        self._polled = polled  # the client asks for the progress of all its paths at once
        self._started = False
        self._tokens = 0
        self._sent_at = 0.0

    async def stream(self, app: Any, scope: Scope, receive: Receive) -> None:
        """Let vLLM handle the request; it notices by itself if the client leaves."""
        reply = _WholeReply()
        handling = asyncio.ensure_future(app(scope, receive, reply.send))
        try:
            with self._progress.following(self._key):
                while not (await asyncio.wait({handling}, timeout=self._interval))[0]:
                    await self._send_progress()
        finally:
            handling.cancel()
        await handling
        if reply.start["status"] != 200 and not self._started:
            await self._send(reply.start)
            await self._send({"type": "http.response.body", "body": bytes(reply.body)})
            return
        await self._send_event(await self._last_event(reply))
        await self._send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    @property
    def _interval(self) -> float:
        """Seconds until the next event. The first one tells the client that the path is watched."""
        return POLLED_SECONDS if self._polled and self._started else self._progress.interval

    async def _send_progress(self) -> None:
        progress = await self._progress.progress(self._key)
        if progress is not None and progress.tokens > self._tokens:
            self._tokens = progress.tokens
            await self._send_event({"sureenough": progress._asdict()})
        elif progress is None and self._tokens and not self._record and self._is_quiet():
            await self._send_event({"sureenough": {"alive": True}})  # the monitor lost it, which must not end it

    def _is_quiet(self) -> bool:
        return asyncio.get_running_loop().time() - self._sent_at > KEEP_ALIVE_SECONDS

    async def _last_event(self, reply: _WholeReply) -> dict[str, Any]:
        try:
            whole = json.loads(reply.body)
            if reply.start["status"] != 200:
                return {"error": {"message": _message(whole), "code": reply.start["status"]}}
            event = as_event(whole)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, RecursionError):
            return {"error": {"message": "vLLM's reply was not a completion", "code": 500}}
        if not self._record:
            return event
        tokens = event["usage"]["completion_tokens"]
        return {**event, "sureenough": {"record": await self._records.read(self._key, tokens)}}

    async def _send_event(self, event: dict[str, Any]) -> None:
        if not self._started:
            self._started = True
            headers = [*HEADERS, POLLED] if self._polled else HEADERS
            await self._send({"type": "http.response.start", "status": 200, "headers": headers})
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


def _message(error: Any) -> str:
    inner = error.get("error", error)
    return str(inner.get("message", inner) if isinstance(inner, dict) else inner)
