"""What every response is made of: JSON, server-sent events, and the race against a client that disconnects."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Message, Receive

from sureenough.json_text import encode, mend

SSE_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # nginx would hold events back
]


def json_response(data: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(encode(data), status, headers, media_type="application/json")


def sse_event(data: Any) -> bytes:
    """One server-sent event, of data or of a line that is JSON already."""
    return b"data: " + (data if isinstance(data, bytes) else encode(data)) + b"\n\n"


def sse_comment(text: str = "") -> bytes:
    """A comment, which clients skip; on one line, because a carriage return ends a line of events, too."""
    return f": {' '.join(mend(text).split())}\n\n".encode()


def start(status: int, headers: list[tuple[bytes, bytes]]) -> Message:
    """The ASGI message with a response's head."""
    return {"type": "http.response.start", "status": status, "headers": headers}


def body(content: bytes = b"", *, more: bool = False) -> Message:
    """The ASGI message with a part of a response's body; the last one unless there is more."""
    return {"type": "http.response.body", "body": content, "more_body": more}


async def finish_unless_disconnected(receive: Receive, work: Coroutine[Any, Any, None]) -> bool:
    """Whether the work was finished before the client disconnected; if not, it is cancelled."""
    working, disconnect = asyncio.create_task(work), asyncio.create_task(_disconnected(receive))
    try:
        await asyncio.wait({working, disconnect}, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            working.result()
        return working.done()
    finally:
        await cancel(working, disconnect)


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def cancel_once(task: asyncio.Task[Any]) -> None:
    """Cancel a task that closes in good order when it is cancelled; a second cancel would interrupt that."""
    if not task.cancelling():
        task.cancel()


async def cancel(*tasks: asyncio.Task[Any]) -> None:
    """Cancel tasks, and wait until they have ended."""
    for task in tasks:
        cancel_once(task)
    await asyncio.gather(*tasks, return_exceptions=True)
