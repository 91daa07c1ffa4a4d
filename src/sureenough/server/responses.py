"""What responses are made of: JSON, server-sent events, errors in OpenAI's shape; and clients that disconnect."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Coroutine, Mapping
from contextlib import aclosing
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Final

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Message, Receive, Send

from sureenough.core.options import RunOptions
from sureenough.errors import (
    EngineError,
    EngineRejected,
    EngineUnavailable,
    MissingLogprobs,
    SureEnoughError,
    UsageError,
)
from sureenough.json_text import encode, mend

JSON: Final = "application/json"
SSE_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]
TYPES: Final = {403: "permission_error", 429: "rate_limit_error"}
"""OpenAI's `type` of an error, for statuses other than the usual ones."""


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(data), status, headers, media_type=JSON)


def sse_event(data: Any) -> bytes:
    """One server-sent event, of data or of a line that is JSON already."""
    return b"data: " + (data if isinstance(data, bytes) else encode(data)) + b"\n\n"


def sse_comment(text: str = "") -> bytes:
    """A comment, which clients skip; on one line, because a carriage return ends a line of events, too."""
    return f": {' '.join(mend(text).split())}\n\n".encode()


def start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content: bytes = b"", *, more: bool = False) -> Message:
    """The ASGI message with a part of a response's body; the last one unless there is more."""
    return {"type": "http.response.body", "body": content, "more_body": more}


async def until_disconnected(receive: Receive, work: Coroutine[Any, Any, None]) -> None:
    """Finish the work; if the client disconnects first, it is cancelled, and ClientDisconnect is raised."""
    working, disconnect = asyncio.create_task(work), asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if not working.done():
            raise ClientDisconnect
        working.result()
    finally:
        await cancel(working, disconnect)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def send_events(parts: AsyncGenerator[bytes], receive: Receive, send: Send) -> None:
    """Send server-sent events until the client disconnects, which raises ClientDisconnect.

    The head is sent with the first part, so that an error before it becomes a response with a status of its own.
    """

    async def work() -> None:
        begun = False
        async with aclosing(parts):
            async for part in parts:
                if not begun:
                    begun = True
                    await send(start(200, SSE_HEADERS))
                if part:
                    await send(body(part, more=True))
        await send(body())

    await until_disconnected(receive, work())


def cancel_once(task: asyncio.Task[Any]) -> None:
    """Cancel a task that closes in good order when it is cancelled; a second cancel would interrupt that."""
    if not task.cancelling():
        task.cancel()


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    for task in tasks:
        cancel_once(task)
    await asyncio.gather(*tasks, return_exceptions=True)


class ErrorDetail(Struct):
    message: str
    type: str
    param: str | None = None
    code: str | None = None


class ErrorBody(Struct):
    """The body of every response that is an error."""

    error: ErrorDetail


@dataclass(eq=False)
class ApiError(Exception):
    """Raised by a handler to send an error as the response."""

    status: int
    message: str
    _: KW_ONLY
    code: str | None = None
    param: str | None = None
    headers: dict[str, str] = field(default_factory=dict)

    def body(self) -> ErrorBody:
        kind = TYPES.get(self.status, "api_error" if self.status >= 500 else "invalid_request_error")
        return ErrorBody(ErrorDetail(self.message, kind, self.param, self.code))

    def response(self) -> Response:
        return json_response(self.body(), self.status, self.headers)


def bad_request(message: str, param: str | None = None, code: str | None = "invalid_value") -> ApiError:
    return ApiError(400, message, code=code, param=param)


def upstream_key_rejected() -> ApiError:
    """The operator has to fix the key. The upstream's message may quote it, and is not repeated."""
    return ApiError(502, "The upstream does not accept this server's key.", code="upstream_rejected")


def unknown_model(model: str, detail: str = "") -> ApiError:
    return ApiError(404, f"The model '{model}' does not exist{detail}.", code="model_not_found", param="model")


def upstream_unavailable(message: str) -> ApiError:
    """A 503 response that asks the client to try again."""
    return ApiError(503, message, code="upstream_unavailable", headers={"Retry-After": "2"})


def shutting_down() -> ApiError:
    """A 503 response for requests that arrive, or are still open, when the server ends."""
    return ApiError(503, "The server is shutting down.", code="stopping", headers={"Retry-After": "5"})


def api_error(error: BaseException, model: str) -> ApiError:
    """The response for an error. One that is not ours is a bug, and its message stays in the log."""
    match error:
        case ApiError():
            return error
        case HTTPException():  # of the router
            return ApiError(error.status_code, f"{error.detail}.", headers=dict(error.headers or {}))
        case asyncio.CancelledError():
            return shutting_down()
        case MissingLogprobs():
            # Not a 5xx, which clients retry by themselves: it would fail in the same way.
            return bad_request(str(error), "model", "missing_logprobs")
        case EngineRejected(status=401 | 403):
            return upstream_key_rejected()
        case EngineRejected(status=404):
            return unknown_model(model, " on the upstream")
        case EngineRejected(status=400 | 413 | 422):
            return bad_request(str(error), code="upstream_rejected")
        case EngineUnavailable():
            return upstream_unavailable(str(error))
        case EngineError():
            return ApiError(502, str(error), code="upstream_error")
        case UsageError(argument=str(name)):
            return bad_request(str(error), f"sureenough.{name}" if name in RunOptions.fields() else name)
        case SureEnoughError():
            return bad_request(str(error))
    return ApiError(500, "The server failed; the log has the details.", code="internal_error")
