"""Handlers for the page: its files, the runs that it starts, and their news as they come."""

from __future__ import annotations

import asyncio
import re
from importlib.resources import files
from typing import Any, Final

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from sureenough.server.consensus import client_disconnected
from sureenough.server.errors import ApiError
from sureenough.server.model_names import split_model_name
from sureenough.server.routes import ApiRoutes, json_response, read_body
from sureenough.server.run_view import ViewCursor
from sureenough.server.runs import RunRegistry, WatchedRun
from sureenough.server.schema import parse_body

PAGE: Final = files("sureenough.server") / "page"
KINDS: Final = {"html": "text/html", "js": "text/javascript", "css": "text/css", "svg": "image/svg+xml"}
SHUT_IN: Final = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data:"
)
TICK: Final = 0.1
"""Seconds between news to a page."""
PING: Final = 100
"""Ticks of silence after which something is sent all the same."""


class PageRoutes:
    """The handlers."""

    def __init__(self, desk: ApiRoutes) -> None:
        self.desk, self.house, self.runs = desk, desk.house, desk.runs

    async def page(self, request: Request) -> Response:
        """The page itself; it looks at its own address to see what to show."""
        return self._file("index.html")

    async def file(self, request: Request) -> Response:
        """What the page is made of."""
        return self._file(request.path_params["file"])

    def _file(self, name: str) -> Response:
        if not re.fullmatch(r"[A-Za-z][\w.-]*", name) or not (PAGE / name).is_file():
            raise ApiError(404, "There is no such file.", code=None)
        kind = KINDS.get(name.rpartition(".")[2], "text/plain")
        return Response((PAGE / name).read_bytes(), media_type=kind, headers={"Cache-Control": "no-cache"})

    async def begin(self, request: Request) -> Response:
        """Start a run to be watched; the body is that of a chat completion with a strategy."""
        body = parse_body(await read_body(request, self.house.settings.limits.body))
        self.house.asked.admit(split_model_name(body["model"]).model)
        asked = self.desk.read_consensus_request(body, chat=True)
        run = self.runs.begin(asked, str(body["messages"][-1].get("content", "")))
        return json_response({"id": run.id}, 201)

    async def list_runs(self, request: Request) -> Response:
        """Those that were kept."""
        kept, reports = await asyncio.to_thread(lambda: (self.runs.kept(), self.runs.reports()))
        return json_response({"runs": kept, "reports": reports, "keeping": self.house.settings.keep_runs is not None})

    async def stop(self, request: Request) -> Response:
        """End a run with the vote so far."""
        run = await self._find(request)
        if isinstance(run, WatchedRun) and run.task is not None:
            run.task.cancel()
        return Response(status_code=204)

    async def path(self, request: Request) -> Response:
        """One path's words."""
        said = request.path_params["number"]
        run, number = await self._find(request), int(said) if re.fullmatch(r"[0-9]{1,9}", said) else -1
        found = run.watch.path(number) if isinstance(run, WatchedRun) else run.get("words", {}).get(str(number))
        if found is None:
            raise ApiError(404, "There is no such path, or it has said nothing yet.", code=None)
        return json_response(found)

    async def report(self, request: Request) -> Response:
        """A bench report, which is a page of its own: shut in, so that it can touch nothing of this one."""
        file = self.runs.report(request.path_params["name"])
        return Response(file.read_bytes(), media_type="text/html", headers={"Content-Security-Policy": SHUT_IN})

    async def events(self, request: Request) -> ASGIApp:
        """Everything so far, then the news as they come."""
        return RunEventStream(self.runs, await self._find(request))

    async def _find(self, request: Request) -> WatchedRun | dict[str, Any]:
        """A kept run may be large: it is read beside the loop."""
        name = request.path_params["id"]
        live = self.runs.live.get(name)
        return live if live is not None else await asyncio.to_thread(self.runs.find, name)


class RunEventStream:
    """An ASGI application: a run's news as server-sent events, for as long as the page is there."""

    def __init__(self, runs: RunRegistry, run: WatchedRun | dict[str, Any]) -> None:
        self.runs, self.run = runs, run

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send what is new, a few times a second."""
        head = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-store")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        if isinstance(self.run, dict):
            kept = {name: value for name, value in self.run.items() if name not in ("words", "schema")}
            await send({"type": "http.response.body", "body": _event(kept)})
            return
        self.runs.enter(self.run)
        leaving = asyncio.create_task(client_disconnected(receive))
        try:
            await self._tell(self.run, leaving, send)
            if not leaving.done():
                await send({"type": "http.response.body", "body": b""})
        finally:
            leaving.cancel()
            self.runs.leave(self.run)

    async def _tell(self, run: WatchedRun, leaving: asyncio.Task[None], send: Send) -> None:
        """News until the end is told; then the line stays open, for a run is kept while somebody looks at it."""
        cursor, first, told, silent = ViewCursor(), True, False, 0
        while not leaving.done() and not self.runs.house.draining:
            over = run.over.is_set()
            news = {} if told else run.news(cursor, first)
            first, told, silent = False, over, silent + 1
            if news or silent >= PING:
                part = _event(news) if news else b": still here\n\n"
                async with asyncio.timeout(self.runs.house.settings.limits.send):  # a page that reads nothing is let go
                    await send({"type": "http.response.body", "body": part, "more_body": True})
                silent = 0
            await asyncio.wait({leaving}, timeout=TICK)


def _event(data: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(data) + b"\n\n"
